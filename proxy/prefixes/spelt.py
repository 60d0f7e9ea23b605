"""vLLM's cache in the engine's own tokens, where the engine says them.

Two shadows. One holds prompts as we render them: where the engine did not say a prompt's tokens in time, its reuse is
told from there. The other holds what the engine has: its own tokens of every prompt that it spelt, and our rendering of
the others, which takes up as much room.
"""

from proxy.events import Said
from proxy.prefixes.caches import BLOCK, Blocks, Look
from proxy.prefixes.chains import Chain
from proxy.prefixes.reading import Reading
from proxy.prefixes.shadow import BlockShadow
from proxy.prefixes.texts import Texts


class Spelt(Blocks):
    """The cache of an engine that is asked for ids."""

    def __init__(self, texts: Texts, block: int = BLOCK, capacity: int | None = None) -> None:
        super().__init__(texts, block, capacity)
        self._own = BlockShadow(self._room)

    def look(self, reading: Reading) -> Look:
        """Leading full blocks, in the engine's tokens where they are known."""
        chain = reading.own
        if chain is None:
            return super().look(reading)
        look = self._own.look(chain, self.block)
        return Look(look.resident, look.infinite, chain.whole(self.block))

    def begin(self, reading: Reading) -> None:
        """The engine has the prompt. One that is not spelt yet may be so at its end: until then it takes no room."""
        super().begin(reading)
        if reading.own is not None:
            self._own.hold(reading.own.keys, reading.number)

    def withdraw(self, reading: Reading) -> None:
        """What it alone brought is not there."""
        super().withdraw(reading)
        if reading.own is not None:
            self._own.withdraw(reading.own.keys, reading.number)

    def spell(self, reading: Reading, chain: Chain) -> None:
        """The engine says its tokens."""
        reading.spelt = chain

    def end(self, reading: Reading, said: Said) -> None:
        """It has answered; of its own tokens the last was never read."""
        super().end(reading, said)
        chain = reading.own
        if chain is None:
            for rendered in reading.chains:
                self._own.hold(rendered.keys)
            self._own.hold(self.written(reading, said))
        else:
            answer = said.ids[:-1]
            self._own.hold(self.chains.extend(reading.root, chain, answer).keys if answer else chain.keys)

    def clear(self, model: str | None = None) -> None:
        """Nothing is there."""
        super().clear(model)
        self._own.clear()
