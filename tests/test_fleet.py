"""Which engine a request goes to, and what is known of each between requests."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from proxy.errors import EngineUnreachable, UnknownModel
from proxy.fleet import FRESH_S
from proxy.records import RequestFacts
from proxy.wire.routes import classify
from tests.support.client import simple_request
from tests.support.clock import VirtualLoop, run
from tests.support.house import House
from tests.support.pages import DIGEST, Pages, application, llamacpp, ollama, serving, vllm
from tests.support.script import OK, Call, Script

T = TypeVar("T")

THREE = [{"url": f"http://{name}.test:1", "name": name} for name in ("one", "two", "three")]


def asking(model: str | None, kind: str = "chat") -> RequestFacts:
    return RequestFacts("openai", kind, "inference", model=model)


def at(pages: Pages, work: Callable[[House], Awaitable[T]], **settings: Any) -> T:
    """What `work` gives in a house of engines that answer with these pages; each was looked at once."""

    async def main(loop: VirtualLoop) -> T:
        house = House(loop, site(serving(pages)), looks=serving(pages), **{"upstream": THREE, **settings})
        await house.app.lookout.look_at_all()
        return await work(house)

    return run(main)


def site(pages: Callable[[Call], Script]) -> Callable[[Call], Script]:
    """What engines do with clients' requests: lists as their pages are, all else is well."""
    return lambda call: pages(call) if call.target.startswith("/v1/models") else OK


def listing(*models: str) -> dict[str, object]:
    """An engine of no known kind that lists models."""
    return {"/v1/models": {"object": "list", "data": [{"id": model} for model in models]}}


SITES: Pages = {"one.test:1": listing("a", "b"), "two.test:1": listing("b"), "three.test:1": listing("c:latest", "b")}


async def chosen(house: House, *facts: RequestFacts) -> list[str]:
    return [(await house.app.fleet.choose(each)).name for each in facts]


def test_a_request_goes_to_an_engine_that_lists_its_model() -> None:
    assert at(SITES, lambda house: chosen(house, asking("a"), asking("c:latest"), asking("c"))) == [
        "one", "three", "three",
    ]  # fmt: skip


def test_replicas_take_turns() -> None:
    names = at(SITES, lambda house: chosen(house, *[asking("b")] * 6))
    assert names == ["one", "two", "three"] * 2


def test_fewest_in_flight_come_before_turns() -> None:
    async def work(house: House) -> list[str]:
        one, two, _ = house.app.fleet.engines
        one.began("r1", asking("b"), 0)
        one.began("r2", asking("b"), 0)
        two.began("r3", asking("b"), 0)
        return await chosen(house, *[asking("b")] * 3)

    assert at(SITES, work) == ["three"] * 3


def test_one_engine_serves_whatever_it_is_asked() -> None:
    assert at({}, lambda house: chosen(house, asking("nobody's")), upstream=THREE[:1]) == ["one"]


def test_ollama_takes_other_spellings_of_a_name_that_no_list_has() -> None:
    served = {"one.test:1": listing("b"), "two.test:1": ollama(**{"M:latest": "w"}), "three.test:1": listing("m")}

    def chosen_for(*names: str) -> list[str]:
        return at(served, lambda house: chosen(house, *map(asking, names)))

    assert chosen_for("library/m", "M", "registry.ollama.ai/library/m:latest") == ["two"] * 3
    assert chosen_for("m") == ["three"]
    with pytest.raises(UnknownModel):
        chosen_for("B")


def test_a_path_without_a_model_goes_to_the_first_and_a_list_of_models_to_all() -> None:
    assert at(SITES, lambda house: chosen(house, asking(None), asking(None, "models"))) == ["one", "all"]


LLAMACPP: dict[str, object] = {"/props": {"build_info": "b1"}, **listing("b")}
MIXED: Pages = {"one.test:1": LLAMACPP, "two.test:1": ollama(a="1"), "three.test:1": vllm("b")}


@pytest.mark.parametrize(
    ("method", "path", "place"),
    [
        ("GET", "/api/version", "ollama"),
        ("POST", "/api/pull", "ollama"),
        ("HEAD", "/", "ollama"),  # the first that Ollama's own command asks
        ("POST", "/completion", "llamacpp"),
        ("GET", "/props", "llamacpp"),
        ("GET", "/slots", "llamacpp"),
        ("POST", "/slots/0", "llamacpp"),
        ("GET", "/version", "vllm"),
        ("GET", "/get_load", "other"),  # none of these has it
        ("GET", "/metrics", "other"),
        ("POST", "/tokenize", "other"),
        ("POST", "/v1/chat/completions", "other"),  # Ollama refuses what names no model
        ("GET", "/", "llamacpp"),  # a page for people; vLLM has none
        ("POST", "/v1/audio/transcriptions", "first"),  # a form, which is not read: it may name any
    ],
)
@pytest.mark.parametrize("order", [("one", "two", "three"), ("two", "one", "three"), ("three", "two", "one")])
def test_a_route_without_a_model_goes_to_an_engine_that_has_it(
    order: tuple[str, ...], method: str, path: str, place: str
) -> None:
    upstream = [{"url": f"http://{name}.test:1", "name": name} for name in order]
    facts = RequestFacts(*classify(method, path), path=path)
    other = next(name for name in order if name != "two")
    expected = {"ollama": "two", "llamacpp": "one", "vllm": "three", "other": other, "first": order[0]}[place]
    assert at(MIXED, lambda house: chosen(house, facts), upstream=upstream) == [expected]


