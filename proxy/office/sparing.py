"""A log that nobody can fill: of one kind of line so many are written, then none for a while; how many were left out is
said by the next one. What answers whoever runs us is never left out."""

import structlog

from proxy.clock import Clock

BURST = 20
"""Lines of a kind in one stretch: enough to see what goes on."""
STRETCH_NS = 10_000_000_000

ANSWERS = frozenset({"reloaded", "reload_refused"})
"""One for each signal of whoever runs us: the last one tells what is in force, and no client can make one."""


class Sparing:
    """A processor of structlog. A kind is what stands in the code: the event's name, or the foreign logger's.

    State: for each kind, when its stretch began and how many lines it has had since.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kinds: dict[str, tuple[int, int]] = {}

    def __call__(self, logger: object, method: str, said: structlog.typing.EventDict) -> structlog.typing.EventDict:
        """The line, or structlog.DropEvent."""
        if said["event"] in ANSWERS:
            return said
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
