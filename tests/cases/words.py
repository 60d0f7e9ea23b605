"""The vocabulary of case files. It is closed: what does not stand here is a fault that names itself.

A rule takes (where, value) and yields faults. Tables are rules over objects with named keys.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

from tests.cases.expressions import evaluate

Faults = Iterator[str]
Rule = Callable[[str, Any], Faults]


def names(text: str) -> list[str]:
    """Words of a closed list."""
    return text.split()


KINDS = names(
    "sse-framing ndjson-framing stream-outcome utf8 timing-ttft timing-itl buffering "
    "latency-attribution token-accounting request-body tokenizer prefix-cache ollama-native disconnect "
    "overload timeouts http-framing security metrics"
)
ENGINE_KINDS = names("openai vllm sglang llamacpp ollama")
OUTCOMES = names(
    "completed shed queue_timeout refused client_gone engine_unreachable engine_timeout "
    "engine_stalled engine_overloaded engine_rejected engine_error truncated proxy_error"
)
PHASES = names(
    "admission proxy frontend step_wait queue load prefill decode delivery unattributed queue_prefill "
    "prefill_decode engine"
)
BINS = names("hit compulsory structural capacity other_replica text_break engine_gap")
FINDINGS = names(
    "cold_load model_swaps context_truncated num_ctx_ignored engine_durations_distrusted "
    "impossible.prompt_tokens impossible.cached_tokens impossible.output_tokens impossible.reasoning_tokens "
    "impossible.fresh_tokens cache_no_effect cache_contradicted"
)
BREAKERS = names(
    "timestamp date uuid session_id nonce counter user_name locale_number tool_order json_key_order "
    "fewshot_order whitespace trailing_space bom unicode_norm docs_before_instructions "
    "image_before_text think_stripped history_truncated history_rewritten prompt_version other"
)
REASONS = names(
    "budget_tokens rate_requests prompt_too_long queue_full queue_deadline predicted_ttft concurrency disconnected"
)
HISTOGRAMS = ["ttfb", "ttft", "itl", "tpot", "duration", "overhead", *(f"phase.{phase}" for phase in PHASES)]
SERIES = [
    *names("requests in_flight prompt_tokens output_tokens cached_tokens cache_known_prompt_tokens"),
    *names("cache_unknown_requests prompt_unknown_requests cold_loads count_error.count edge_lists"),
    *["labels.model", "labels.route", "labels.tenant", "labels.longest"],
    *(f"requests.{outcome}" for outcome in OUTCOMES),
    *(f"{name}.{part}" for name in HISTOGRAMS for part in names("count sum_ms p50_ms p99_ms highest_edge_ms")),
]
REPORT = [
    f"{name}.{part}" for name in ("ttft", "duration") for part in names("count p50_ms p90_ms p99_ms p999_ms max_ms")
]


# --- rules ----------------------------------------------------------------------------------------------------------


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _strings(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, str) for item in value)


def simple(holds: Callable[[Any], bool], what: str) -> Rule:
    """A rule without parts."""

    def rule(where: str, value: Any) -> Faults:
        if not holds(value):
            yield f"{where}: must be {what}, not {value!r:.80}"

    return rule


def word(names: list[str]) -> Rule:
    """One of a closed list."""
    return simple(lambda value: isinstance(value, str) and value in names, f"one of {', '.join(names)}")


def table(**keys: Rule) -> Rule:
    """An object with these keys and no other."""
    return mapping(keys)


def mapping(keys: dict[str, Rule], each: Rule | None = None, names: str | None = None) -> Rule:
    """An object with these keys; others only where `each` rules their values (and `names` matches them)."""

    def rule(where: str, value: Any) -> Faults:
        if not isinstance(value, dict):
            yield f"{where}: must be an object"
            return
        for key, item in value.items():
            known = keys.get(key) or (each if names is None or re.fullmatch(names, key) else None)
            if known is None:
                yield f"{where}: unknown key {key!r}"
            else:
                yield from known(f"{where}.{key}", item)

    return rule


def some(shape: Rule) -> Rule:
    """A shape with something in it: an empty check would hold whatever happens."""

    def rule(where: str, value: Any) -> Faults:
        yield from shape(where, value)
        if isinstance(value, dict) and not value:
            yield f"{where}: checks nothing"

    return rule


def needing(shape: Rule, *keys: str) -> Rule:
    """A shape in which these keys must stand."""

    def rule(where: str, value: Any) -> Faults:
        yield from shape(where, value)
        if isinstance(value, dict):
            yield from (f"{where}: needs {key}" for key in keys if key not in value)

    return rule


def listing(each: Rule, least: int = 0) -> Rule:
    """A list of at least so many."""

    def rule(where: str, value: Any) -> Faults:
        if not isinstance(value, list) or len(value) < least:
            yield f"{where}: must be a list" + (f" of {least} at least" if least else "")
            return
        for at, item in enumerate(value):
            yield from each(f"{where}[{at}]", item)

    return rule


def either_way(one: Rule, kind: type, other: Rule) -> Rule:
    """`one` for values of a type, `other` for the rest."""
    return lambda where, value: one(where, value) if isinstance(value, kind) else other(where, value)


TEXT = simple(lambda value: isinstance(value, str), "a string")
BOOL = simple(lambda value: isinstance(value, bool), "true or false")
MS = simple(lambda value: _number(value) and value >= 0, "a number of ms, not negative")
COUNT = simple(lambda value: _number(value) and isinstance(value, int) and value >= 1, "a whole number from 1")
WHOLE = simple(lambda value: _number(value) and isinstance(value, int) and value >= 0, "a whole number from 0")
NUMBER = simple(_number, "a number")
OBJECT = simple(lambda value: isinstance(value, dict), "an object")


def expression(where: str, value: Any) -> Faults:
    """An expression that gives a string, bytes or an object."""
    try:
        result = evaluate(value)
    except Exception as error:  # whatever a stranger's expression raises is a fault of the file
        yield f"{where}: does not evaluate: {error}"
        return
    if not isinstance(result, str | bytes | dict):
        yield f"{where}: must give a string, bytes or an object"


def hexadecimal(where: str, value: Any) -> Faults:
    """Bytes as hex digits."""
    try:
        bytes.fromhex(value)
    except (TypeError, ValueError):
        yield f"{where}: must be hex"


# --- operators ------------------------------------------------------------------------------------------------------

_NUMBERS = ("approx", "tol", "ge", "le", "between", "any_of")
_TEXTS = ("any_of", "contains", "lacks", "starts_with", "len", "json")
_HEADERS = ("any_of", "absent", "present", "contains", "lacks", "starts_with", "len")
_TOGETHER = {"contains", "lacks", "starts_with", "len"}

_ARGUMENTS: dict[str, Rule] = {
    **dict.fromkeys(("approx", "tol", "ge", "le", "len"), NUMBER),
    "between": simple(lambda v: isinstance(v, list) and len(v) == 2 and all(map(_number, v)), "two numbers"),
    **dict.fromkeys(("absent", "present"), simple(lambda value: value is True, "true")),
    **dict.fromkeys(("contains", "lacks"), simple(_strings, "a list of strings")),
    "starts_with": TEXT,
    "json": OBJECT,
}


def checked(allowed: tuple[str, ...], plain: Rule) -> Rule:
    """A value of a check: plain, or an object of operators that fit here."""

    def rule(where: str, value: Any) -> Faults:
        if not isinstance(value, dict):
            yield from plain(where, value)
            return
        for name, argument in value.items():
            if name not in _ARGUMENTS and name != "any_of":
                yield f"{where}: unknown operator {name!r}"
            elif name not in allowed:
                yield f"{where}: operator {name!r} does not fit here"
            else:
                yield from (listing(rule, 2) if name == "any_of" else _ARGUMENTS[name])(f"{where}.{name}", argument)
        yield from _combination(where, set(value))

    return rule


def _combination(where: str, names: set[str]) -> Faults:
    """`approx` and `tol` must stand together, four others may; the rest stand alone."""
    if ("approx" in names) != ("tol" in names):
        yield f"{where}: approx and tol belong together"
    elif not names:
        yield f"{where}: empty operator"
    elif len(names) > 1 and names != {"approx", "tol"} and not names <= _TOGETHER:
        yield f"{where}: operators do not combine: {sorted(names)}"


def chosen(names: list[str]) -> Rule:
    """One of a closed list, null, or any_of them."""
    return checked(("any_of",), simple(lambda v: v is None or v in names, f"null or one of {', '.join(names)}"))


SOME_NUMBER = checked(_NUMBERS, simple(lambda value: value is None or _number(value), "a number or null"))
SOME_TEXT = checked(_TEXTS, simple(lambda value: value is None or isinstance(value, str), "a string or null"))
SOME_HEADER = checked(
    _HEADERS, simple(lambda value: isinstance(value, str) or value == [] or _strings(value), "a string or a list")
)
SOME_FINDINGS = checked(("contains", "lacks"), simple(lambda value: False, "contains and/or lacks"))


def found(where: str, value: Any) -> Faults:
    """Findings that are there, and that are not."""
    yield from SOME_FINDINGS(where, value)
    if isinstance(value, dict):
        for name in (*value.get("contains", ()), *value.get("lacks", ())):
            if name not in FINDINGS:
                yield f"{where}: {name!r} is not a finding"


# --- inputs ---------------------------------------------------------------------------------------------------------


def pair(where: str, value: Any) -> Faults:
    """A header: [name, value]."""
    if not (isinstance(value, list) and len(value) == 2):
        yield f"{where}: must be [name, value]"
        return
    yield from header(f"{where}.{value[0]}", value[0], value[1])


def header(where: str, name: Any, value: Any) -> Faults:
    """A name in lower case, and a string or an expression."""
    if not isinstance(name, str) or name != name.lower():
        yield f"{where}: header names are strings in lower case"
    yield from either_way(table(py=expression), dict, TEXT)(where, value)


def headers(where: str, value: Any) -> Faults:
    """An object, or a list of pairs."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from header(f"{where}.{name}", name, item)
    else:
        yield from listing(pair)(where, value)


