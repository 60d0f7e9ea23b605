"""A case's checks against what was seen. Every function gives faults: reasons, in words; empty where all holds."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.cases.case import on_wire
from tests.cases.operators import SLACK_MS, mismatch
from tests.cases.seen import Exchange, seen

Seen = Mapping[str, Any]
Faults = Iterator[str]

_MISSING = object()


def exchange_faults(exchange: Exchange) -> list[str]:
    """What the step's check finds wrong with one exchange."""
    authority = exchange.calls[-1].engine if exchange.calls else exchange.engine
    check = _filled(exchange.step.check, authority)
    return [f"{exchange.name}: {fault}" for fault in _faults(check, seen(exchange))]


def _filled(check: Any, authority: str) -> Any:
    """`{engine}` is the authority of the engine's URL."""
    if isinstance(check, str):
        return check.replace("{engine}", authority)
    if isinstance(check, dict):
        return {name: _filled(value, authority) for name, value in check.items()}
    return [_filled(item, authority) for item in check] if isinstance(check, list) else check


def _faults(check: dict[str, Any], values: Seen) -> Faults:
    for name, expected in check.items():
        if name == "either":
            yield from _either(expected, values)
        elif (actual := values.get(name, _MISSING)) is _MISSING:
            yield f"{name}: there is no record of it"
        else:
            yield from (f"{name}: {fault}" for fault in _SHAPES.get(name, _plain)(name, expected, actual, values))


def _either(alternatives: list[dict[str, Any]], values: Seen) -> Faults:
    found = [list(_faults(alternative, values)) for alternative in alternatives]
    if all(found):
        yield "either: " + " | or ".join("; ".join(faults) for faults in found)


# --- shapes of checks -----------------------------------------------------------------------------------------------


def _plain(name: str, expected: Any, actual: Any, values: Seen) -> Faults:
    """One value; a bare number of ms may be half a ms off."""
    yield from _one(expected, actual, SLACK_MS if name.endswith("_ms") else 0.0)


def _one(expected: Any, actual: Any, slack: float = 0.0) -> Faults:
    if (fault := mismatch(expected, actual, slack)) is not None:
        yield fault


def _status(name: str, expected: Any, actual: Any, values: Seen) -> Faults:
    if not isinstance(expected, list):
        yield from _one(expected, actual)
    elif len(expected) != len(values["statuses"]):
        yield f"expected {expected}, got {values['statuses']}"
    else:
        for one, got in zip(expected, values["statuses"], strict=True):
            yield from _one(one, got)


def _headers(name: str, expected: dict[str, Any], actual: dict[str, list[str]], values: Seen) -> Faults:
    for key, check in expected.items():
        if not _header_holds(check, actual.get(key, [])):
            yield f"{key}: expected {check!r}, got {actual.get(key)!r}"


def _header_holds(check: Any, lines: list[str]) -> bool:
    if isinstance(check, list):
        return lines == list(map(on_wire, check))
    if isinstance(check, dict) and "any_of" in check:
        return any(_header_holds(option, lines) for option in check["any_of"])
    wanted = on_wire(check) if isinstance(check, str) else check
    return mismatch(wanted, ", ".join(lines) if lines else None) is None


def _gaps(name: str, expected: dict[str, Any], actual: dict[str, Any], values: Seen) -> Faults:
    """Lists are compared with the gaps heard, objects with the gaps that the record folded."""
    for choice, check in expected.items():
        gaps = actual.get(choice, {"list": [], "count": 0})
        if isinstance(check, dict):
            yield from _each(check, gaps, SLACK_MS)
        elif len(check) != len(gaps["list"]):
            yield f"choice {choice}: expected {len(check)} gaps, got {len(gaps['list'])}: {gaps['list'][:20]}"
        else:
            for one, got in zip(check, gaps["list"], strict=True):
                yield from _one(one, got, SLACK_MS)


def _each(expected: dict[str, Any], actual: Mapping[str, Any] | None, slack: float) -> Faults:
    """An object of values; where there is no such object every value is unknown."""
    for key, check in expected.items():
        if (fault := mismatch(check, (actual or {}).get(key), slack)) is not None:
            yield f"{key}: {fault}"


