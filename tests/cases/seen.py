"""What one exchange showed to its client and to its engine, and what the product's record says of it.

`Exchange` collects while the case is played; `seen` turns it into a flat mapping: check names to values.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.cases.case import Step
from tests.support.client import Answer, Request
from tests.support.script import Call

Record = Mapping[str, Any]
"""A record of the product in the words of checks; see `product.said`."""


@dataclass(slots=True)
class Exchange:
    """One exchange of a step (or all that went over one raw connection), while it is played and after."""

    id: str
    step: Step
    i: int
    request: Request
    """A raw client's is empty."""
    answers: list[Answer] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    """Requests that reached engines."""
    records: list[Record] = field(default_factory=list)
    engine: str = ""
    """host:port of the engine that it may reach; of several replicas the first."""

    @property
    def name(self) -> str:
        repeated = f" #{self.i}" if self.step.repeat > 1 else ""
        return f"step {self.step.index}{repeated}"

    @property
    def body(self) -> bytes:
        """What the client got, answers joined."""
        return b"".join(answer.body for answer in self.answers)

    @property
    def sent(self) -> bytes:
        """What engines sent of bodies up to the exchange's end: for a client that leaves, it ends then."""
        left_ns = self.answers[-1].left_ns if self.answers else None
        pieces = (piece for call in self.calls for piece in call.sent)
        return b"".join(data for at_ns, data in pieces if left_ns is None or at_ns <= left_ns)

    @property
    def relayed(self) -> bool:
        """The body is the engine's: once it has sent some of it, the product adds nothing of its own."""
        return bool(self.sent)


def seen(exchange: Exchange) -> dict[str, Any]:
    """Every value that a check of this exchange may ask for; what there is no record of is missing."""
    record = dict(exchange.records[-1]) if exchange.records else {}
    return {**record, **_client(exchange), **_engine(exchange)}


def _client(exchange: Exchange) -> dict[str, Any]:
    answer = exchange.answers[-1]
    head = None if answer.head_ns is None else ms(answer.head_ns - answer.began_ns)
    return {
        "status": answer.status,
        "statuses": [each.status for each in exchange.answers if each.status is not None],
        "headers": grouped(answer.headers),
        "body": exchange.body.decode("utf-8", "replace"),
        "bytes_identical": exchange.body == exchange.sent,
        "body_end": answer.end,
        "head_ms": head,
        "forward_delay_ms": forward_delay_ms(exchange),
    }


def _engine(exchange: Exchange) -> dict[str, Any]:
    out: dict[str, Any] = {"engine_requests": len(exchange.calls), "engine_closed_ms": None, "engine_request": None}
    if not exchange.calls:
        return out
    last, arrived_ns = exchange.calls[-1], exchange.answers[-1].arrived_ns
    if last.closed_ns is not None:
        out["engine_closed_ms"] = ms(last.closed_ns - arrived_ns)
    out["engine_request"] = {
        "method": last.method,
        "target": last.target,
        "headers": grouped(last.headers),
        "body": last.body.decode("utf-8", "replace"),
        "body_identical": last.body == exchange.request.body,
    }
    return out


def forward_delay_ms(exchange: Exchange) -> float | None:
    """The longest time that a byte of the body took from engine to client; None: no byte came."""
    came = _offsets([chunk for answer in exchange.answers for chunk in answer.chunks])
    pieces = [piece for call in exchange.calls for piece in call.sent]
    left = _offsets(_without(pieces, *_taken_out(b"".join(data for _, data in pieces), exchange.body)))
    delays, at = [], 0
    for end, sent_ns in left:
        while at < len(came) and came[at][0] < end:
            at += 1
        if at == len(came):
            break  # the client did not get this byte: it left, or the product broke off
        delays.append(came[at][1] - sent_ns)
    return ms(max(delays)) if delays else None


def _taken_out(sent: bytes, got: bytes) -> tuple[int, int]:
    """The bytes that were sent and left out of what came: from where to where; empty where nothing was, or more.

    Where it may have been these or later ones it is these: what came is never taken for later than it was.
    """
    number = len(sent) - len(got)
    if number <= 0 or sent.startswith(got):
        return 0, 0
    pairs = enumerate(zip(reversed(sent), reversed(got), strict=False))
    start = len(got) - next((at for at, (one, other) in pairs if one != other), len(got))
    return (start, start + number) if sent[:start] == got[:start] else (0, 0)


def _without(pieces: list[tuple[int, bytes]], start: int, end: int) -> list[tuple[int, bytes]]:
    """The pieces without the bytes from `start` to `end` of them all."""
    out, at = [], 0
    for at_ns, data in pieces:
        out.append((at_ns, data[: max(0, start - at)] + data[max(0, end - at) :]))
        at += len(data)
    return out


def _offsets(pieces: list[tuple[int, bytes]]) -> list[tuple[int, int]]:
    """(bytes so far, time) after each piece."""
    out, end = [], 0
    for at_ns, data in pieces:
        end += len(data)
        out.append((end, at_ns))
    return out


def grouped(headers: list[tuple[str, str]]) -> dict[str, list[str]]:
    """All lines of each name, in order."""
    out: dict[str, list[str]] = {}
    for name, value in headers:
        out.setdefault(name, []).append(value)
    return out


def ms(ns: int) -> float:
    """Nanoseconds as the ms of checks."""
    return ns / 1e6
