"""The office's search for prefix breakers: in a thread of its own, one family at a time, at most so often.

The vocabulary is loaded when the first prompt comes: an office without an audit does not pay for it.
"""

import asyncio
from collections import deque
from typing import Any

from proxy.messages import PromptSeen
from proxy.prefixes.search import Search
from proxy.tokens.pieces import pieces
from proxy.tokens.vocabularies import DEFAULT, load

STEP_S = 2.0
"""Between two searches of a family, each some tenths of a second of one core: a tenth of a core at most."""

WAITING = 240
"""Prompts that wait for the searcher; two minutes' sample. Older ones are dropped."""


class Research:
    """Prompts in, a report out."""

    # State: prompts that wait, the search (None until the first prompt), and its last report.
    def __init__(self, secret: bytes, capture_text: bool) -> None:
        self._secret = secret
        self._capture_text = capture_text
        self._waiting: deque[PromptSeen] = deque(maxlen=WAITING)
        self._search: Search | None = None
        self.report: dict[str, Any] = {"offered": 0, "sampled": 0, "families": [], "breakers": []}
        """What was found so far, as `/api/prefixes` shows it."""

    def take(self, seen: PromptSeen) -> None:
        """A sampled prompt."""
        self._waiting.append(seen)

    async def run(self) -> None:
        """Searches, for ever. A task of its own."""
        while True:
            await asyncio.sleep(STEP_S)
            await asyncio.to_thread(self.step)

    def step(self) -> None:
        """Files what waits, and searches one family."""
        if self._search is None and not self._waiting:
            return
        search = self._search = self._search or self._begun()
        while self._waiting:
            seen = self._waiting.popleft()
            search.offer(seen.id, seen.at_s, seen.engine, seen.model, seen.prompt, seen.answer)
        search.step()
        self.report = search.report()

    def _begun(self) -> Search:
        encoding = load(DEFAULT)

        def encode(text: str) -> list[int]:
            return [token for piece in pieces(text) for token in encoding.encode_ordinary(piece)]

        return Search(encode, self._secret, capture_text=self._capture_text)
