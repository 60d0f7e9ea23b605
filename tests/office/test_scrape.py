import asyncio

from proxy.messages import EngineState
from proxy.office.scrape import WINDOW_NS, Scraper
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
    asyncio.run(scraper.look(engines, 0))
    assert asked == [("a", "/metrics"), ("b", "/metrics")]
    assert scraper.details("a")["gauges"]["running"] == 2
    assert (scraper.details("b"), scraper.findings("b")) == ({}, [])


def test_the_engine_s_mean_stands_beside_ours() -> None:
    scraper = Scraper(never)
    scraper.see("ollama", page(0, 0), 0)
    for _ in range(40):
        scraper.export(record(timeline=timeline(300)))
    scraper.see("ollama", page(10, 40), 1)
    ttft = scraper.details("ollama")["means"]["ttft"]
    assert (ttft["engine_s"], round(ttft["ours_s"], 9), ttft["apart"]) == (0.25, 0.3, True)
    assert scraper.findings("ollama") == ["means_apart.ttft"]


def test_what_is_older_than_the_window_is_forgotten() -> None:
    scraper = Scraper(never)
    for minute, count in enumerate((0, 10, 30)):
        scraper.see("a", page(count, count), minute * WINDOW_NS)
    assert scraper.details("a")["means"]["ttft"]["engine_count"] == 20


def test_a_restarted_engine_begins_a_new_window() -> None:
    scraper = Scraper(never)
    scraper.see("a", page(100, 100), 0)
    scraper.see("a", page(1, 5), 1)
    scraper.see("a", page(2, 9), 2)
    assert scraper.details("a")["means"]["ttft"]["engine_count"] == 4


def test_hits_that_no_prompt_explains_are_a_finding() -> None:
    scraper = Scraper(never)
    cache = "vllm:prefix_cache_queries_total {}\nvllm:prefix_cache_hits_total {}\n"
    scraper.see("ollama", cache.format(0, 0).encode(), 0)
    for _ in range(100):
        scraper.export(record(prefix=PrefixVerdict(16, 1024, infinite=0)))
    scraper.see("ollama", cache.format(135_000, 43_000).encode(), 60)
    assert scraper.findings("ollama") == ["cache_contradicted"]


def test_as_an_exporter_it_keeps_sums_alone() -> None:
    scraper = Scraper(never)
    scraper.tick(0)
    scraper.reopen()
    scraper.close()
    assert scraper.lost == 0
