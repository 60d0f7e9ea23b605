"""The engines' lists of models, told as one."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.support.client import Answer, simple_request
from tests.support.clock import VirtualLoop, run
from tests.support.house import House
from tests.support.pages import Pages, application, serving
from tests.support.script import OK, Call, Read, Script
from tests.support.streams import JSON
from tests.test_fleet import SITES, THREE, at, site


def listed(pages: Pages, *, method: str = "GET", header: tuple[tuple[str, str], ...] = (), **settings: Any) -> Any:
    """Status, body, and the calls that asked for the lists."""

    async def work(house: House) -> Any:
        before = len(house.engine.calls)
        request = simple_request(b"", "/v1/models", headers=header)
        request = type(request)(method, request.target, request.headers)
        answer = await house.ask(request)
        return answer, house.engine.calls[before:], house

    return at(pages, work, **settings)


def test_lists_of_models_are_told_as_one() -> None:
    answer, calls, house = listed(SITES)
    assert (answer.status, [entry["id"] for entry in json.loads(answer.body)["data"]]) == (
        200, ["a", "b", "c:latest"],
    )  # fmt: skip
    assert sorted(call.engine for call in calls) == sorted(SITES)
    (record,) = house.records
    assert (record.engine, record.outcome.value) == ("all", "completed")


def test_a_silent_engine_is_left_out_of_the_list() -> None:
    answer, _, _ = listed({**SITES, "one.test:1": None, "two.test:1": {}})
    assert [entry["id"] for entry in json.loads(answer.body)["data"]] == ["c:latest", "b"]


def test_no_list_at_all_is_a_gateways_error() -> None:
    answer, _, house = listed(dict.fromkeys(SITES))
    assert (answer.status, house.records[0].outcome.value) == (502, "engine_unreachable")


REFUSES = Script(
    401,
    (("content-type", "application/json"), ("www-authenticate", "Bearer"), ("content-length", "14")),
    (Read(0, b'{"error":"no"}'),),
)
ALLOWS = Script(204, (("access-control-allow-origin", "*"), ("access-control-allow-headers", "authorization")))


def by_method(call: Call) -> Script:
    return ALLOWS if call.method == "OPTIONS" else REFUSES


@pytest.mark.parametrize(("method", "status"), [("GET", 401), ("HEAD", 401), ("OPTIONS", 204)])
def test_where_no_engine_gives_a_list_the_first_ones_word_is_the_answer(method: str, status: int) -> None:
    async def main(loop: VirtualLoop) -> tuple[Answer, House]:
        house = House(loop, by_method, upstream=THREE)
        asked = simple_request(b"", "/v1/models?all=gr%C3%BC\xdf", headers=(("origin", "http://page.test"),))
        return await house.ask(replace(asked, method=method)), house

    answer, house = run(main)
    assert (answer.status, answer.end) == (status, "complete")
    assert answer.body == (b'{"error":"no"}' if method == "GET" else b"")
    names = {name for name, _ in answer.headers}
    assert ("www-authenticate" in names, "access-control-allow-origin" in names) == (status == 401, status == 204)
    assert {call.target for call in house.calls} == {"/v1/models?all=gr%C3%BC\xdf"}
    assert {call.header("origin") for call in house.calls} == {"http://page.test"}
    assert len(house.calls) == (1 if method == "OPTIONS" else len(THREE))
    assert house.records[0].outcome.value == ("completed" if status == 204 else "engine_rejected")


def test_a_page_may_read_a_list_that_each_engine_lets_it_read() -> None:
    listed = OK.reads[0].data.replace(b"choices", b"data")
    script = Script(200, (*JSON, ("access-control-allow-origin", "*"), ("etag", "x")), (Read(0, listed),))

    async def main(loop: VirtualLoop) -> Answer:
        return await House(loop, script, upstream=THREE).ask(simple_request(b"", "/v1/models"))

    headers = dict(run(main).headers)
    assert (headers["access-control-allow-origin"], "etag" in headers) == ("*", False)


def test_a_head_of_the_list_has_no_body() -> None:
    answer, _, _ = listed(SITES, method="HEAD")
    assert (answer.status, answer.body) == (200, b"")


def test_lists_are_asked_for_with_the_clients_key_or_the_engines_own() -> None:
    upstream = [{"url": "http://one.test:1"}, {"url": "http://two.test:1", "api_key": "own"}]
    _, calls, _ = listed(SITES, header=(("authorization", "Bearer theirs"),), upstream=upstream)
    assert {call.engine: call.header("authorization") for call in calls} == {
        "one.test:1": "Bearer theirs", "two.test:1": "Bearer own",
    }  # fmt: skip


@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
def test_a_web_server_where_an_engine_was_looked_for_is_not_asked(method: str) -> None:
    key = ("authorization", "Bearer theirs")
    _, calls, _ = listed({**SITES, "one.test:1": application()}, method=method, header=(key,), configured=False)
    assert "one.test:1" not in {call.engine for call in calls}
    assert calls


def test_an_engine_that_is_slow_to_list_holds_nobody_up_for_ever() -> None:
    def looks(call: Call) -> Script:
        return Script(ending="stall") if call.engine == "two.test:1" else serving(SITES)(call)

    async def main(loop: VirtualLoop) -> tuple[Any, float]:
        house = House(loop, site(looks), looks=looks, upstream=THREE)
        began = loop.time()
        return await house.ask(simple_request(b"", "/v1/models")), loop.time() - began

    answer, took_s = run(main)
    assert [entry["id"] for entry in json.loads(answer.body)["data"]] == ["a", "b", "c:latest"]
    assert took_s == pytest.approx(5, abs=0.01)
