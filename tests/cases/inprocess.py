"""The product over scripted transports: the data application, and an office in the same process."""

import asyncio
import contextlib
import dataclasses
import io
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec
import structlog

from proxy.app import DataApp
from proxy.config import Settings, masked
from proxy.events import Event
from proxy.exporters.contract import to_dict
from proxy.exporters.series import Series
from proxy.messages import EngineAddress, Hello, Message, PromptSeen
from proxy.office import logs
from proxy.office.main import build, fetcher
from proxy.office.research import Research
from proxy.office.scrape import Scraper
from proxy.office.trends import trends
from proxy.records import Finished, RequestRecord
from proxy.relay import Relay
from proxy.rooms import Passage
from proxy.timeline import Recorder
from tests.cases.case import Case
from tests.cases.exposition import Exposition, parse
from tests.cases.product import Heard, bugs, report_of, said, settings
from tests.cases.seen import Record
from tests.support.clock import VirtualLoop

SEARCHES = 4
"""Families that are searched for what the audit's page shows."""

_HEARD: ContextVar[Heard | None] = ContextVar("heard", default=None)


class _Listening(Recorder):
    """A recorder that passes on what it is told, and notes it on the way."""

    __slots__ = ("_heard", "_recorder")

    def __init__(self, recorder: Recorder, heard: Heard) -> None:
        self._recorder = recorder
        self._heard = heard

    @property
    def token_events(self) -> int:  # type: ignore[override]
        return self._recorder.token_events

    def event(self, t: int, event: Event) -> None:
        self._heard.event(t, event)
        self._recorder.event(t, event)

    def pieces(self, stamps: Sequence[int], text: str) -> bool:
        told = self._recorder.pieces(stamps, text)
        if told:
            self._heard.pieces(stamps, text)
        return told

    def unreadable(self, t: int) -> None:
        self._recorder.unreadable(t)


