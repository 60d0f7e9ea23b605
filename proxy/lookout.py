"""The lookout: finds out what each engine is, and looks again when that may have changed."""

import asyncio
import json
from collections.abc import Callable

from proxy.engines.fingerprint import PROBES, identify, weights
from proxy.engines.gauges import read
from proxy.fleet import CacheShape, Engine, Fleet

PROBE_S = 2.0
"""How long one look-up may take; an engine in the middle of a long batch answers late (llama.cpp)."""
SILENT_S = 2.0
"""Between two looks at an engine that does not answer."""
STEADY_S = 30.0
"""Between two looks at one that does: a restart without traffic is seen within this."""


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
        """Rounds of looks, for ever: soon where an engine is silent or in trouble, seldom where all is well."""
        self._told = {engine.name: bool(engine.answers) for engine in self._fleet.engines}
        while True:
            well = all(engine.answers for engine in self._fleet.engines if engine.configured)
            try:
                async with asyncio.timeout(STEADY_S if well and self._fleet.answers else SILENT_S):
                    await self._trouble.wait()
                # A burst of failures is one reason to look, not a hundred.
                await asyncio.sleep(SILENT_S / 4)
            except TimeoutError:
                pass
            self._trouble.clear()
            await self.look_at_all()
            self._tell_changes()

    def _tell_changes(self) -> None:
        for engine in self._fleet.engines:
            if bool(engine.answers) != self._told[engine.name]:
                self._told[engine.name] = bool(engine.answers)
                self._tell(engine)

    async def look_at_all(self) -> None:
        """One look at every engine, at once."""
        await asyncio.gather(*(look(engine) for engine in self._fleet.engines))


async def look(engine: Engine) -> None:
    """One look: ask, and tell the engine what it is."""
    answers = await asyncio.gather(*(engine.fetch(target, PROBE_S) for target in PROBES))
    found = identify({target: answer for target, answer in zip(PROBES, answers, strict=True) if answer})
    engine.seen(found, await _shape(engine) if found.kind == "vllm" else (None, None))
    for model in engine.unweighed():
        shown = await engine.fetch("/api/show", PROBE_S, body=json.dumps({"model": model}).encode())
        if shown is not None and (digest := weights(shown[2])):
            engine.weighed(model, digest)


async def _shape(engine: Engine) -> CacheShape:
    """vLLM's prefix cache: `vllm:cache_config_info` among its metrics. One block stands for none (null_block)."""
    page = await engine.fetch("/metrics", PROBE_S)
    gauges = read(page[2].decode("utf-8", "replace")) if page is not None and page[0] == 200 else None
    if gauges is None or gauges.block_size is None:
        return None, None
    return gauges.block_size, gauges.block_size * (gauges.blocks - 1) if gauges.blocks else None
