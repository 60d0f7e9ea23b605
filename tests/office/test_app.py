import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import httpx
import pytest

from proxy.exporters.prometheus import Exposition
from proxy.exporters.series import Series
from proxy.messages import EngineState, Pulse
from proxy.office import app
from proxy.office.guard import Guard
from proxy.office.office import SILENT_NS, Office
from proxy.records import Outcome, PrefixVerdict
from tests.support.records import breakdown, finished

LOCAL = Guard.of("127.0.0.1", "", [])
ENGINE = EngineState(name="ollama", kind="ollama", version="0.33.0", answers=True)


def made(pulse: Pulse | None = None) -> Office:
    series = Series()
    office = Office(breakdown, {"prometheus": series}, pulsed=series.pulse)
    office.take(pulse or Pulse(at_s=1.0, engines=(ENGINE,)), 0)
    for number in range(3):
        outcome = Outcome.COMPLETED if number else Outcome.SHED
        office.take(finished(f"r{number}", model=f"m{number % 2}", outcome=outcome), 0)
    return office


def get(path: str, office: Office | None = None, guard: Guard = LOCAL, **headers: str) -> httpx.Response:
    return ask("GET", path, lambda: None, office, guard, **headers)


def ask(
    method: str,
    path: str,
    reload: Callable[[], None],
    office: Office | None = None,
    guard: Guard = LOCAL,
    **headers: str,
) -> httpx.Response:
    shown = office or made()
    exposition = Exposition(Series(), lambda: shown.pulse, shown.lost, shown.failures)
    panels: Mapping[str, app.Panel] = {"admission": lambda: {"rules": []}}
    config = b'{"admin_token": "********"}'
    sources = app.Sources(office=shown, exposition=exposition, config=lambda: config, panels=panels, reload=reload)
    admin = app.create(sources, guard)

    async def answer() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(admin), base_url="http://127.0.0.1:8801") as client:
            return await client.request(method, path, headers=headers)

    return asyncio.run(answer())


def ids(answer: httpx.Response) -> list[str]:
    return [row["id"] for row in answer.json()]


def test_the_first_page_names_every_other() -> None:
    for path in get("/").text.split()[1:]:
        assert get(path).status_code == 200, path
    assert "/api/admission" in get("/").text


def test_a_reload_is_passed_on_and_its_outcome_can_be_asked_for() -> None:
    wishes: list[int] = []
    assert ask("POST", "/api/reload", lambda: wishes.append(1)).status_code == 202
    assert wishes == [1]
    refused = made(Pulse(at_s=1.0, reloaded="limit.max_concurrency: 0 is less than 1", reloaded_s=5.0))
    assert get("/api/reload", refused).json() == {"last": "limit.max_concurrency: 0 is less than 1", "at": 5.0}
    assert get("/api/reload").json() == {"last": None, "at": None}


def test_a_foreign_page_cannot_make_it_reload() -> None:
    wishes: list[int] = []
    assert ask("POST", "/api/reload", lambda: wishes.append(1), origin="http://evil.example").status_code == 403
    assert wishes == []


def test_metrics_come_in_the_form_that_is_asked_for() -> None:
    plain, open_ = get("/metrics"), get("/metrics", accept="application/openmetrics-text")
    assert plain.headers["content-type"].startswith("text/plain")
    assert open_.headers["content-type"].startswith("application/openmetrics-text")
    assert open_.text.endswith("# EOF\n")


@pytest.mark.parametrize(
    ("pulse", "status"),
    [
        (Pulse(at_s=1.0, engines=(ENGINE, EngineState(name="down"))), 200),
        (Pulse(at_s=1.0, engines=(EngineState(name="down"),)), 503),
        (Pulse(at_s=1.0, engines=(ENGINE,), draining=True), 503),
        (Pulse(at_s=0.0), 503),
    ],
    ids=["one engine answers", "none answers", "draining", "nothing heard yet"],
)
def test_ready_while_one_engine_answers_and_work_is_taken(pulse: Pulse, status: int) -> None:
    answer = get("/readyz", made(pulse))
    assert answer.status_code == status
    assert answer.json()["engines"] == {engine.name: engine.answers for engine in pulse.engines}


def test_a_data_process_that_is_not_heard_of_is_not_ready() -> None:
    office = made()
    office.tick(SILENT_NS)
    assert get("/readyz", office).status_code == 200
    office.tick(SILENT_NS + 1)
    assert get("/readyz", office).status_code == 503
    office.take(Pulse(at_s=1.0, engines=(ENGINE,)), SILENT_NS + 2)
    assert get("/readyz", office).status_code == 200


