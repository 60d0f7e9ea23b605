import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from proxy.engines.inside import Inside
from proxy.exporters.reader import Wanted, means
from proxy.exporters.series import Series
from proxy.messages import EngineAddress, EngineState, Hello, Pulse
from proxy.office import main
from proxy.office.main import build, fetcher, store_of
from proxy.office.scrape import Fetch, Scraper
from proxy.relay import FETCH_LIMIT, Relay
from tests.support.records import finished


def test_the_office_has_the_exporters_that_were_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hello = Hello(pid=1, version="0", records=str(tmp_path / "r.jsonl"), store=str(tmp_path / "s.db"))
    office, exposition = build(hello, Series(), store_of(hello), {})
    office.take(finished(), 0)
    office.close()
    assert office.lost() == {"channel": 0, "prometheus": 0, "records": 0, "store": 0, "live": 0}
    assert "llama3.2 chat" in capsys.readouterr().out
    assert (tmp_path / "r.jsonl").read_bytes().count(b"\n") == 1
    assert (tmp_path / "s.db").exists()
    assert b"phasegate_requests_total" in exposition.render()[0]


def test_nothing_is_written_that_was_not_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    office, _ = build(Hello(pid=1, version="0", live=False), Series(), None, {})
    office.take(finished(), 0)
    assert capsys.readouterr().out == ""


def test_what_engines_counted_is_in_the_store_when_the_office_ends(tmp_path: Path) -> None:
    hello = Hello(pid=1, version="0", store=str(tmp_path / "s.db"), live=False)
    store = store_of(hello)
    assert store is not None
    page = b"vllm:time_to_first_token_seconds_sum %d\nvllm:time_to_first_token_seconds_count %d\n"
    scraper = Scraper(fetcher((), Relay(Pages())), store.keep)
    office, _ = build(hello, Series(), store, {"scrape": scraper})
    scraper.see("ollama", page % (0, 0), 0, 100.0)
    office.take(finished(), 0)
    scraper.see("ollama", page % (3, 1), 1, 101.0)
    office.close()
    (mean,) = means(tmp_path / "s.db", Wanted())
    assert (mean.engine, mean.theirs.count, mean.ours.count) == ("ollama", 1, 1)
    assert (mean.theirs.sum_s, mean.ours.sum_s) == (3, 0.299)


class Pages(httpx.AsyncBaseTransport):
    """Engines by host: each gives a status and what it was asked with, or is not there."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.host == "down":
            raise httpx.ConnectError("refused")
        said = request.extensions["target"] + b" " + request.headers.get("authorization", "nobody").encode()
        return httpx.Response(404 if request.url.host == "without" else 200, stream=httpx.ByteStream(said))


ENGINES = (
    EngineAddress(name="open", url="http://gpu1:8000"),
    EngineAddress(name="keyed", url="https://gpu2:8443", api_key="sk-1", ca_file="/etc/ca.pem"),
    EngineAddress(name="down", url="http://down"),
    EngineAddress(name="without", url="http://without"),
)


@pytest.mark.parametrize(
    ("engine", "page"),
    [
        ("open", b"/metrics nobody"),
        ("keyed", b"/metrics Bearer sk-1"),
        ("down", None),
        ("without", None),
        ("unheard of", None),
    ],
)
def test_an_engine_is_asked_with_its_key_and_any_failure_is_no_page(engine: str, page: bytes | None) -> None:
    fetch = fetcher(ENGINES, Relay(Pages()))
    assert asyncio.run(_once(fetch, engine)) == page


async def _once(fetch: Fetch, engine: str) -> bytes | None:
    return await fetch(engine, "/metrics")


class Endless(httpx.AsyncBaseTransport):
    """An engine whose answers do not end: one goes on and on, one says nothing more."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, stream=Pouring() if request.url.host == "pours" else Hanging())


class Pouring(httpx.AsyncByteStream):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b'{"models": ['
        while True:
            yield b'{"name": "x"},' * 1000


class Hanging(httpx.AsyncByteStream):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b'{"models": ['
        await asyncio.Event().wait()


@pytest.mark.parametrize("host", ["pours", "hangs"])
def test_a_page_without_an_end_costs_a_look_and_no_more(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main, "SCRAPE_S", 0.2)
    fetch = fetcher((EngineAddress(name="e", url=f"http://{host}:1"),), Relay(Endless()))
    lengths: list[int] = []

    async def counted(engine: str, target: str) -> bytes | None:
        page = await fetch(engine, target)
        lengths.append(len(page or b""))
        return page

    scraper = Scraper(counted)
    states = [EngineState(name="e", kind=kind, answers=True) for kind in ("ollama", "llamacpp", "sglang")]
    for one in states:
        asyncio.run(asyncio.wait_for(scraper.look([one], 0, 0.0), 5))
        assert scraper.inside("e") == Inside()
    assert max(lengths) == (FETCH_LIMIT if host == "pours" else 0)


def test_what_engines_say_of_themselves_is_among_the_metrics() -> None:
    said = {"e": Inside(running=1, waiting=2, slots=4)}
    hello = Hello(pid=1, version="0", live=False)
    office, exposition = build(hello, Series(), None, {}, inside=lambda engine: said[engine])
    office.take(Pulse(at_s=0.0, engines=(EngineState(name="e"),)), 0)
    assert b'phasegate_engine_waiting{engine="e"} 2.0' in exposition.render()[0]
