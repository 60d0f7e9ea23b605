import asyncio
import json

from proxy.engines.gauges import TARGET
from proxy.engines.inside import LOADS, OLD_LOADS
from proxy.exporters.means import Stretch
from proxy.messages import EngineState
from proxy.office.figures import MISSES
from proxy.office.scrape import Scraper
from proxy.records import PrefixVerdict
from tests.support.records import record, timeline

PAGE = (
    "vllm:time_to_first_token_seconds_sum {}\nvllm:time_to_first_token_seconds_count {}\nvllm:num_requests_running 2\n"
)


async def never(engine: str, target: str) -> bytes | None:
    raise AssertionError("nobody asked")


def page(sum_s: float, count: int) -> bytes:
    return PAGE.format(sum_s, count).encode()


class Engines:
    """Engines by name, each with its pages by target, and what was asked of them."""

    def __init__(self, **pages: dict[str, object]) -> None:
        self.pages = pages
        self.asked: list[tuple[str, str]] = []

    async def fetch(self, engine: str, target: str) -> bytes | None:
        self.asked.append((engine, target))
        page = self.pages[engine].get(target)
        return page if page is None or isinstance(page, bytes) else json.dumps(page).encode()

    def look(self, scraper: Scraper, **states: EngineState) -> list[tuple[str, str]]:
        """What one look asks."""
        self.asked.clear()
        asyncio.run(scraper.look(states.values(), 0, 0.0))
        return self.asked[:]


def state(name: str, kind: str, answers: bool = True, in_flight: int = 0) -> EngineState:
    return EngineState(name=name, kind=kind, answers=answers, in_flight=in_flight)


SLOT = {"n_ctx": 100, "is_processing": True, "n_prompt_tokens_cache": 10, "n_prompt_tokens_processed": 5}
SLOTS_PAGE = [{**SLOT, "next_token": [{"n_decoded": 5}]}, {"n_ctx": 100, "is_processing": False}]
IDLE_PAGE = [{"n_ctx": 100, "is_processing": False}]


def test_engines_that_answer_are_asked_for_the_pages_of_their_kind() -> None:
    engines = Engines(v={TARGET: page(1, 1)}, l={}, o={}, d={}, g={})
    scraper = Scraper(engines.fetch)
    asked = engines.look(
        scraper,
        v=state("v", "vllm"),
        l=state("l", "llamacpp"),
        o=state("o", "ollama"),
        d=state("d", "vllm", answers=False),
        g=state("g", "openai"),
    )
    assert sorted(asked) == [
        *(("g", TARGET), ("l", TARGET), ("l", "/props"), ("l", "/slots"), ("o", "/api/ps"), ("v", TARGET))
    ]
    assert scraper.details("v")["gauges"]["running"] == 2
    for silent in "ldog":
        details = scraper.details(silent)
        assert details.keys() == scraper.details("v").keys()
        assert {*details.pop("gauges").values()} == {None}
        assert details == {"inside": {}, "means": {}, "findings": []}


def test_where_metrics_are_off_slots_say_who_works() -> None:
    engines = Engines(l={"/props": {"total_slots": 2, "model_alias": "m"}, "/slots": SLOTS_PAGE})
    scraper = Scraper(engines.fetch)
    engines.look(scraper, l=state("l", "llamacpp"))
    details = scraper.details("l")
    assert (details["gauges"]["running"], details["gauges"]["waiting"], details["gauges"]["kv_usage"]) == (1, None, 0.2)
    assert details["inside"] == {"slots": 2, "context": 100, "model": "m"}
    assert details["means"] == {}


def test_where_metrics_are_on_they_count_and_slots_say_the_rest() -> None:
    said = b"llamacpp:requests_processing 2\nllamacpp:requests_deferred 3\n"
    engines = Engines(l={TARGET: said, "/slots": SLOTS_PAGE})
    scraper = Scraper(engines.fetch)
    engines.look(scraper, l=state("l", "llamacpp"))
    gauges = scraper.details("l")["gauges"]
    assert (gauges["running"], gauges["waiting"], gauges["kv_usage"]) == (2, 3, 0.2)
    assert scraper.inside("l").slots == 2


def test_models_in_memory_are_told_of() -> None:
    engines = Engines(o={"/api/ps": {"models": [{"name": "m", "size": 5, "size_vram": 3, "context_length": 4096}]}})
    scraper = Scraper(engines.fetch)
    engines.look(scraper, o=state("o", "ollama"))
    (model,) = scraper.details("o")["inside"]["loaded"]
    assert model == {"name": "m", "size": 5, "size_vram": 3, "context_length": 4096, "expires_at": None}
    assert scraper.details("o")["gauges"]["running"] is None


LOADS_PAGE = {"loads": [{"num_running_reqs": 1, "num_waiting_reqs": 2, "token_usage": 0.5}]}
OLD_PAGE = [{"num_reqs": 3, "num_waiting_reqs": 2}]


