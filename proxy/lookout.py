"""The lookout: finds out what each engine is, and looks again when that may have changed."""

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from proxy.engine import CacheShape, Engine, Fetched
from proxy.engines.fingerprint import PROBES, answering, identify, own_options, silence, told, weights
from proxy.engines.gauges import BEGAN, CACHE, picked, read
from proxy.fleet import Fleet

PROBE_S = 2.0
"""How long one look-up may take, of an engine that may be gone."""
PATIENT_S = 10.0
"""How long of one that answered last time, or says something: in the middle of a long batch (llama.cpp), or of a prompt
of 100,000 tokens (vLLM), engines answer late."""
SILENT_S = 2.0
"""Between two looks at an engine that does not answer."""
STEADY_S = 30.0
"""Between two looks at all: a restart without traffic is seen within this."""
FIRST = ("/", "/v1/models")
"""Of an engine that was silent, until it says something. Not one page alone: a gateway may have none at its root, and
never answer there."""


class Lookout:
    """Looks at engines, all through the proxy's life. `tell` hears of each that comes or goes while it watches."""

    # State: whether an exchange has had trouble with some engine since the last round, and who answered when last told.
    def __init__(self, fleet: Fleet, tell: Callable[[Engine], None]) -> None:
        self._fleet = fleet
        self._tell = tell
        self._trouble = asyncio.Event()
        self._told: dict[str, bool] = {}

    def trouble(self) -> None:
        """Some engine failed an exchange: it may be another one by now."""
        self._trouble.set()

    async def watch(self) -> None:
        """Looks, for ever: soon at engines that are silent, and at all where one is in trouble, else seldom."""
        self._told = {engine.name: bool(engine.answers) for engine in self._fleet.engines}
        loop = asyncio.get_running_loop()
        due_s = loop.time() + STEADY_S
        while True:
            silent = [engine for engine in self._fleet.engines if not (engine.answers or engine.stranger)]
            if await self._troubled(min(due_s - loop.time(), SILENT_S if silent else STEADY_S)) or loop.time() >= due_s:
                await self.look_at_all()
                due_s = loop.time() + STEADY_S
            else:
                await _look_at(silent)
            self._tell_changes()

    async def _troubled(self, limit_s: float) -> bool:
        """Whether an exchange has trouble within this time; if so, a moment later."""
        try:
            async with asyncio.timeout(limit_s):
                await self._trouble.wait()
        except TimeoutError:
            return False
        await asyncio.sleep(SILENT_S / 4)  # a burst of failures is one reason to look, not a hundred
        self._trouble.clear()
        return True

    def _tell_changes(self) -> None:
        for engine in self._fleet.engines:
            if bool(engine.answers) != self._told[engine.name]:
                self._told[engine.name] = bool(engine.answers)
                self._tell(engine)

    async def look_at_all(self) -> None:
        """One look at every engine, at once."""
        await _look_at(self._fleet.engines)


async def _look_at(engines: Iterable[Engine]) -> None:
    await asyncio.gather(*map(look, engines))


async def look(engine: Engine) -> None:
    """One look: ask, and tell the engine what it is. What it leaves out now is as it was before, for it may be busy.
    Of one that was silent an answer is waited for before it is asked for more."""
    first = () if engine.answers else FIRST
    answers = await _asked(engine, first, PROBE_S)
    if answers or engine.answers:
        answers |= await _asked(engine, [target for target in PROBES if target not in first], PROBE_S)
    late = [target for target in PROBES if target not in answers]
    if late and (answers or engine.answers):
        answers |= await _asked(engine, late, PATIENT_S)
    found = replace(identify(engine.recall(answers)), answers=answering(answers))
    if why := silence(answers):
        engine.complaint = f"the engine at {engine.authority.decode('ascii')} {why}"
    engine.seen(found, *(await _told_by_metrics(engine) if found.kind == "vllm" else ((None, None), None)))
    for model in engine.unweighed():
        shown = await engine.fetch("/api/show", PROBE_S, body=json.dumps({"model": model}).encode())
        if shown is not None and (digest := weights(shown[2])):
            engine.weighed(model, digest, own_options(shown[2]))


async def _asked(engine: Engine, targets: Sequence[str], timeout_s: float) -> dict[str, Fetched]:
    """The answers to these look-ups, by target."""
    answers = await asyncio.gather(*(engine.fetch(target, timeout_s) for target in targets))
    return {target: answer for target, answer in zip(targets, answers, strict=True) if answer is not None}


async def _told_by_metrics(engine: Engine) -> tuple[CacheShape | None, float | None]:
    """vLLM's prefix cache, and when its process began. One block of the cache stands for none (null_block). None: the
    page does not come, or does not say."""
    page = await engine.fetch("/metrics", PROBE_S)
    if page is None or not told({"": page}):
        return None, None
    gauges = read(picked(page[2], (CACHE, BEGAN)) if page[0] == 200 else "")
    if gauges.block_size is None:
        return (None, None), gauges.began_s
    return (gauges.block_size, gauges.block_size * (gauges.blocks - 1) if gauges.blocks else None), gauges.began_s
