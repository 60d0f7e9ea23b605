"""The data process over a scripted engine, in virtual time: what a test of exchanges needs, and what it asks after.

`records` are the ends as the office would get them; `permits` are all that the doors gave, with how each ended.
`looks` says what the product's own look-ups get.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from proxy.admission.keyring import Keyring
from proxy.app import DataApp
from proxy.config import Settings
from proxy.headers import Pair
from proxy.messages import Message
from proxy.parts import Door, Permit
from proxy.records import AdmissionVerdict, Finished, PrefixVerdict, RequestFacts, TokenCount, Usage
from tests.support.client import Answer, App, Request, ScriptedClient
from tests.support.clock import VirtualLoop
from tests.support.engine import ScriptedEngine
from tests.support.script import NOT_FOUND, Call, Script

URL = "http://engine.test:8000"


class KeptPermit:
    """A permit that remembers how it ended; twice is a bug that a test sees."""

    def __init__(self, permit: Permit) -> None:
        self._permit = permit
        self.ends: list[str] = []
        self.usage: Usage | None = None

    @property
    def verdict(self) -> AdmissionVerdict:
        return self._permit.verdict

    @property
    def output_cap(self) -> tuple[int, str] | None:
        return self._permit.output_cap

    def first_token(self) -> None:
        self._permit.first_token()

    def ended(self, how: str, usage: Usage | None, written: int = 0) -> None:
        self.ends.append(how)
        self.usage = usage
        self._permit.ended(how, usage, written)


class KeptDoor:
    """The product's own door, and every permit that it gave."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self.permits: list[KeptPermit] = []

    @property
    def waiting(self) -> int:
        return self._door.waiting

    async def admit(
        self, facts: RequestFacts, count: TokenCount | None, prefix: PrefixVerdict | None, tenant: str | None
    ) -> KeptPermit:
        permit = KeptPermit(await self._door.admit(facts, count, prefix, tenant))
        self.permits.append(permit)
        return permit

    def headers(self, facts: RequestFacts, tenant: str | None) -> list[Pair]:
        return self._door.headers(facts, tenant)


class House:
    """One data process, fresh."""

    def __init__(
        self,
        loop: VirtualLoop,
        script: Script | Callable[[Call], Script],
        *,
        looks: Callable[[Call], Script] = lambda call: NOT_FOUND,
        configured: bool = True,
        **settings: Any,
    ) -> None:
        # All state: the parts, and the ends that the office was told of.
        self._loop = loop
        self._script = script
        self._looks = looks
        tree = {"upstream": [{"url": URL, "kind": "openai"}], "ask_usage": False, **settings}
        self.records: list[Finished] = []
        self.engine = ScriptedEngine(loop, self._choose)
        self.app = DataApp(
            msgspec.convert(tree, Settings),
            clock=loop.clock,
            transport=self.engine,
            send=self._told,
            configured=configured,
        )
        self.doors: list[KeptDoor] = []
        for engine in self.app.fleet.engines:
            engine.door = KeptDoor(engine.door)
            self.doors.append(engine.door)

    async def ask(self, request: Request, over: Callable[[App], App] = lambda app: app) -> Answer:
        """One request, to its end; `over` wraps the app (a strike)."""
        return await ScriptedClient(self._loop, over(self.app)).ask(request)

    @property
    def calls(self) -> list[Call]:
        """Exchanges' requests that reached the engine, its own look-ups left out."""
        return [call for call in self.engine.calls if call.header("x-request-id")]

    @property
    def permit_ends(self) -> list[str]:
        return [end for permit in self.permits for end in permit.ends]

    @property
    def permits(self) -> list[KeptPermit]:
        return [permit for door in self.doors for permit in door.permits]

    def leftovers(self) -> list[str]:
        """What an ended exchange must not leave behind; empty if all is well."""
        held = [f"{engine!r} holds exchanges" for engine in self.app.fleet.engines if len(engine.inflight)]
        held += [f"{call.target} is open at the engine" for call in self.calls if call.closed_ns is None]
        held += [f"permit ended {permit.ends}" for permit in self.permits if len(permit.ends) != 1]
        return held + ([f"{self.app.in_flight} in flight"] if self.app.in_flight else [])

    def _choose(self, call: Call) -> Script:
        if not call.header("x-request-id"):
            return self._looks(call)
        return self._script(call) if callable(self._script) else self._script

    def _told(self, message: Message) -> None:
        if isinstance(message, Finished):
            self.records.append(message)


def keys(tmp_path: Path) -> dict[str, Any]:
    """Settings with one tenant, whose key is `pg-ours`."""
    file = tmp_path / "keys.json"
    file.write_text(Keyring("salt").add("team", "pg-ours", "id", "2026-11-29").dumps(), "utf-8")
    return {"tenants": {"keys_file": str(file)}}
