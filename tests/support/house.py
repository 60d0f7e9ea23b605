"""The data process over a scripted engine, in virtual time: what a test of exchanges needs, and what it asks after.

`records` are the ends as the office would get them; `door` lets everybody in and keeps how each permit ended.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from proxy.app import DataApp
from proxy.config import Settings
from proxy.messages import Message
from proxy.records import AdmissionVerdict, Finished, PrefixVerdict, RequestFacts, TokenCount, Usage
from tests.support.client import Answer, App, Request, ScriptedClient
from tests.support.clock import VirtualLoop
from tests.support.engine import ScriptedEngine
from tests.support.script import NOT_FOUND, Call, Script

URL = "http://engine.test:8000"


@dataclass(slots=True)
class KeptPermit:
    """A permit that remembers how it ended; twice is a bug that a test sees."""

    ends: list[str] = field(default_factory=list)
    verdict: AdmissionVerdict = field(default_factory=AdmissionVerdict)

    def first_token(self) -> None:
        """Nothing is held for the prompt."""

    def ended(self, how: str, usage: Usage | None) -> None:
        self.ends.append(how)


@dataclass(slots=True)
class KeptDoor:
    """Lets everybody in."""

    permits: list[KeptPermit] = field(default_factory=list)

    async def admit(
        self, facts: RequestFacts, count: TokenCount | None, prefix: PrefixVerdict | None, tenant: str | None
    ) -> KeptPermit:
        permit = KeptPermit()
        self.permits.append(permit)
        return permit


class House:
    """One data process, fresh."""

    def __init__(self, loop: VirtualLoop, script: Script | Callable[[Call], Script], **settings: Any) -> None:
        # All state: the parts, and the ends that the office was told of.
        self._loop = loop
        self._script = script
        tree = {"upstream": [{"url": URL, "kind": "openai"}], "ask_usage": False, **settings}
        self.records: list[Finished] = []
        self.engine = ScriptedEngine(loop, self._choose)
        self.app = DataApp(msgspec.convert(tree, Settings), clock=loop.clock, transport=self.engine, send=self._told)
        self.door = KeptDoor()
        for engine in self.app.fleet.engines:
            engine.door = self.door

    async def ask(self, request: Request, over: Callable[[App], App] = lambda app: app) -> Answer:
        """One request, to its end; `over` wraps the app (a strike)."""
        return await ScriptedClient(self._loop, over(self.app)).ask(request)

    @property
    def calls(self) -> list[Call]:
        """Exchanges' requests that reached the engine, its own look-ups left out."""
        return [call for call in self.engine.calls if call.header("x-request-id")]

    @property
    def permit_ends(self) -> list[str]:
        return [end for permit in self.door.permits for end in permit.ends]

    def leftovers(self) -> list[str]:
        """What an ended exchange must not leave behind; empty if all is well."""
        held = [f"{engine!r} holds exchanges" for engine in self.app.fleet.engines if len(engine.inflight)]
        held += [f"{call.target} is open at the engine" for call in self.calls if call.closed_ns is None]
        held += [f"permit ended {permit.ends}" for permit in self.door.permits if len(permit.ends) != 1]
        return held + ([f"{self.app.in_flight} in flight"] if self.app.in_flight else [])

    def _choose(self, call: Call) -> Script:
        if not call.header("x-request-id"):
            return NOT_FOUND
        return self._script(call) if callable(self._script) else self._script

    def _told(self, message: Message) -> None:
        if isinstance(message, Finished):
            self.records.append(message)
