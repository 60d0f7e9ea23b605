"""Engines that work in slots: when a residual was waiting, and when it was the engine's own work."""

from typing import NamedTuple

from proxy.records import Class, Evidence


class Residual(NamedTuple):
    """Time before the prompt was begun, split into waiting for a slot and work of the front end."""

    queue_ns: int
    frontend_ns: int
    klass: Class


def part(evidence: Evidence, residual_ns: int, before_ns: int = 0) -> Residual:
    """Waiting only while every slot of the runner was taken by others, which starts to count at dispatch.

    `before_ns`: what passed between dispatch and the residual (a load). With the number of slots unknown, waiting
    behind others is inferred.
    """
    klass = Class.INFERRED if evidence.slots is None and evidence.ahead else Class.DERIVED
    if evidence.ahead < (evidence.slots or 1):
        return Residual(0, residual_ns, klass)
    queue = min(residual_ns, max(evidence.contended_ns - before_ns, 0))
    return Residual(queue, residual_ns - queue, klass)