def test_the_root_is_asked_of_an_engine_that_has_a_page_there() -> None:
    """Whoever looks so whether all is well was told 404, by vLLM, with an Ollama beside it."""
    root = RequestFacts(*classify("GET", "/"), path="/")
    pages = {name: page for name, page in MIXED.items() if name != "one.test:1"}
    assert at(pages, lambda house: chosen(house, root), upstream=THREE[:0:-1]) == ["two"]
    assert at(SITES, lambda house: chosen(house, root)) == ["one"]


@pytest.mark.parametrize(("name", "place"), [("a", "two"), ("b", "one"), ("org/c", "three")])
def test_the_page_of_one_model_is_asked_of_an_engine_that_has_it(name: str, place: str) -> None:
    pages: Pages = {**MIXED, "three.test:1": vllm("org/c")}
    facts = RequestFacts(*classify("GET", f"/v1/models/{name}"))
    assert at(pages, lambda house: chosen(house, facts)) == [place]


TWINS: Pages = {"one.test:1": ollama(a="1"), "two.test:1": vllm("c", "D"), "three.test:1": ollama(b="2", c="3", d="4")}


@pytest.mark.parametrize(
    ("name", "place"), [("a", "one"), ("b", "three"), ("c", "three"), ("D", "three"), ("new", "one")]
)
def test_who_has_a_model_is_asked_to_show_change_or_take_it_away_and_a_new_one_comes_to_the_first(
    name: str, place: str
) -> None:
    facts = RequestFacts("ollama", "other", "manage", model=name, path="/api/pull")
    assert at(TWINS, lambda house: chosen(house, facts)) == [place]


def test_a_model_that_another_kind_lists_too_is_looked_for_afresh_where_it_is_managed() -> None:
    pages = {**TWINS}
    facts = RequestFacts("ollama", "other", "manage", model="D", path="/api/show")

    async def work(house: House) -> list[str]:
        pages["three.test:1"] = ollama(d="4")
        return await chosen(house, facts)

    pages["three.test:1"] = ollama(b="2")
    assert at(pages, work) == ["three"]


def test_a_route_that_is_none_of_theirs_goes_to_the_first_all_the_same() -> None:
    facts = RequestFacts(*classify("GET", "/api/version")), RequestFacts(*classify("GET", "/props"))
    assert at(SITES, lambda house: chosen(house, *facts)) == ["one", "one"]
    assert at({"two.test:1": ollama(a="1")}, lambda house: chosen(house, facts[1]), upstream=THREE[1:2]) == ["two"]


@pytest.mark.parametrize("model", ["b", None])
def test_an_engine_that_is_silent_is_passed_over_while_another_answers(model: str | None) -> None:
    pages: Pages = dict(SITES)

    async def work(house: House) -> list[str]:
        pages["one.test:1"] = None
        await house.app.lookout.look_at_all()
        return await chosen(house, *[asking(model)] * 3)

    assert set(at(pages, work)) == ({"two", "three"} if model else {"two"})


def test_a_connection_that_is_refused_is_seen_before_the_next_request() -> None:
    pages: Pages = {"one.test:1": listing("m"), "two.test:1": listing("m")}

    def refuses(call: Call) -> Script:
        return Script(ending="refuse") if call.engine == "one.test:1" else OK

    async def main(loop: VirtualLoop) -> list[int]:
        house = House(loop, refuses, looks=serving(pages), upstream=THREE[:2])
        await house.app.lookout.look_at_all()
        ask = simple_request(b'{"model": "m", "messages": []}', "/v1/chat/completions")
        return [(await house.ask(ask)).status for _ in range(5)]

    assert run(main) == [502, 200, 200, 200, 200]


def test_where_all_that_serve_a_model_are_silent_one_of_them_is_asked() -> None:
    pages: Pages = dict(SITES)

    async def work(house: House) -> list[str]:
        pages["one.test:1"] = None
        await house.app.lookout.look_at_all()
        return await chosen(house, asking("a"))

    assert at(pages, work) == ["one"]


