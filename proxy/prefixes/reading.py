"""One request between its look-up and its end: what an audit remembers of it."""

from array import array
from dataclasses import dataclass, field

from proxy.prefixes.canon import IMAGE, MARKERS, Segment
from proxy.prefixes.chains import Chain
from proxy.prefixes.ledger import Sight
from proxy.prefixes.made import Made, made
from proxy.prefixes.scale import Belief, most, shape
from proxy.prefixes.shadow import Added, Taken
from proxy.records import PrefixVerdict, Prompt

TEXT_PART, IMAGE_PART = "text", "image"
COUNTED, SEEN = frozenset({TEXT_PART}), frozenset({TEXT_PART, IMAGE_PART})
"""Kinds of parts that we count, and those that our rendering has at all."""

FRAME = 2
"""Segments that open a message, and those of an image: a marker and what it is called."""


@dataclass(slots=True)
class Reading:
    """One request between its look-up and its end."""

    # State: the slot it got, whether the engine has it, when its model was loaded meanwhile, the lines of it that are
    # news, and the engine's own tokens of its only prompt, once they are said.

    id: str
    model: str
    root: int
    prompt: Prompt
    segments: tuple[Segment, ...]
    chains: tuple[Chain, ...]
    sight: Sight
    verdict: PrefixVerdict
    number: int = 0
    """Unlike that of any other one of its engine, from 1."""
    kinds: frozenset[str] = COUNTED
    """Of its parts, as far as anybody has looked (`look_closer`)."""
    belief: Belief = field(default_factory=Belief)
    """From our tokens to the engine's, as far as others like it have told."""
    slot: Taken | None = None
    begun: bool = False
    emptied_s: float | None = None
    """Its model was loaded while it was under way, until then: what its sight saw before is not what it found."""
    news: "array[int]" = field(default_factory=lambda: array("q"))
    spelt: Chain | None = None

    @property
    def own(self) -> Chain | None:
        """Its only prompt in the engine's own tokens, as the engine said them or the client sent them."""
        return self.chains[0] if self.spelt is None and self.exact and len(self.chains) == 1 else self.spelt

    @property
    def exact(self) -> bool:
        """Its tokens are the engine's own."""
        return self.spelt is not None or (bool(self.prompt.ids) and not self.segments)

    @property
    def tokens(self) -> int:
        """Of all its prompts."""
        return self.spelt.tokens if self.spelt is not None else self.rendered

    @property
    def rendered(self) -> int:
        """The same as we render them."""
        return sum([chain.tokens for chain in self.chains])

    @property
    def opening(self) -> int:
        """Tokens of our rendering up to where the engine's template adds its own: what opens the first message, and
        the last image, for what is left over then is in the images."""
        if len(self.segments) < FRAME or len(self.chains) != 1:
            return 1
        last = 0
        if self.pictured:
            last = max(at for at, segment in enumerate(self.segments) if segment.marker == MARKERS[IMAGE])
        return max(1, sum(self.chains[0].sizes[: last + FRAME]))

    @property
    def pictured(self) -> bool:
        """Whether images stand in it, whose tokens nobody but the engine can count."""
        return IMAGE_PART in self.kinds

    def look_closer(self) -> None:
        """Look at the kinds of its parts: not before its end, for the loop is not held for it until then."""
        self.kinds = frozenset([part.kind for message in self.prompt.messages for part in message.parts])

    @property
    def _text(self) -> int:
        """Tokens of its only prompt without what frames messages: engines have frames of their own."""
        sizes = self.chains[0].sizes
        if not sizes:
            return self.tokens
        said = zip(self.segments, sizes, strict=True)
        return sum([size for segment, size in said if segment.role and not segment.marker])

    @property
    def shape(self) -> str:
        """To which prompts the engine's template says the same."""
        return shape(self.prompt)

    @property
    def added(self) -> Added:
        """What the template adds, and where."""
        return Added(self.opening, max(0, round(self.belief.line.template)))

    def unsure(self, count: int) -> float:
        """Tokens of the engine by which so many of ours may be off."""
        odd = self.chains[0].odd
        return self.belief.unsure(made(odd, count), made(odd, self.rendered))

    def read_in(self, whole: int) -> bool:
        """Whether the engine, which says so many tokens, can have read this prompt, and nothing else: of one that it
        cut nobody knows which tokens it read, and of several it may have told the first alone."""
        if self.prompt.unseen or not self.kinds <= SEEN or whole > most(self._made):
            return False
        if len(self.chains) > 1 and not self.exact:
            return 2 * whole > self.chains[0].tokens + self.tokens
        return not self._short_of(whole)

    def was_cut(self, whole: int | None) -> bool:
        """Whether an engine that says so many tokens has cut it. A template that leaves tools out does so every time:
        what is read then is shared as we know it."""
        return whole is not None and len(self.chains) == 1 and not self.prompt.tools and self._short_of(whole)

    def _short_of(self, whole: int) -> bool:
        if self.exact:
            return whole < self.tokens
        read, least = self._made, self.belief.least
        if whole >= least(read):
            return False
        frames = self.rendered - self._text
        return whole < least(read._replace(plain=read.plain - frames))

    @property
    def _made(self) -> Made:
        """What all its prompts are made of."""
        if len(self.chains) == 1:
            return made(self.chains[0].odd, self.tokens)
        return Made(*map(sum, zip(*[made(chain.odd, chain.tokens) for chain in self.chains], strict=True)))
