"""What is checked always, over exchanges made by hand."""

from typing import Any

import pytest

from tests.cases.case import Step
from tests.cases.checks import always, exchange_faults
from tests.cases.seen import Exchange
from tests.support.client import Answer, Request
from tests.support.script import Call

RECORD: dict[str, Any] = {"outcome": "completed", "unreadable_events": 0, "faults": [], "itl_ms": {}}


def call(engine: str = "e:1") -> Call:
    return Call(engine, "GET", "/v1/models", [], b"", 0)


def exchange(statuses: list[int], records: int, calls: list[Call], check: Any = None, method: str = "GET") -> Exchange:
    answers = [Answer(0, 0, status=status, head_ns=1) for status in statuses]
    step = Step(0, {"client": {"raw": []}, "check": check or {}}, None)
    return Exchange("id", step, 0, Request(method, "/v1/models"), answers, calls, [RECORD] * records)


@pytest.mark.parametrize(
    ("statuses", "records", "calls", "shipped", "sound"),
    [
        ([200, 200], 2, 2, True, True),
        ([200, 200], 1, 2, True, False),
        ([200], 2, 1, True, False),
        ([200, 400], 1, 1, True, True),
        ([200, 400], 1, 2, True, False),
        ([400], 0, 0, True, True),
        ([400], 0, 0, False, False),
        ([200], 0, 0, True, False),
    ],
)
def test_every_exchange_has_one_record_save_what_a_server_answers_by_itself(
    statuses: list[int], records: int, calls: int, shipped: bool, sound: bool
) -> None:
    found = always(exchange(statuses, records, [call()] * calls), asks_usage=False, shipped=shipped)
    assert (found == []) is sound


@pytest.mark.parametrize(
    ("method", "engines", "sound"),
    [("GET", "ab", True), ("GET", "aa", False), ("POST", "ab", False), ("POST", "a", True)],
)
def test_one_request_reaches_an_engine_and_a_list_may_ask_each_replica_once(
    method: str, engines: str, sound: bool
) -> None:
    one = exchange([200], 1, [call(engine) for engine in engines], method=method)
    assert (always(one, asks_usage=False, shipped=False) == []) is sound


def test_what_one_alternative_speaks_of_is_not_checked_always() -> None:
    either = [{"engine_requests": 2}, {"engine_requests": 1, "engine_request": {"target": "/v1/models"}}]
    for check, found in (({}, 2), ({"engine_requests": 2}, 1), ({"either": either}, 0)):
        one = exchange([200], 1, [call(), call()])
        one.step = Step(0, {"client": {}, "check": check}, None)
        one.calls[0].target = "/v1/models/"
        assert len(always(one, asks_usage=False, shipped=False)) == found


def test_a_choice_that_never_spoke_has_no_gaps() -> None:
    fits = {"itl_ms": {"0": [], "1": {"count": 0, "max": None}}}
    assert exchange_faults(exchange([200], 1, [call()], fits)) == []
    assert exchange_faults(exchange([200], 1, [call()], {"itl_ms": {"0": {"count": 1}}})) != []


def test_the_engines_address_is_known_where_nothing_reached_it() -> None:
    one = exchange([502], 1, [], {"body": {"lacks": ["{engine}"]}})
    one.engine = "e:1"
    assert exchange_faults(one) == []
    one.answers[0].chunks = [(1, b"cannot connect to e:1")]
    assert exchange_faults(one) != []


def test_a_header_that_is_not_latin_goes_as_utf_8_and_is_found_again() -> None:
    one = exchange([200], 1, [call()], {"headers": {"x": "日本", "y": ["é"], "z": []}})
    one.answers[0].headers = [("x", "日本".encode().decode("latin-1")), ("y", "é")]
    assert exchange_faults(one) == []
