import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from proxy.messages import PromptSeen
from proxy.office.office import Office
from proxy.office.research import LONG, NAMED, REST_S, Research
from proxy.records import (
    Finished,
    Message,
    Part,
    PhaseBreakdown,
    PrefixVerdict,
    Prompt,
    RequestRecord,
    Usage,
)
from tests.support.clock import VirtualLoop, run
from tests.support.records import breakdown, finished, timeline

RULES = "You answer questions about the railway. Be brief, be kind, and never promise a refund. " * 12


def seen(n: int) -> PromptSeen:
    system = f"Request {n * 7919:08d}. {RULES}"
    messages = (Message("system", (Part("text", system),)), Message("user", (Part("text", f"Where is train {n}?"),)))
    return PromptSeen(
        id=f"r{n}", at_s=n * 2.0, engine="e", model="m", prompt=Prompt(messages=messages), answer="There."
    )


def test_without_prompts_nothing_is_loaded_and_nothing_found():
    idle = Research(b"k" * 16, capture_text=False)
    idle.step()
    assert idle.report["breakers"] == []


def test_what_breaks_the_cache_is_found_and_none_of_the_text_is_shown():
    found = Research(b"k" * 16, capture_text=False)
    for n in range(30):
        found.take(seen(n))
    found.step()
    (breaker,) = found.report["breakers"]
    assert breaker["tokens_saved"] > 1_000
    assert found.report["sampled"] == 30
    assert "refund" not in repr(found.report)
    assert "00007919" not in repr(found.report)


def told(rate: float | None, fresh: int = 1_000, engine: str = "e"):
    said = finished(engine=engine, usage=Usage(fresh + 16, 4, 16), report=None)
    return RequestRecord(said, PhaseBreakdown((), prefill_rate=rate))


def test_an_engines_speed_is_told_in_tokens_of_ours():
    twice = told(100.0, fresh=2_016)  # the engine's tokens are half as long
    found = Research(b"k" * 16, capture_text=False)
    for engine, prefix, speed in (
        ("text", PrefixVerdict(16, 2_032, rendered=1_016), 50.0),
        ("not all text", PrefixVerdict(16, 2_032), 100.0),
        ("not audited", None, 100.0),
    ):
        said = twice.finished._replace(prefix=prefix, engine=engine)
        found.export(replace(twice, finished=said))
        assert found.rates[engine] == speed


def test_what_breaks_the_cache_costs_seconds_by_the_engines_usual_speed():
    found = Research(b"k" * 16, capture_text=False)
    for n in range(30):
        found.take(seen(n))
    for one in (told(100.0), told(200.0), told(90_000.0), told(None), told(7.0, fresh=LONG - 1), told(5.0, engine="f")):
        found.export(one)
    assert found.rates == {"e": 200.0, "f": 5.0}
    found.step(found.rates)
    (breaker,) = found.report["breakers"]
    assert breaker["seconds_observed"] == pytest.approx(breaker["tokens_observed"] / 200, abs=0.1)


def test_where_no_speed_is_known_no_time_is_told():
    found = Research(b"k" * 16, capture_text=False)
    for n in range(30):
        found.take(seen(n))
    found.step(found.rates)
    assert found.report["breakers"][0]["seconds_observed"] is None


def of(one: PromptSeen, **changes: Any) -> Finished:
    """The record of the same request."""
    done = finished(one.id, engine=one.engine, timeline=timeline(at_s=one.at_s), prefix=PrefixVerdict(16, 100))
    return done._replace(**changes)


def test_a_record_gets_the_name_that_the_report_uses():
    found = Research(b"k" * 16, capture_text=False)
    for n in range(20):
        found.take(seen(n))
    named = found.named(of(seen(1)))
    found.step()
    (breaker,) = found.report["breakers"]
    assert named.prefix == PrefixVerdict(16, 100, family=breaker["family"])
    assert named._replace(prefix=None) == of(seen(1), prefix=None)


@pytest.mark.parametrize(
    "changes",
    [{"id": "r2"}, {"engine": "f"}, {"timeline": timeline(at_s=1.5)}, {"prefix": None}],
    ids=["another request", "another engine", "another moment", "not audited"],
)
def test_what_was_not_taken_has_no_name(changes: dict[str, Any]):
    found = Research(b"k" * 16, capture_text=False)
    found.take(seen(1))
    done = of(seen(1), **changes)
    assert found.named(done) is done


def test_a_name_is_given_once():
    found = Research(b"k" * 16, capture_text=False)
    found.take(seen(1))
    assert found.named(of(seen(1))).prefix != of(seen(1)).prefix
    assert found.named(of(seen(1))).prefix == of(seen(1)).prefix


def test_a_prompt_that_was_not_sampled_has_no_name():
    found = Research(b"k" * 16, capture_text=False)
    same = [seen(n) for n in range(9)]
    for one in same[:-1]:
        found.take(one)
    names = [done.prefix.family for done in map(found.named, map(of, same)) if done.prefix is not None]
    assert len(set(names[:-1])) == 1
    assert names[-1] is None


def test_names_whose_records_never_come_are_dropped_oldest_first():
    found = Research(b"k" * 16, capture_text=False)
    minutes = [replace(seen(n), at_s=n * 60.0) for n in range(NAMED + 1)]
    for one in minutes:
        found.take(one)
    assert found.named(of(minutes[0])).prefix == PrefixVerdict(16, 100)
    assert found.named(of(minutes[1])).prefix != PrefixVerdict(16, 100)


def test_it_searches_for_ever_whatever_a_search_raises_and_takes_a_tenth_of_a_core_at_most():
    office = Office(breakdown, {})

    async def main(loop: VirtualLoop) -> list[float]:
        began_s, start_ns = [], loop.clock.now_ns()

        class Slow(Research):
            def step(self, rates: Mapping[str, float] | None = None) -> None:
                began_s.append((loop.clock.now_ns() - start_ns) / 1e9)
                if len(began_s) == 2:
                    loop.clock.advance(5_000_000_000)
                    raise ZeroDivisionError

        searching = asyncio.create_task(Slow(b"", capture_text=False).run(loop.clock, office.guarding))
        await asyncio.sleep(60)
        searching.cancel()
        return began_s

    with capture_logs() as logs:
        began_s = run(main)
    assert began_s == pytest.approx([REST_S, 2 * REST_S, 2 * REST_S + 5 + 45, 56, 58])
    assert office.failures == {"research": 1}
    assert [(entry["exporter"], entry["error"]) for entry in logs] == [("research", "ZeroDivisionError")]
