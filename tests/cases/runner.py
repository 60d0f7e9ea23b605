"""A case, from JSON to a verdict."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

from tests.cases import product, sockets, words
from tests.cases.case import Case, case_of
from tests.cases.checks import always, exchange_faults, number_faults
from tests.cases.operators import mismatch
from tests.cases.rooms import needs
from tests.cases.stage import Played, VirtualStage
from tests.support import clock

SHOWN = 10
"""Reasons of one verdict that are printed; a repeated step gives as many as it has repetitions."""

Word = Literal["pass", "fail", "not yet", "skipped", "by hand"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a case."""

    id: str
    word: Word
    reasons: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        shown = list(self.reasons[:SHOWN])
        if left := len(self.reasons) - len(shown):
            shown.append(f"and {left} more")
        return f"{self.id:8} {self.word}" + "".join(f"\n         {reason}" for reason in shown)


def run(source: dict[str, Any], split: int | None = None) -> Verdict:
    """Play one case and judge it. Never raises: what goes wrong is the verdict's reason."""
    id = str(source.get("id", "?"))
    if faults := words.faults(source):
        return Verdict(id, "fail", tuple(faults))
    if not source.get("machine", True):
        return Verdict(id, "by hand", (source["expect"],))
    case = case_of(source, split)
    if missing := needs(case) - product.rooms():
        return Verdict(id, "not yet", (f"needs {', '.join(sorted(missing))}",))
    if not case.virtual and (why := sockets.impossible(case)):
        return Verdict(id, "skipped", (why,))
    try:
        with tempfile.TemporaryDirectory(prefix="phasegate-case-") as folder:
            faults = list(judge(case, _play(case, Path(folder)), Path(folder)))
    except Exception as error:  # the runner goes on to the next case, whatever this one did
        return Verdict(id, "fail", (f"the case could not be played: {type(error).__name__}: {error}",))
    return Verdict(id, "fail" if faults else "pass", tuple(faults))


def _play(case: Case, folder: Path) -> Played:
    if not case.virtual:
        return sockets.play(case, folder)
    return clock.run(lambda loop: VirtualStage(case, loop, folder).run())


def judge(case: Case, played: Played, folder: Path) -> Iterator[str]:
    """Everything that does not hold."""
    asks_usage = case.config.get("ask_usage", False)
    for exchange in played.exchanges:
        yield from exchange_faults(exchange)
        yield from always(exchange, asks_usage=asks_usage, shipped=not case.virtual)
    for index, look in played.looks.items():
        check = case.steps[index].check["metrics"]
        yield from number_faults(f"step {index}: metrics", check, partial(product.series, look))
    yield from _after(case, played, folder)


def _after(case: Case, played: Played, folder: Path) -> Iterator[str]:
    """The checks after all steps, and what always holds then."""
    assert played.product is not None
    check, exposition = case.check, played.exposition
    yield from (f"always: {fault}" for fault in exposition.faults())
    if exposition.samples and (left := product.series(exposition, "in_flight")):
        yield f"always: in_flight is {left} after all"
    yield from (f"always: {line}" for line in played.product.tracebacks())
    yield from number_faults("metrics", check.get("metrics", {}), partial(product.series, exposition))
    if "report" in check:
        yield from number_faults("report", check["report"], played.product.report().get)
    yield from _named(check, "engine_requests", sum(len(exchange.calls) for exchange in played.exchanges))
    yield from _named(check, "memory_growth_bytes", played.memory_growth_bytes)
    if "findings" in check:
        yield from _named(check, "findings", played.product.findings())
    if "breaker" in check:
        yield from _breaker(check["breaker"], product.breakers_of(case, played.exchanges, folder))
    yield from _shown(check.get("never_shown", []), played)


def _named(check: dict[str, Any], name: str, actual: Any) -> Iterator[str]:
    if name in check and (fault := mismatch(check[name], actual)) is not None:
        yield f"{name}: {fault}"


def _breaker(expected: dict[str, Any] | None, reported: list[dict[str, Any]]) -> Iterator[str]:
    """One reported breaker fits as a whole; null: none is reported."""
    if expected is None:
        fits = not reported
    else:
        fits = any(all(mismatch(check, one.get(key)) is None for key, check in expected.items()) for one in reported)
    if not fits:
        yield f"breaker: expected {expected}, reported {reported[:5]}"


def _shown(secrets: list[str], played: Played) -> Iterator[str]:
    """Strings that the product must not say by itself."""
    if not secrets or played.product is None:
        return
    said = dict(played.product.spoken())
    own = (exchange.body.decode("utf-8", "replace") for exchange in played.exchanges if not exchange.relayed)
    said["bodies of its own"] = "\n".join(own)
    for place, text in said.items():
        yield from (f"never_shown: {secret!r} is in {place}" for secret in secrets if secret in text)
