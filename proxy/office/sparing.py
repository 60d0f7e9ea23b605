"""A log that nobody can fill: of one kind of line so many are written, then none for a while; how many were left out is
said by the next one."""

import structlog

from proxy.clock import Clock

BURST = 20
"""Lines of a kind in one stretch: enough to see what goes on."""
STRETCH_NS = 10_000_000_000


class Sparing:
    """A processor of structlog. A kind is what stands in the code: the event's name, or the foreign logger's.

    State: for each kind, when its stretch began and how many lines it has had since.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kinds: dict[str, tuple[int, int]] = {}

    def __call__(self, logger: object, method: str, said: structlog.typing.EventDict) -> structlog.typing.EventDict:
        """The line, or structlog.DropEvent."""
        kind, now_ns = said.get("logger") or said["event"], self._clock.now_ns()
        began_ns, lines = self._kinds.get(kind, (now_ns, 0))
        if now_ns - began_ns >= STRETCH_NS:
            if lines > BURST:
                said["left_out"] = lines - BURST
            began_ns, lines = now_ns, 0
        self._kinds[kind] = began_ns, lines + 1
        if lines >= BURST:
            raise structlog.DropEvent
        return said
