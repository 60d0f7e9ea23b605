"""A case as frozen objects: defaults filled in, pieces written out, placeholders and expressions evaluated."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tests.cases.expressions import as_bytes, evaluate
from tests.support.client import Pieces, Request
from tests.support.script import OK, Read, Script

MS = 1_000_000

DEFAULT_BODY = {"model": "m1", "stream": True, "messages": [{"role": "user", "content": "Say hi"}]}
BODYLESS = ("GET", "HEAD", "DELETE")


@dataclass(frozen=True, slots=True)
class Step:
    """One exchange, or several equal ones; or only a look, where there is no client."""

    index: int
    source: dict[str, Any]
    split: int | None
    """Deliver every read in parts of this size (the runner's own option); None: as the case says."""

    @property
    def at_ns(self) -> int | None:
        """When the client begins to send; None: when the step before has ended."""
        return ns(self.source["at_ms"]) if "at_ms" in self.source else None

    @property
    def repeat(self) -> int:
        return self.source.get("repeat", 1) if "client" in self.source else 0

    @property
    def every_ns(self) -> int | None:
        """Distance between the starts of repetitions; None: one after the other."""
        return ns(self.source["every_ms"]) if "every_ms" in self.source else None

    @property
    def engine_metrics(self) -> dict[str, float] | None:
        return self.source.get("engine_metrics")

    @property
    def check(self) -> dict[str, Any]:
        return dict(self.source.get("check", {}))

    @property
    def raw(self) -> bool:
        return "raw" in self.source.get("client", {})

    def request(self, i: int, host: str, exchange_id: str) -> Request:
        """The i-th request of this step."""
        return _request(self.source["client"], i, host, exchange_id)

    def raw_pieces(self, i: int) -> tuple[tuple[int, bytes, bool], ...]:
        """The bytes of a raw client: (ns, bytes, wait for an interim 100 until then at most)."""
        return tuple((at, data, when == "continue") for at, data, when in _expand(self.source["client"]["raw"], i))

    @property
    def models(self) -> set[str]:
        """Model names in this step's request bodies."""
        if not self.repeat or self.raw:
            return set()
        bodies = (self.request(i, "", "").body for i in range(self.repeat))
        return {name for name in map(_model, bodies) if name}

    @property
    def leaves_ns(self) -> int | None:
        client = self.source["client"]
        return ns(client["leaves_at_ms"]) if "leaves_at_ms" in client else None

    def script(self, number: int, i: int) -> Script:
        """What the engine does with this step's request of this number, in repetition i; the last script holds on."""
        scripts = self._scripts()
        if not scripts:
            return _parted(OK, self.split)
        return _played(scripts[min(number, len(scripts) - 1)], i, self.split)

    def _scripts(self) -> list[dict[str, Any]]:
        engine = self.source.get("engine", [])
        return engine if isinstance(engine, list) else [engine]


@dataclass(frozen=True, slots=True)
class Case:
    """One case that a machine can run."""

    id: str
    source: dict[str, Any]
    steps: tuple[Step, ...]

    @property
    def virtual(self) -> bool:
        return bool(self.source.get("virtual", True))

    @property
    def engine_kind(self) -> str:
        return str(self.source.get("engine_kind", "openai"))

    @property
    def config(self) -> dict[str, Any]:
        return dict(self.source.get("config", {}))

    @property
    def check(self) -> dict[str, Any]:
        return dict(self.source.get("check", {}))

    @property
    def wall_jumps(self) -> list[tuple[int, float]]:
        """(ns from the start, seconds by which the wall clock moves)."""
        return [(ns(jump["at_ms"]), jump["by_ms"] / 1e3) for jump in self.source.get("wall_jumps", [])]


def case_of(source: dict[str, Any], split: int | None = None) -> Case:
    """A well-formed case; `split` delivers every read in parts of that size."""
    steps = (Step(index, step, split) for index, step in enumerate(source["steps"]))
    return Case(source["id"], source, tuple(steps))


def _model(body: bytes) -> str | None:
    try:
        name = json.loads(body)["model"]
    except (ValueError, LookupError, TypeError):
        return None
    return name if isinstance(name, str) else None


def ns(ms: float) -> int:
    """Milliseconds of a case file in nanoseconds."""
    return round(ms * MS)


def _parts(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


def _expand(pieces: list[dict[str, Any]], i: int) -> Iterator[tuple[int, bytes, str | None]]:
    """Pieces with series written out: (ns, bytes, condition)."""
    for piece in pieces:
        data = _piece_bytes(piece, i)
        for k in range(piece.get("times", 1)):
            yield ns(piece["t_ms"] + k * piece.get("every_ms", 0)), data, piece.get("when")


def _piece_bytes(piece: dict[str, Any], i: int) -> bytes:
    if "hex" in piece:
        return bytes.fromhex(piece["hex"])
    if "py" in piece:
        return as_bytes(evaluate(piece["py"], i))
    return _filled(piece["text"], i).encode()


def _filled(text: str, i: int) -> str:
    return text.replace("{i}", str(i))


def _headers(source: Any, i: int) -> list[tuple[str, str]]:
    pairs = source.items() if isinstance(source, dict) else source
    return [(name, on_wire(_filled(v, i) if isinstance(v, str) else evaluate(v["py"], i))) for name, v in pairs]


def on_wire(value: str | bytes) -> str:
    """A header value's bytes, each as one character: text that is not Latin-1 goes as UTF-8."""
    if isinstance(value, bytes):
        return value.decode("latin-1")
    try:
        value.encode("latin-1")
    except UnicodeEncodeError:
        return value.encode().decode("latin-1")
    return value


def _played(source: dict[str, Any], i: int, split: int | None) -> Script:
    return _parted(_script(source, i), split or source.get("split"))


def _parted(script: Script, size: int | None) -> Script:
    """The same with every read delivered in parts of this size, at its time."""
    if not size:
        return script
    reads = (Read(read.at_ns, part, read.when_usage_asked) for read in script.reads for part in _parts(read.data, size))
    return replace(script, reads=tuple(reads))


def _script(source: dict[str, Any], i: int) -> Script:
    reads = tuple(Read(at, data, when == "usage_asked") for at, data, when in _expand(source.get("reads", []), i))
    return Script(
        source.get("status", 200),
        tuple(_headers(source.get("headers", {}), i)),
        reads,
        source.get("ending", "complete"),
        ns(source["head_at_ms"]) if "head_at_ms" in source else None,
        ns(source["ends_at_ms"]) if "ends_at_ms" in source else None,
    )


def _request(client: dict[str, Any], i: int, host: str, exchange_id: str) -> Request:
    method = client.get("method", "POST")
    body = _body(client, method, i)
    headers = _headers(client.get("headers", {}), i)
    names = {name for name, _ in headers}
    if "headers" not in client and body is not None:
        headers.append(("content-type", "application/json"))
    if "host" not in names:
        headers.insert(0, ("host", host))
    if body is not None and "content-length" not in names and "transfer-encoding" not in names:
        headers.append(("content-length", str(len(body))))
    if "x-request-id" not in names:
        headers.append(("x-request-id", exchange_id))
    leaves_ns = ns(client["leaves_at_ms"]) if "leaves_at_ms" in client else None
    target = _filled(client.get("path", "/v1/chat/completions"), i)
    return Request(method, target, tuple(headers), _pieces(client, body), leaves_ns)


def _body(client: dict[str, Any], method: str, i: int) -> bytes | None:
    if "body_raw" in client:
        return _filled(client["body_raw"], i).encode()
    if "body_py" in client:
        value = evaluate(client["body_py"], i)
        return _json(value) if isinstance(value, dict) else as_bytes(value)
    if "body" in client:
        return _json(client["body"])
    return None if method in BODYLESS else _json(DEFAULT_BODY)


def _json(value: Any) -> bytes:
    """JSON in UTF-8 without spaces; a lone surrogate goes as its escape, for UTF-8 has no bytes for it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def _pieces(client: dict[str, Any], body: bytes | None) -> Pieces:
    if body is None:
        return ()
    if "split" not in client or not body:
        return ((0, body),)
    every = client.get("every_ms", 0)
    return tuple((ns(k * every), part) for k, part in enumerate(_parts(body, client["split"])))