def pieces(when: str) -> Rule:
    """Timed bytes, in order; `when` is the one condition that fits here."""
    shape = table(t_ms=MS, every_ms=MS, times=COUNT, text=TEXT, hex=hexadecimal, py=expression, when=word([when]))

    def piece(where: str, value: Any) -> Faults:
        yield from shape(where, value)
        if isinstance(value, dict):
            if sum(key in value for key in ("text", "hex", "py")) != 1:
                yield f"{where}: needs exactly one of text, hex, py"
            if "t_ms" not in value:
                yield f"{where}: needs t_ms"
            if ("times" in value) != ("every_ms" in value):
                yield f"{where}: times and every_ms belong together"

    return listing(piece)


def alone(shape: Rule, names: tuple[str, ...]) -> Rule:
    """A table in which at most one of these keys stands."""

    def rule(where: str, value: Any) -> Faults:
        yield from shape(where, value)
        if isinstance(value, dict) and sum(name in value for name in names) > 1:
            yield f"{where}: at most one of {', '.join(names)}"

    return rule


CLIENT = alone(
    table(
        method=TEXT,
        path=TEXT,
        headers=headers,
        body=OBJECT,
        body_raw=TEXT,
        body_py=expression,
        raw=pieces("continue"),
        split=COUNT,
        every_ms=MS,
        leaves_at_ms=MS,
    ),
    ("body", "body_raw", "body_py", "raw"),
)
ENGINE = table(
    status=COUNT,
    headers=headers,
    head_at_ms=MS,
    reads=pieces("usage_asked"),
    split=COUNT,
    ending=word(names("complete close reset stall refuse")),
    ends_at_ms=MS,
)
CONFIG = table(
    mode=word(["off", "observe", "enforce"]),
    encoding=word(["cl100k_base", "o200k_base"]),
    max_prompt_tokens=COUNT,
    max_concurrency=COUNT,
    queue_length=WHOLE,
    first_byte_timeout_ms=MS,
    idle_timeout_ms=MS,
    body_limit_bytes=COUNT,
    ask_usage=BOOL,
    tenants=listing(needing(table(name=TEXT, key=TEXT, requests_per_minute=COUNT), "name", "key")),
    block_size=COUNT,
    replicas=COUNT,
    log_level=word(["debug", "info"]),
    engine_host=TEXT,
    engine_idle_close_ms=MS,
)