def test_requests_come_newest_first_and_can_be_picked() -> None:
    assert ids(get("/api/requests")) == ["r2", "r1", "r0"]
    assert ids(get("/api/requests?limit=1")) == ["r2"]
    assert ids(get("/api/requests?model=m0")) == ["r2", "r0"]
    assert ids(get("/api/requests?model=m0&outcome=shed")) == ["r0"]
    assert ids(get("/api/requests?id=r1")) == ["r1"]
    assert ids(get("/api/requests?limit=0")) == []


def test_requests_can_be_picked_by_the_family_of_their_prompts() -> None:
    office = made()
    office.take(finished("known", prefix=PrefixVerdict(16, 9, family="f0a1")), 0)
    office.take(finished("unsampled", prefix=PrefixVerdict(16, 9)), 0)
    assert ids(get("/api/requests?family=f0a1", office)) == ["known"]


@pytest.mark.parametrize(
    "query", ["limit=-1", "limit=many", "limit=%C2%B2", "modell=m0", "limit=" + "9" * 20, "limit=" + "9" * 5000]
)
def test_a_query_that_cannot_be_is_said_to_be_wrong(query: str) -> None:
    answer = get(f"/api/requests?{query}")
    assert answer.status_code == 400
    assert "model" in answer.json()["parameters"]


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("limit=1&limit=2", "limit is given more than once"),
        ("model=a&model=b", "model is given more than once"),
        ("outcome=complete", "outcome is one of completed, shed, queue_timeout, "),
        ("route=chat", "route is one of inference, read, manage"),
        ("limit=-1", "limit is a whole number of at most 9 digits"),
        ("modell=m0", "unknown parameter modell"),
    ],
)
def test_a_slip_in_a_query_finds_words_and_not_nothing(query: str, says: str) -> None:
    answer = get(f"/api/requests?{query}")
    assert (answer.status_code, says in answer.json()["error"]) == (400, True)


@pytest.mark.parametrize("path", ["/nope", "/v1/chat/completions", "/api", "/api/nope"])
def test_who_asks_for_what_is_not_here_is_told_what_is(path: str) -> None:
    answer = ask("POST", path, lambda: None)
    says = answer.json()["error"] if path == "/api/nope" else answer.text
    assert answer.status_code == 404
    assert "admin listener, whose paths GET / lists; clients talk to the data listener" in says


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/metrics", "this path is asked with GET or HEAD\n"),
        ("/healthz", "this path is asked with GET or HEAD\n"),
        ("/api/requests", '{"error":"this path is asked with GET or HEAD"}'),
        ("/api/reload", '{"error":"this path is asked with GET or HEAD or POST"}'),
    ],
)
def test_who_asks_in_another_way_is_told_how(path: str, says: str) -> None:
    answer = ask("DELETE", path, lambda: None)
    assert (answer.status_code, answer.text) == (405, says)
    assert "GET" in answer.headers["allow"]


def test_engines_are_shown_as_the_data_process_sees_them() -> None:
    (engine,) = get("/api/engines").json()
    assert (engine["name"], engine["version"], engine["answers"]) == ("ollama", "0.33.0", True)


def test_config_and_panels_are_passed_on() -> None:
    assert get("/api/config").json() == {"admin_token": "********"}
    assert get("/api/admission").json() == {"rules": []}


def test_probes_need_no_token_and_all_else_does() -> None:
    guard = Guard.of("0.0.0.0", "secret", [])
    assert get("/healthz", guard=guard, host="any.name").status_code == 200
    assert get("/readyz", guard=guard).status_code == 200
    stranger = get("/metrics", guard=guard)
    assert (stranger.status_code, stranger.headers["www-authenticate"]) == (401, "Bearer")
    assert get("/metrics", guard=guard, authorization="Bearer secret").status_code == 200


def test_no_answer_invites_other_origins() -> None:
    answer: Any = get("/api/requests", origin="http://127.0.0.1:8801")
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_answers_that_take_time_take_turns_and_a_health_check_waits_for_one_of_them() -> None:
    office, order, begun = made(), list[str](), asyncio.Event()
    exposition = Exposition(Series(), lambda: office.pulse, office.lost, office.failures)

    def panel() -> dict[str, Any]:
        order.append("panel")
        begun.set()
        return {}

    sources = app.Sources(office=office, exposition=exposition, config=lambda: b"{}", panels={"slow": panel})
    admin = app.create(sources, LOCAL)

    async def test() -> None:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(admin), base_url="http://127.0.0.1:8801") as client:
            asked = [asyncio.create_task(client.get("/api/slow")) for _ in range(10)]
            await begun.wait()
            await client.get("/healthz")
            order.append("health")
            assert {answer.status_code for answer in await asyncio.gather(*asked)} == {200}

    asyncio.run(test())
    assert order.count("panel") == 10
    assert order.index("health") < 10
