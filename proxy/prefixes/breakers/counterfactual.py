"""What a change would have saved: the prompts of a family run once more through an infinite cache.

A family alone is enough: prompts of other families share less than a block with it, or nothing at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from proxy.prefixes.breakers.documents import Document
from proxy.prefixes.canon import Encode
from proxy.prefixes.chains import Chains


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an infinite cache gives a family, request by request."""

    tokens: tuple[int, ...]
    reuse: tuple[int, ...]

    @property
    def fresh(self) -> int:
        """Tokens that had to be computed."""
        return sum(self.tokens) - sum(self.reuse)


class Replay:
    """Runs documents through an infinite cache with answers inserted; texts seen before are not tokenised again."""

    # State: the chains, which remember tokens of texts.

    def __init__(self, encode: Encode, block: int) -> None:
        self.block = block
        self._chains = Chains(encode, block)

    def run(self, documents: Sequence[Document]) -> Outcome:
        """Reuse of each document, in order of arrival."""
        known: set[int] = set()
        tokens, reuse = [], []
        for document in documents:
            chain = self._chains.chain(document.root, document.segments)
            usable = chain.usable(self.block)
            found = 0
            while found < usable and chain.keys[found] in known:
                found += 1
            tokens.append(chain.tokens)
            reuse.append(found * self.block)
            known.update(self._chains.extend(document.root, chain, document.answer or "").keys)
        return Outcome(tuple(tokens), tuple(reuse))

    def packed(self, document: Document) -> bytes:
        """The tokens of a document, packed."""
        return self._chains.packed(document.segments)