# --- checks ---------------------------------------------------------------------------------------------------------

METRICS = some(mapping(dict.fromkeys(SERIES, SOME_NUMBER)))
HEADER_CHECKS = mapping({}, SOME_HEADER, "[^A-Z]+")
GAPS = mapping(dict.fromkeys(names("count mean p50 p99 max"), SOME_NUMBER))

_CHECKS: dict[str, Rule] = {
    **dict.fromkeys(("status",), either_way(listing(SOME_NUMBER), list, SOME_NUMBER)),
    "headers": HEADER_CHECKS,
    **dict.fromkeys(("body", "model", "text", "finish"), SOME_TEXT),
    **dict.fromkeys(("bytes_identical", "done"), BOOL),
    "body_end": chosen(["complete", "aborted"]),
    "outcome": chosen(OUTCOMES),
    **dict.fromkeys(
        names(
            "head_ms forward_delay_ms ttfb_ms ttft_ms answer_ttft_ms duration_ms tpot_ms events token_events "
            "unreadable_events prompt_tokens cached_tokens output_tokens reuse_tokens engine_requests "
            "engine_closed_ms"
        ),
        SOME_NUMBER,
    ),
    "itl_ms": mapping({}, either_way(listing(SOME_NUMBER), list, GAPS), r"\d+"),
    "rates": table(prefill=SOME_NUMBER, decode=SOME_NUMBER),
    "phases": some(mapping(dict.fromkeys([*PHASES, "rest"], SOME_NUMBER))),
    "counted": table(
        tokens=SOME_NUMBER,
        prompts=SOME_NUMBER,
        images=SOME_NUMBER,
        unknown_parts=SOME_NUMBER,
        how=chosen(["exact", "calibrated", "estimated"]),
    ),
    "admission": table(decision=chosen(["admitted", "queued", "shed"]), reason=chosen(REASONS)),
    "ledger": some(mapping(dict.fromkeys(BINS, SOME_NUMBER))),
    "findings": found,
    "engine_request": table(
        method=SOME_TEXT, target=SOME_TEXT, headers=HEADER_CHECKS, body=SOME_TEXT, body_identical=BOOL
    ),
    "metrics": METRICS,
}
CHECK = mapping({**_CHECKS, "either": listing(mapping(_CHECKS), 2)})
AFTER = table(
    metrics=METRICS,
    report=some(mapping(dict.fromkeys(REPORT, SOME_NUMBER))),
    breaker=either_way(
        table(message=SOME_NUMBER, role=SOME_TEXT, char=SOME_NUMBER, kind=chosen(BREAKERS)),
        dict,
        simple(lambda value: value is None, "an object or null"),
    ),
    findings=found,
    never_shown=simple(_strings, "a list of strings"),
    memory_growth_bytes=SOME_NUMBER,
    engine_requests=SOME_NUMBER,
)
STEP = table(
    at_ms=MS,
    repeat=COUNT,
    every_ms=MS,
    client=CLIENT,
    engine=either_way(listing(ENGINE, 1), list, ENGINE),
    engine_metrics=mapping({}, NUMBER, r"[a-zA-Z_:][a-zA-Z0-9_:]*(\{.*\})?"),
    check=CHECK,
)
CASE = table(
    id=simple(lambda v: isinstance(v, str) and bool(re.fullmatch(r"FC-\d{3}[a-z]?", v)), "like FC-012 or FC-012b"),
    source=TEXT,
    date=TEXT,
    kind=word(KINDS),
    symptom=TEXT,
    why=TEXT,
    machine=BOOL,
    expect=TEXT,
    virtual=BOOL,
    engine_kind=word(ENGINE_KINDS),
    config=CONFIG,
    wall_jumps=listing(needing(table(at_ms=MS, by_ms=NUMBER), "at_ms", "by_ms")),
    steps=listing(STEP, 1),
    check=AFTER,
)


