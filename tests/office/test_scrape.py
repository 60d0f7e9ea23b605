import asyncio

from proxy.exporters.means import Stretch
from proxy.messages import EngineState
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


def test_engines_that_answer_and_have_such_a_page_are_asked() -> None:
    asked: list[tuple[str, str]] = []

    async def fetch(engine: str, target: str) -> bytes | None:
        asked.append((engine, target))
        return page(1, 1) if engine == "a" else None

    scraper = Scraper(fetch)
    kinds = {"a": ("vllm", True), "b": ("llamacpp", True), "c": ("ollama", True), "d": ("vllm", False)}
    engines = [EngineState(name=name, kind=kind, answers=up) for name, (kind, up) in kinds.items()]
    asyncio.run(scraper.look(engines, 0, 0.0))
    assert asked == [("a", "/metrics"), ("b", "/metrics")]
    assert scraper.details("a")["gauges"]["running"] == 2
    assert (scraper.details("b"), scraper.findings("b")) == ({}, [])


def test_the_engine_s_mean_stands_beside_ours() -> None:
    scraper = Scraper(never)
    scraper.see("ollama", page(0, 0), 0, 0.0)
    for _ in range(40):
        scraper.export(record(timeline=timeline(300)))
    scraper.see("ollama", page(10, 40), 1, 1.0)
    ttft = scraper.details("ollama")["means"]["ttft"]
    assert (ttft["engine_s"], round(ttft["ours_s"], 9), ttft["apart"]) == (0.25, 0.3, True)
    assert (round(ttft["difference"], 9), ttft["verdict"]) == (0.2, "apart")
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
