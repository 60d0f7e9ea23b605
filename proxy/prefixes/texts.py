"""What the audits of all engines share: the key of their hashes, the chains of texts, and text that was seen before."""

import sys
from collections.abc import Sequence

from proxy.prefixes.canon import Encode
from proxy.prefixes.chains import LONGEST, Chains, pack
from proxy.prefixes.lines import LONG, Lines
from proxy.prefixes.reading import Reading

UTF_32 = f"utf-32-{sys.byteorder[0]}e"
"""Characters as `pack` writes token ids."""

LONG_IDS = LONG // 4
"""Token ids in a row that are looked at in pieces: as many as a long line has, at four characters each."""


class Texts:
    """What all engines' audits share: the per-install key, chains by block size, lines seen. One per data process."""

    # State: chains by block size, lines seen.

    def __init__(self, encode: Encode, secret: bytes) -> None:
        self.secret = secret
        self._encode = encode
        self._chains: dict[int, Chains] = {}
        self._lines = Lines()

    def chains(self, block: int) -> Chains:
        """The chains of one block size."""
        if block not in self._chains:
            self._chains[block] = Chains(self._encode, block)
        return self._chains[block]

    def repeated(self, reading: Reading, behind: int) -> int:
        """Tokens behind the first `behind` that stand in text seen before, about. The text is seen from now on."""
        self._lines.begin()
        if len(reading.prompt.ids) == 1:
            ids = reading.prompt.ids[0][behind:]
            return int(self._lines.known(reading.root, _spelt(ids[:LONGEST]), LONG_IDS, reading.news) * len(ids))
        found, at = 0.0, 0
        ours = reading.rendered / max(1, reading.tokens)
        first = behind * ours
        for segment, size in zip(reading.segments, reading.chains[0].sizes, strict=False):
            at += size
            if at > first and segment.role and not segment.marker:
                text = segment.text
                if at - size < first:
                    head, text = _parted(text, (first - at + size) / size)
                    self._lines.known(reading.root, head, news=reading.news)
                found += self._lines.known(reading.root, text, news=reading.news) * min(size, at - first)
        return int(found / ours) if found else 0

    def unseen(self, reading: Reading) -> None:
        """The engine did not read it: what was news in it still is."""
        self._lines.forget(reading.news)


def _parted(text: str, share: float) -> tuple[str, str]:
    """A text's first so many of its characters, and the others with the whole of their line, if it is not long."""
    at = round(len(text) * share)
    line = text.rfind("\n", 0, at) + 1
    at = line if at - line < LONG else at
    return text[:at], text[at:]


def _spelt(ids: Sequence[int]) -> str:
    """Token ids as characters, one each, for whoever looks for text; empty where no vocabulary has such ids."""
    try:
        return pack(ids).decode(UTF_32, "surrogatepass")
    except UnicodeDecodeError:
        return ""