def faults(case: Any) -> list[str]:
    """What this case says outside the vocabulary; empty if it is well formed."""
    where = case.get("id", "?") if isinstance(case, dict) else "?"
    return list(CASE(where, case)) or list(_whole(where, case))


def _whole(where: str, case: dict[str, Any]) -> Faults:
    """What tables can not say: keys that must be there, keys that exclude one another."""
    needed = ("id", "steps") if case.get("machine", True) else ("id", "expect")
    yield from (f"{where}: needs {key}" for key in needed if key not in case)
    for at, step in enumerate(case.get("steps", ())):
        yield from _step(f"{where}.steps[{at}]", step, case)


def _step(where: str, step: dict[str, Any], case: dict[str, Any]) -> Faults:
    """The same for one step."""
    check = step.get("check", {})
    if "client" not in step and set(check) - {"metrics"}:
        yield f"{where}: a step without a client can only check metrics"
    if "client" in step and "metrics" in check:
        yield f"{where}: metrics are checked in steps without a client"
    if "client" not in step and "engine" in step:
        yield f"{where}: an engine script needs a client"
    if "every_ms" in step and "repeat" not in step:
        yield f"{where}: every_ms needs repeat"
    if "raw" in step.get("client", {}) and case.get("virtual", True):
        yield f"{where}: raw needs virtual: false"