def test_the_newer_page_is_asked_alone_where_it_answers() -> None:
    engines = Engines(s={LOADS: LOADS_PAGE, OLD_LOADS: OLD_PAGE})
    scraper = Scraper(engines.fetch)
    for _ in range(2):
        assert engines.look(scraper, s=state("s", "sglang")) == [("s", LOADS), ("s", TARGET)]
    del engines.pages["s"][LOADS]  # late, once: the older page, which warns in the engine's log, is not asked for it
    assert engines.look(scraper, s=state("s", "sglang")) == [("s", LOADS), ("s", TARGET)]
    assert scraper.inside("s").kv_usage == 0.5


def test_the_older_page_is_found_once_and_asked_alone_from_then_on() -> None:
    engines = Engines(s={OLD_LOADS: OLD_PAGE})
    scraper = Scraper(engines.fetch)
    assert engines.look(scraper, s=state("s", "sglang")) == [("s", LOADS), ("s", OLD_LOADS), ("s", TARGET)]
    assert engines.look(scraper, s=state("s", "sglang")) == [("s", OLD_LOADS), ("s", TARGET)]
    assert (scraper.inside("s").running, scraper.inside("s").waiting) == (1, 2)


def test_an_engine_that_sleeps_is_not_woken() -> None:
    engines = Engines(l={"/props": {"is_sleeping": True}, "/slots": SLOTS_PAGE, TARGET: b""})
    scraper = Scraper(engines.fetch)
    assert engines.look(scraper, l=state("l", "llamacpp")) == [("l", "/props")]
    assert scraper.details("l")["inside"] == {"sleeping": True}


def test_an_engine_that_could_fall_asleep_is_asked_for_its_work_while_it_has_some() -> None:
    engines = Engines(l={"/props": {"is_sleeping": False}, "/slots": IDLE_PAGE})
    scraper = Scraper(engines.fetch)
    idle, busy = state("l", "llamacpp"), state("l", "llamacpp", in_flight=1)

    def asks(seen: EngineState) -> bool:
        return ("l", "/slots") in engines.look(scraper, l=seen)

    assert [asks(idle), asks(idle)] == [True, False]
    assert [asks(busy), asks(idle)] == [True, False]
    scraper.export(record(engine="l"))
    assert [asks(idle), asks(idle)] == [True, False]
    scraper.export(record(engine="l", route="read"))
    scraper.export(record(engine="l", timeline=timeline(dispatched_ns=None)))
    assert not asks(idle)
    engines.pages["l"]["/slots"] = SLOTS_PAGE
    assert [asks(busy), asks(idle), asks(idle)] == [True, True, True]
    engines.pages["l"]["/slots"] = IDLE_PAGE
    assert [asks(idle), asks(idle)] == [True, False]
    assert scraper.details("l")["gauges"]["running"] == 0


def test_what_an_engine_no_longer_says_is_forgotten() -> None:
    engines = Engines(v={TARGET: page(1, 1)})
    scraper = Scraper(engines.fetch)
    engines.look(scraper, v=state("v", "vllm"))
    for _ in range(MISSES):
        assert scraper.inside("v").running == 2
        engines.look(scraper, v=state("v", "vllm", answers=False))
    assert scraper.inside("v").running is None
    assert scraper.details("v")["gauges"]["running"] is None


def test_the_engine_s_mean_stands_beside_ours() -> None:
    scraper = Scraper(never)
    scraper.see("ollama", page(0, 0), 0, 0.0)
    for _ in range(40):
        scraper.export(record(timeline=timeline(300)))
    scraper.see("ollama", page(10, 40), 1, 1.0)
    ttft = scraper.details("ollama")["means"]["ttft"]
    assert (ttft["engine_s"], round(ttft["ours_s"], 9), ttft["apart"]) == (0.25, 0.299, True)
    assert (round(ttft["difference"], 9), ttft["verdict"]) == (0.196, "apart")
    assert scraper.findings("ollama") == ["means_apart.ttft"]


def test_hits_that_no_prompt_explains_are_a_finding() -> None:
    scraper = Scraper(never)
    cache = "vllm:prefix_cache_queries_total {}\nvllm:prefix_cache_hits_total {}\n"
    scraper.see("ollama", cache.format(0, 0).encode(), 0, 0.0)
    for _ in range(100):
        scraper.export(record(prefix=PrefixVerdict(16, 1024, infinite=0)))
    scraper.see("ollama", cache.format(135_000, 43_000).encode(), 60, 60.0)
    assert scraper.findings("ollama") == ["cache_contradicted"]


def test_as_an_exporter_it_keeps_what_both_counted_to_its_end() -> None:
    kept: list[Stretch] = []
    scraper = Scraper(never, kept.append)
    scraper.see("ollama", page(0, 0), 0, 100.0)
    scraper.export(record())
    scraper.see("ollama", page(1, 4), 1, 101.0)
    scraper.tick(0)
    scraper.reopen()
    assert kept == []
    scraper.close()
    assert [(one.name, one.since_s, one.until_s, one.theirs.count, one.ours.count) for one in kept] == [
        ("ttft", 100.0, 101.0, 4, 1)
    ]
    assert scraper.lost == 0
