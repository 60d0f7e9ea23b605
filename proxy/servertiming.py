"""What a client may be told of time, in the syntax of W3C's Server-Timing: `name;dur=milliseconds`, comma separated.

Only what is known at that moment, and nothing of what it means: our own clock's marks, and durations as the engine
says them.
"""

from proxy.records import EngineReport
from proxy.timeline import Recorder

PHASES = ("frontend", "queue", "load", "prefill", "decode")
"""The engine's own durations, by what they are called here."""


def told(recorder: Recorder, now_ns: int, report: EngineReport | None = None) -> bytes:
    """The value of the header. `report`: what the engine says of itself."""
    known = recorder.so_far(now_ns)
    if report is not None:
        known += [(name, getattr(report, f"{name}_ns")) for name in PHASES]
    return ", ".join([f"{name};dur={ns / 1e6:.3f}" for name, ns in known if ns is not None]).encode()


def comment(recorder: Recorder, now_ns: int, report: EngineReport | None = None) -> bytes:
    """The same as a comment of an event stream, which clients skip (HTML, 9.2.6)."""
    return b": phasegate " + told(recorder, now_ns, report) + b"\n\n"
