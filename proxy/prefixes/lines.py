"""Text that was seen before, wherever it stands: lines by hash, and long lines in pieces.

A cache knows a prompt from its beginning; a line is known again behind any beginning. Where one long line holds all of
a text, a changed time stamp would make all of it new. So a long line that is new is cut where its own characters say:
what differs spoils the piece that it stands in, and no other. What a prompt says twice nobody has seen before it. No
text is kept.
"""

import re
from array import array

from proxy.prefixes.chains import Generations

KNOWN = 200_000
"""Lines and pieces remembered (by hash) in each of two generations."""

LINE = 16
"""Characters of a line, or of a piece, that is worth remembering."""

PROBED = 500
"""Lines of one text that are looked at; of longer texts every second, third, ... line."""

LONG = 256
"""Characters of a line that is looked at in pieces too."""

CUT = 8_192
"""Characters of one text that are cut, at 6 ns each: what stands behind them is taken to be like them."""

CUTS = "\uff0c\u3002" + "".join(chr(code) for code in range(0x10000) if code % 32 == 22)
"""Where to cut. One code point of 32 needs neither blanks nor sentences, and finds some letters of every script: in
English `v`, one of a hundred, in figures the 6. Chinese takes its letters from so many that its commas help."""

_PIECE = re.compile(f"[^{re.escape(CUTS)}]{{{LINE},}}")


class Lines:
    """The lines that were seen. State: hashes of lines and of pieces, each with its first prompt; prompts so far."""

    def __init__(self) -> None:
        self._seen: Generations[int] = Generations(KNOWN)
        self._prompts = 0

    def begin(self) -> None:
        """What is asked about from now on is another prompt's."""
        self._prompts += 1

    def known(self, root: int, text: str, long: int = LONG, news: "array[int] | None" = None) -> float:
        """The share of a text that earlier prompts under this root had, by lines and pieces. It is seen from now on.

        `long`: characters of a line that is looked at in pieces too. `news`: takes what was new, for `forget`.
        """
        news = array("q") if news is None else news
        lines = text.splitlines()
        total, found, room = 0, 0.0, CUT
        for line in lines[:: 1 + len(lines) // PROBED]:
            length = len(line)
            if length < LINE:
                continue
            total += length
            if self._again(hash((root, line)), news):
                found += length
            elif length >= long and room > 0:
                found += length * self._pieces(root, line[:room], news)
                room -= length
        return found / total if total else 0.0

    def forget(self, news: "array[int]") -> None:
        """These were not seen after all."""
        for key in news:
            self._seen.drop(key)

    def _pieces(self, root: int, line: str, news: "array[int]") -> float:
        """The share of a line's pieces that were seen before."""
        pieces: list[str] = _PIECE.findall(line)
        new = {piece for piece in set(pieces) if not self._again(hash(piece) ^ root, news)}
        total = sum(map(len, pieces))
        return 1 - sum([len(piece) for piece in pieces if piece in new]) / total if total else 0.0

    def _again(self, key: int, news: "array[int]") -> bool:
        """Whether an earlier prompt had it."""
        first = self._seen.get(key)
        if first is None:
            self._seen.put(key, self._prompts)
            news.append(key)
        return first is not None and first != self._prompts