class HeardApp(DataApp):
    """The data process, with an ear at the recorder of each exchange."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._rooms = dataclasses.replace(self._rooms, tap=partial(_overheard, self._rooms.tap))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        _HEARD.set(Heard())
        await super().__call__(scope, receive, send)


def _overheard(
    tap: Callable[..., Passage], answer: Any, request: Any, facts: Any, recorder: Recorder, hearing: Any
) -> Passage:
    return tap(answer, request, facts, _Listening(recorder, heard_now()), hearing)


def heard_now() -> Heard:
    """What was heard in the exchange of this context; the record leaves in the same one."""
    return _HEARD.get() or Heard()


class InProcess:
    """The product over scripted transports: the data application, and an office in the same process."""

    def __init__(self, case: Case, loop: VirtualLoop, transport: httpx.AsyncBaseTransport, folder: Path) -> None:
        # All state: the product's parts, its output so far, its records by id, and what they said when it stopped.
        self._loop = loop
        self._records_file = folder / "records.jsonl"
        tree = settings(case, engine_urls(case), folder, records=str(self._records_file))
        self._settings = msgspec.convert(tree, Settings, strict=False)
        self._output = io.StringIO()
        self._restore = contextlib.ExitStack()
        self._listen()
        engines = tuple(EngineAddress(name=engine.label, url=engine.url) for engine in self._settings.upstream)
        self._scraper = Scraper(fetcher(engines, Relay(transport)))
        hello = Hello(pid=1, version="0", records=str(self._records_file), log_level=self._settings.log_level)
        with contextlib.redirect_stdout(self._output):
            self._office, self._exposition = build(hello, Series(), None, {"scrape": self._scraper})
        self._scrapes = any(step.engine_metrics is not None for step in case.steps)
        self._scraping: asyncio.Task[None] | None = None
        self.app = HeardApp(self._settings, clock=loop.clock, transport=transport, send=self._take)
        self._by_id: dict[str, list[RequestRecord]] = {}
        self._heard: dict[str, list[Heard]] = {}
        self._newest: RequestRecord | None = None
        self._asked_what_is_shown = "never_shown" in case.check
        self._prompts: list[PromptSeen] = []

    async def start(self) -> None:
        """As at start."""
        self._loop.set_exception_handler(self._complain)
        await self.app.lookout.look_at_all()
        if self._scrapes:
            self._scraping = asyncio.create_task(self._scrape())

    async def _scrape(self) -> None:
        """What the office does beside its records."""
        while True:
            self._pulse()
            clock = self._loop.clock
            await self._scraper.look(self._office.pulse.engines, clock.now_ns(), clock.wall_s())
            await asyncio.sleep(self._settings.scrape_s)

    async def stop(self) -> None:
        """Settle what waits, keep what can still be asked for, and let go."""
        if self._scraping is not None:
            self._scraping.cancel()
        self._office.tick(self._loop.clock.now_ns())
        self._collect()
        await self.app.aclose()
        self._restore.close()

    def exposition(self) -> Exposition:
        self._office.tick(self._loop.clock.now_ns())
        self._pulse()
        self._collect()
        return parse(self._text())

    def _pulse(self) -> None:
        self._office.take(self.app.state(), self._loop.clock.now_ns())

    def _text(self) -> str:
        return self._exposition.render()[0].decode()

    def records(self, id: str) -> list[Record]:
        pairs = zip(self._by_id.get(id, []), self._heard.get(id, []), strict=True)
        return [said(record, heard) for record, heard in pairs]

    def report(self) -> dict[str, float | None]:
        self._office.tick(self._loop.clock.now_ns())
        return report_of(self._records_file)

    def findings(self) -> list[str]:
        engines = (engine.name for engine in self.app.fleet.engines)
        contradicted = (finding for name in engines for finding in self._scraper.findings(name))
        return [*trends(self._office.records()), *contradicted]

    def spoken(self) -> Mapping[str, str]:
        every = [to_dict(record) for records in self._by_id.values() for record in records]
        return {
            "its output": self._output.getvalue(),
            "metrics": self._text(),
            "records as JSON": json.dumps(every),
            "its configuration as JSON": json.dumps(masked(self._settings)),
            "its state as JSON": json.dumps(dataclasses.asdict(self.app.state())),
            "what it says of prefixes": self._prefixes(),
            "records on disk": self._records_file.read_text() if self._records_file.exists() else "",
        }

    def _prefixes(self) -> str:
        """The audit's page, after a search of the largest families."""
        research = Research(self.app.auditing.secret, self._settings.prefixes.capture_text)
        for seen in self._prompts:
            research.take(seen)
        for _ in range(SEARCHES):
            research.step()
        return json.dumps(research.report)

    def tracebacks(self) -> list[str]:
        return bugs(self._output.getvalue())

    def _take(self, message: Message) -> None:
        if isinstance(message, PromptSeen):
            if self._asked_what_is_shown:
                self._prompts.append(message)
            return
        if isinstance(message, Finished):
            self._heard.setdefault(message.id, []).append(heard_now())
        self._office.take(message, self._loop.clock.now_ns())
        self._collect()

    def _collect(self) -> None:
        """Note what the office has published since the last look: it keeps the latest thousand."""
        fresh = []
        for record in self._office.records():
            if record is self._newest:
                break
            fresh.append(record)
        for record in reversed(fresh):
            self._by_id.setdefault(record.finished.id, []).append(record)
            self._newest = record

    def _listen(self) -> None:
        """Keep what is logged, by structlog and by logging."""
        put = partial(print, file=self._output)
        logs.configure(self._settings.log_level, as_json=False, put=put, clock=self._loop.clock)
        self._restore.callback(structlog.reset_defaults)
        handler, root = logging.StreamHandler(self._output), logging.getLogger()
        level = root.level
        root.addHandler(handler)
        root.setLevel(logging.DEBUG if self._settings.log_level == "debug" else logging.INFO)
        self._restore.callback(root.setLevel, level)
        self._restore.callback(root.removeHandler, handler)

    def _complain(self, loop: Any, context: dict[str, Any]) -> None:
        """What asyncio would log of a task that failed unseen."""
        self._output.write(f"Traceback (most recent): {context.get('message')}: {context.get('exception')!r}\n")


def engine_urls(case: Case) -> list[str]:
    """Where the engines of a virtual case stand."""
    host = case.config.get("engine_host", "engine.test")
    return [f"http://{host}:{8000 + number}" for number in range(case.config.get("replicas", 1))]