def test_configured_models_count_whatever_the_engine_lists() -> None:
    two = [{"url": "http://one.test:1", "models": ["x"]}, {"url": "http://two.test:1", "models": ["y"]}]
    assert at(SITES, lambda house: chosen(house, asking("y"), asking("x")), upstream=two) == [
        "two.test:1",
        "one.test:1",
    ]


def test_a_model_that_nobody_lists_is_looked_for_afresh() -> None:
    pages: Pages = dict(SITES)

    async def work(house: House) -> list[str]:
        pages["two.test:1"] = listing("new")
        return await chosen(house, asking("new"))

    assert at(pages, work) == ["two"]


def test_many_strange_names_cost_one_look() -> None:
    looks: list[None] = []

    async def work(house: House) -> None:
        house.app.fleet._look = lambda engine: looked(engine.name)  # type: ignore[assignment]
        for _ in range(3):  # at once, and then one after the other within the second
            await asyncio.gather(*(strange(house) for _ in range(20)), return_exceptions=True)
            await asyncio.sleep(FRESH_S / 4)
        await asyncio.sleep(FRESH_S)
        await strange(house)

    async def looked(_: str) -> None:
        looks.append(None)

    async def strange(house: House) -> None:
        with pytest.raises(UnknownModel):
            await house.app.fleet.choose(asking("nobody's"))

    at(SITES, work)
    assert len(looks) == 2 * 3


def test_a_model_that_nobody_serves_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(UnknownModel, match=r"'gone'; there are a, b, c:latest$"):
        at(SITES, lambda house: chosen(house, asking("gone")))


def test_while_an_engine_is_silent_nobody_can_say_that_a_model_is_unknown() -> None:
    with pytest.raises(EngineUnreachable, match="no list from two, three"):
        at({**SITES, "two.test:1": None, "three.test:1": None}, lambda house: chosen(house, asking("gone")))


def test_of_engines_that_were_only_looked_for_those_that_answer_count() -> None:
    pages: Pages = {"one.test:1": None, "two.test:1": vllm("m"), "three.test:1": None}

    async def work(house: House) -> list[str]:
        return [engine.name for engine in house.app.fleet.present]

    assert at(pages, work, configured=False) == ["two"]
    assert at(pages, lambda house: chosen(house, asking("any")), configured=False) == ["two"]


def test_one_that_was_found_is_not_forgotten_when_it_is_gone() -> None:
    pages: Pages = {"one.test:1": llamacpp("a"), "two.test:1": ollama(b=DIGEST), "three.test:1": None}

    async def work(house: House) -> None:
        pages["two.test:1"] = None
        await house.app.lookout.look_at_all()
        assert [engine.name for engine in house.app.fleet.present] == ["one", "two"]
        assert await chosen(house, asking("b")) == ["two"], "llama.cpp would answer with another model"
        assert await chosen(house, asking("a")) == ["one"]
        with pytest.raises(UnknownModel, match=r"'gone'; there are a, b$"):
            await chosen(house, asking("gone"))

    at(pages, work, configured=False)


def test_where_none_that_were_looked_for_answers_all_are_told_of() -> None:
    async def work(house: House) -> int:
        return len(house.app.fleet.present)

    assert at(dict.fromkeys(SITES), work, configured=False) == 3


ANY = (asking("any"), asking(None), asking(None, "models"), RequestFacts("passthrough", "other", "read"))


def test_a_web_server_where_an_engine_was_looked_for_gets_nothing() -> None:
    pages: Pages = {"one.test:1": application(), "two.test:1": ollama(b=DIGEST), "three.test:1": None}
    assert at(pages, lambda house: chosen(house, *ANY), configured=False) == ["two"] * 4


@pytest.mark.parametrize("facts", ANY, ids=["a model", "no model", "a list", "a page"])
@pytest.mark.parametrize("where", SITES)
def test_a_web_server_alone_gets_nothing(where: str, facts: RequestFacts) -> None:
    async def work(house: House) -> None:
        with pytest.raises(EngineUnreachable, match=r"no engine was found at one, two, three$"):
            await house.app.fleet.choose(facts)

    at({**dict.fromkeys(SITES), where: application()}, work, configured=False)


@pytest.mark.parametrize("facts", ANY[:2], ids=["a model", "no model"])
def test_an_engine_that_has_just_come_is_found_by_whoever_asks(facts: RequestFacts) -> None:
    pages: Pages = {"one.test:1": application(), "two.test:1": None, "three.test:1": None}

    async def work(house: House) -> list[str]:
        pages["two.test:1"] = vllm("m")
        return await chosen(house, facts)

    assert at(pages, work, configured=False) == ["two"]
