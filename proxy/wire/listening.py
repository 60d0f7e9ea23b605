"""A reader that hears the prompt too: its token ids, as the engine says them to who asks."""

from collections.abc import Callable

from proxy.events import Event, Frame, Reader
from proxy.wire.cutting import read

_MARK = b'"prompt_token_ids":'


class PromptIds:
    """Reads frames as `reader` does, and tells the prompt's ids as they stand there in JSON: those of the first choice
    that has some."""

    # State: the reader's, and who is told; nobody, once that is done.
    __slots__ = ("_reader", "_tell")

    def __init__(self, reader: Reader, tell: Callable[[bytes], None]) -> None:
        self._reader = reader
        self._tell: Callable[[bytes], None] | None = tell

    def read(self, frame: Frame) -> Event:
        """What the frame says. Raises `Unreadable`."""
        if self._tell is not None and _MARK in frame.data:
            self._hear(self._tell, frame.data)
        return self._reader.read(frame)

    def complete(self) -> bool:
        """As the reader says."""
        return self._reader.complete()

    def _hear(self, tell: Callable[[bytes], None], data: bytes) -> None:
        body = read(data)
        if body is None:
            return
        for ids in map(bytes, (body.prompt_token_ids, *(choice.prompt_token_ids for choice in body.choices))):
            if ids.startswith(b"["):
                self._tell = None
                tell(ids)
                return