def _members(name: str, expected: dict[str, Any], actual: Mapping[str, Any] | None, values: Seen) -> Faults:
    yield from _each(expected, actual, 0.0)


def _phases(name: str, expected: dict[str, Any], actual: dict[str, float], values: Seen) -> Faults:
    """Phase by phase; `rest` is the sum of all that the check does not name."""
    rest = sum(value for phase, value in actual.items() if phase not in expected)
    yield from _each(expected, {**actual, "rest": rest}, SLACK_MS)


def _request(name: str, expected: dict[str, Any], actual: dict[str, Any] | None, values: Seen) -> Faults:
    if actual is None:
        yield "no request reached the engine"
        return
    for key, check in expected.items():
        shape = _headers if key == "headers" else _plain
        yield from (f"{key}: {fault}" for fault in shape(key, check, actual[key], values))


_SHAPES: dict[str, Callable[[str, Any, Any, Seen], Faults]] = {
    "status": _status,
    "headers": _headers,
    "itl_ms": _gaps,
    "phases": _phases,
    "rates": _members,
    "counted": _members,
    "admission": _members,
    "ledger": _members,
    "engine_request": _request,
}


# --- what is checked always -----------------------------------------------------------------------------------------


def always(exchange: Exchange, *, asks_usage: bool, shipped: bool) -> list[str]:
    """What holds for every exchange, unless its case says otherwise. `shipped`: a server stands in front."""
    says = _says(exchange.step.check)
    found = [*_one_record(exchange, shipped), *_sound_record(exchange, says), *_own_request(exchange, says, asks_usage)]
    return [f"{exchange.name}: always: {fault}" for fault in found]


def _says(check: dict[str, Any]) -> set[str]:
    """What a check says something of, in whichever of its alternatives; of the engine's request member by member."""
    names = set(check).union(*map(_says, check.get("either", ())))
    return names | {f"engine_request.{name}" for name in check.get("engine_request", ())}


def _one_record(exchange: Exchange, shipped: bool) -> Faults:
    """One record; a server that answers malformed HTTP by itself may leave none."""
    number, expected = len(exchange.records), len(exchange.answers)
    own = sum((answer.status or 0) >= 400 for answer in exchange.answers) if shipped else 0
    if not max(expected - own, min(len(exchange.calls), expected)) <= number <= expected:
        yield f"{number} records of {expected} exchanges"


def _sound_record(exchange: Exchange, says: set[str]) -> Faults:
    for record in exchange.records:
        yield from record["faults"]
        if record["outcome"] == "proxy_error" and "outcome" not in says:
            yield "outcome is proxy_error"
        if record["unreadable_events"] and "unreadable_events" not in says:
            yield f"unreadable_events is {record['unreadable_events']}"
    for answer in exchange.answers:
        if answer.raised is not None:
            yield f"the app raised {answer.raised!r}"


def _own_request(exchange: Exchange, says: set[str], asks_usage: bool) -> Faults:
    """One request at the engine at most, and it is the client's."""
    request = exchange.request
    if _most(exchange) > len(exchange.answers) and "engine_requests" not in says:
        yield f"{len(exchange.calls)} requests reached the engine"
    if exchange.step.raw:
        return
    for call in exchange.calls:
        if call.method != request.method and "engine_request.method" not in says:
            yield f"the engine got method {call.method}"
        if call.target != request.target and "engine_request.target" not in says:
            yield f"the engine got target {call.target}"
        of_body = {"engine_request.body", "engine_request.body_identical"}
        if call.body != request.body and not asks_usage and not of_body & says:
            yield "the engine got another body than the client sent"


def _most(exchange: Exchange) -> int:
    """Requests that reached one engine; replicas may each be asked for their list of models, which has no cost."""
    if exchange.request.method not in ("GET", "HEAD"):
        return len(exchange.calls)
    return max(Counter(call.engine for call in exchange.calls).values(), default=0)


def number_faults(what: str, expected: dict[str, Any], actual: Callable[[str], Any]) -> list[str]:
    """Named numbers (metrics, report), each asked for by name."""
    slack = {name: SLACK_MS if name.endswith("_ms") else 0.0 for name in expected}
    reasons = ((name, mismatch(check, actual(name), slack[name])) for name, check in expected.items())
    return [f"{what} {name}: {reason}" for name, reason in reasons if reason is not None]
