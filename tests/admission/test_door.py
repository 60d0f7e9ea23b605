import asyncio
import json
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from proxy.admission.ask import ask
from proxy.admission.door import Door, EngineDoor
from proxy.admission.limits import Limits
from proxy.admission.permit import Permit
from proxy.admission.rules import Rule
from proxy.errors import BadRequest, OutputTooLong, PromptTooLong, ProxyError, QueueTimeout, Shed
from proxy.records import AdmissionVerdict, RequestFacts, TokenCount, Usage
from tests.admission.known import Known
from tests.support.clock import ManualClock, VirtualLoop, run

T = TypeVar("T")
SECOND = 10**9
FACTS = RequestFacts("openai", "chat", "inference", model="m1", max_output=500)
COUNT = TokenCount(n=100, how="exact", low=100, high=100, text_tokens=90)


def doors(loop: VirtualLoop, *rules: Rule) -> tuple[Door, EngineDoor]:
    door = Door(loop.clock, Limits(rules))
    return door, door.at(Known(given={"": 4096}))


async def admit(door: EngineDoor, tenant: str | None = None, facts: RequestFacts = FACTS) -> Permit:
    return await door.admit(facts, COUNT, None, tenant)


def waits(door: EngineDoor, tenant: str | None = None) -> asyncio.Task[Permit]:
    return asyncio.ensure_future(admit(door, tenant))


async def breathe() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def taken(door: Door) -> dict[str, int]:
    return {c["limit"]: c["allowed"] - c["remaining"] for c in door.snapshot()["counters"]}


def test_a_crowd_that_comes_and_leaves_holds_nobody_up() -> None:
    """5,000 in line: with a look at all of them for each it took 7 s, and 8 more with a rate."""

    async def main(loop: VirtualLoop) -> None:
        crowd = Rule("r", max_concurrency=1, queue_length=10_000, requests_per_minute=10_000, queue_timeout_s=1e6)
        door, engine = doors(loop, crowd)
        first = await admit(engine)
        start = time.process_time()
        waiting = [waits(engine, f"t{number % 7}") for number in range(5_000)]
        await breathe()
        assert door.snapshot()["waiting"] == 5_000
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert time.process_time() - start < 5
        first.ended("success", None)
        assert door.snapshot()["waiting"] == 0
        assert taken(door) == {"max_concurrency": 0, "requests_per_minute": 1}

    run(main)


def test_a_permit_holds_its_slot_until_its_first_end() -> None:
    async def main(loop: VirtualLoop) -> None:
        door, engine = doors(loop, Rule("r", max_concurrency=2))
        one, two = await admit(engine), await admit(engine)
        assert one.verdict == AdmissionVerdict(mode="enforce")
        one.first_token()
        one.ended("success", None)
        one.ended("dropped", None)
        assert taken(door) == {"max_concurrency": 1}
        two.ended("ignore", None)
        assert taken(door) == {"max_concurrency": 0}

    run(main)


def test_without_a_queue_the_next_one_is_refused_at_once_and_told_when_to_come_back() -> None:
    async def main(loop: VirtualLoop) -> None:
        door, engine = doors(loop, Rule("r", max_concurrency=1))
        await admit(engine)
        with pytest.raises(Shed) as refused:
            await admit(engine)
        error = refused.value
        assert (error.http_status, error.reason, error.retry_after_s) == (429, "concurrency", 1.0)
        assert error.verdict == AdmissionVerdict("shed", "concurrency", "r.max_concurrency", "enforce")
        assert door.snapshot()["waiting"] == 0

    run(main)


def test_with_a_queue_it_waits_its_turn_and_the_wait_is_told() -> None:
    async def main(loop: VirtualLoop) -> None:
        door, engine = doors(loop, Rule("r", max_concurrency=1, queue_length=2))
        first = await admit(engine)
        second, third = waits(engine), waits(engine)
        await breathe()
        with pytest.raises(Shed) as refused:
            await admit(engine)
        assert (refused.value.http_status, refused.value.reason) == (503, "queue_full")
        assert door.snapshot()["waiting"] == 2
        await asyncio.sleep(10)
        first.ended("success", None)
        permit = await second
        assert permit.verdict == AdmissionVerdict("queued", "concurrency", "r.max_concurrency", "enforce", 10 * SECOND)
        assert not third.done()
        permit.ended("success", None)
        assert (await third).verdict.decision == "queued"

    run(main)


def test_who_waited_for_too_long_is_told_how_long_one_waits_now() -> None:
    async def main(loop: VirtualLoop) -> None:
        _, engine = doors(loop, Rule("r", max_concurrency=1, queue_length=3, queue_timeout_s=4))
        served = await admit(engine)
        await asyncio.sleep(30)
        served.ended("success", None)
        await admit(engine)
        early, late = waits(engine), waits(engine)
        await asyncio.sleep(5)
        ends = await asyncio.gather(early, late, return_exceptions=True)
        assert [end.retry_after_s for end in ends if isinstance(end, QueueTimeout)] == [60, 30]

    run(main)


@pytest.mark.parametrize("queue", [0, 1], ids=["no place", "time-out"])
def test_of_two_that_are_full_the_longer_wait_is_told(queue: int) -> None:
    """The rule that ran out of places first was asked alone: its place was soon free, and the other's was not."""

    async def main(loop: VirtualLoop) -> None:
        short = Rule("short", max_concurrency=1, queue_length=queue, queue_timeout_s=4, per=("tenant",))
        long = Rule("long", max_concurrency=1, queue_length=9)
        _, engine = doors(loop, short, long)
        served = await admit(engine, "other")
        await asyncio.sleep(30)
        served.ended("success", None)
        await admit(engine, "mine")
        with pytest.raises(Shed) as refused:
            await admit(engine, "mine")
        assert refused.value.rule.startswith("short.")
        assert refused.value.retry_after_s == 30

    run(main)


def test_a_wait_that_is_too_long_ends_in_a_refusal_and_takes_nothing() -> None:
    async def main(loop: VirtualLoop) -> None:
        limits = {"requests_per_minute": 60, "tokens_per_minute": 6000, "tokens_per_day": 10**6}
        door, engine = doors(loop, Rule("r", max_concurrency=1, queue_length=9, queue_timeout_s=2.5, **limits))
        await admit(engine)
        before = taken(door)
        with pytest.raises(QueueTimeout) as refused:
            await admit(engine)
        error = refused.value
        assert (error.http_status, error.reason, error.rule) == (503, "queue_deadline", "r.queue_timeout_s")
        assert error.verdict is not None
        assert error.verdict.waited_ns == 2.5 * SECOND
        after = taken(door)
        assert after["max_concurrency"] == 1
        assert after["tokens_per_day"] == before["tokens_per_day"] == 100
        assert door.snapshot()["waiting"] == 0

    run(main)


def test_a_client_that_leaves_the_queue_takes_its_place_with_it() -> None:
    async def main(loop: VirtualLoop) -> None:
        door, engine = doors(loop, Rule("r", max_concurrency=1, queue_length=1, tokens_per_day=10**6))
        first = await admit(engine)
        leaver = waits(engine)
        await breathe()
        leaver.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaver
        assert taken(door) == {"max_concurrency": 1, "tokens_per_day": 100}
        stayer = waits(engine)
        await breathe()
        first.ended("success", None)
        (await stayer).ended("withdrawn", None)
        assert taken(door) == {"max_concurrency": 0, "tokens_per_day": 100}
        reasons = {d["reason"] for d in door.snapshot()["decisions"]}
        assert "disconnected" in reasons

    run(main)


@pytest.mark.parametrize("how", ["leaves", "is out of time"])
def test_a_slot_that_comes_with_the_end_of_the_wait_is_not_lost(how: str) -> None:
    async def main(loop: VirtualLoop) -> None:
        door, engine = doors(loop, Rule("r", max_concurrency=1, queue_length=1, queue_timeout_s=5))
        first = await admit(engine)
        waiter = waits(engine)
        await breathe()
        if how == "leaves":
            first.ended("success", None)
            waiter.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiter
        else:
            loop.call_at(loop.time() + 5, first.ended, "success", None)
            (await waiter).ended("success", None)
        assert taken(door) == {"max_concurrency": 0}

    run(main)


def test_who_waits_for_one_engine_does_not_hold_up_another() -> None:
    async def main(loop: VirtualLoop) -> None:
        door, one = doors(
            loop,
            Rule("each", per=("engine",), max_concurrency=1, queue_length=5),
            Rule("all", max_concurrency=3, queue_length=5),
        )
        other = door.at(Known("gpu-2"))
        await admit(one)
        waiter = waits(one)
        await breathe()
        assert (await admit(other)).verdict.decision == "admitted"
        assert not waiter.done()
        waiter.cancel()

    run(main)


def test_tenants_that_wait_take_turns() -> None:
    async def main(loop: VirtualLoop) -> list[str]:
        _, engine = doors(loop, Rule("r", max_concurrency=1, queue_length=9))
        permit, order = await admit(engine, "greedy"), list[str]()
        tasks = {waits(engine, tenant): tenant for tenant in ("greedy", "greedy", "greedy", "modest", "modest")}
        while tasks:
            await breathe()
            permit.ended("success", None)
            await breathe()
            (served,) = (task for task in tasks if task.done())
            permit = served.result()
            order.append(tasks.pop(served))
        return order

    assert run(main) == ["greedy", "modest", "greedy", "modest", "greedy"]


def test_output_that_was_seen_is_booked_where_the_engine_says_none() -> None:
    async def main(loop: VirtualLoop) -> None:
        door, engine = doors(loop, Rule("r", tokens_per_day=1000))
        (await admit(engine)).ended("ignore", None, 300)
        (await admit(engine)).ended("rejected", None, 0)
        assert taken(door) == {"tokens_per_day": 100 + 300}

    run(main)


def test_a_slot_that_falls_free_as_a_client_leaves_goes_to_the_next_in_line() -> None:
    async def main(loop: VirtualLoop) -> None:
        door, engine = doors(loop, Rule("r", max_concurrency=1, queue_length=2))
        permit = await admit(engine)
        leaving, staying = waits(engine), waits(engine)
        await breathe()
        leaving.cancel()  # its own turn of the loop, in which it leaves the line, is yet to come
        permit.ended("success", None)
        assert (await staying).verdict.decision == "queued"
        await breathe()
        assert leaving.cancelled()
        assert taken(door) == {"max_concurrency": 1}

    run(main)


def test_made_up_models_share_a_counter_where_the_engine_lists_its_own() -> None:
    async def main(loop: VirtualLoop) -> None:
        door = Door(loop.clock, Limits([Rule("r", per=("model",), requests_per_minute=1)]))
        known = Known(models=("M1:latest", "other"))
        engine = door.at(known)
        await admit(engine)
        await admit(engine, facts=FACTS._replace(model="other"))
        await admit(engine, facts=FACTS._replace(model="made-up"))
        for model in ("m1", "library/m1", "other", "made-up", "made-up-2"):
            with pytest.raises(Shed):
                await admit(engine, facts=FACTS._replace(model=model))
        known.models = ("made-up-2",)
        await admit(engine, facts=FACTS._replace(model="made-up-2"))

    run(main)


def test_an_engine_that_answers_to_any_name_passes_no_rule_by() -> None:
    async def main(loop: VirtualLoop) -> None:
        rule = Rule("r", models=("smol*",), within_window=True, max_prompt_tokens=50)
        by_alias = Rule("by alias", models=("gpt-4",), requests_per_minute=1)
        windows = {"smol-1": 50, "other": 4096}

        def at(*models: str, any_name: bool = True) -> EngineDoor:
            door = Door(loop.clock, Limits([rule, by_alias]))
            return door.at(Known(given=windows, models=models, any_name=any_name))

        made_up = FACTS._replace(model="gpt-4")
        with pytest.raises(PromptTooLong):
            await admit(at("smol-1"), facts=made_up)
        await admit(at("smol-1", any_name=False), facts=made_up)
        await admit(at("gpt-4", "smol-1"), facts=made_up)
        with pytest.raises(PromptTooLong):  # by the limit of a model that may answer
            await admit(at("smol-1", "other"), facts=made_up)
        engine = at("other")
        await admit(engine, facts=made_up)
        with pytest.raises(Shed) as refused:
            await admit(engine, facts=made_up)
        assert refused.value.rule == "by alias.requests_per_minute"

    run(main)


def test_a_window_is_found_however_the_model_is_spelt() -> None:
    async def main(loop: VirtualLoop) -> None:
        door = Door(loop.clock, Limits([Rule("r", within_window=True)]))
        engine = door.at(Known(given={"Llama3:latest": 99}, models=("Llama3:latest",)))
        for name in ("llama3", "Llama3:latest", "library/LLAMA3"):
            with pytest.raises(PromptTooLong):
                await admit(engine, facts=FACTS._replace(model=name))
        await admit(engine, facts=FACTS._replace(model="other"))

    run(main)


def test_a_limit_of_the_output_that_the_engine_does_not_heed_is_none() -> None:
    async def main(loop: VirtualLoop) -> None:
        door = Door(loop.clock, Limits([Rule("r", max_output_tokens=500)]))
        await admit(door.at(Known()))
        with pytest.raises(OutputTooLong, match="heed"):
            await admit(door.at(Known("gpu-2", heeding=False)))

    run(main)


def test_what_cannot_be_read_for_certain_is_refused_where_it_is_judged_and_passes_elsewhere() -> None:
    unread = FACTS._replace(unread="it has `options` twice", body_bytes=9)

    async def main(loop: VirtualLoop) -> None:
        door, engine = doors(loop, Rule("r", max_prompt_tokens=10**6, kinds=("chat",)))
        assert door.looks_closely
        with pytest.raises(BadRequest, match="`options` twice") as refused:
            await admit(engine, facts=unread)
        assert refused.value.verdict == AdmissionVerdict("shed", "unreadable", "r.max_prompt_tokens", "enforce")
        await admit(engine, facts=unread._replace(kind="embed"))
        other, free = doors(loop, Rule("r", requests_per_minute=5))
        assert not other.looks_closely
        await admit(free, facts=unread)

    run(main)


def test_what_was_reserved_is_settled_with_what_the_engine_says() -> None:
    async def main(loop: VirtualLoop) -> None:
        door, engine = doors(loop, Rule("r", tokens_per_minute=1000, tokens_per_day=1000))
        ends: list[tuple[str, Usage | None]] = [
            ("success", Usage(prompt_tokens=40, output_tokens=10)),
            ("dropped", Usage(output_tokens=10)),
            ("ignore", None),
            ("withdrawn", Usage(prompt_tokens=500)),
        ]
        for how, usage in ends:
            (await admit(engine)).ended(how, usage)
        assert taken(door) == {"tokens_per_minute": 40 + 100 + 100, "tokens_per_day": 50 + 110 + 100}

    run(main)


def test_sizes_are_refused_with_their_own_errors_and_a_verdict() -> None:
    async def main(loop: VirtualLoop) -> None:
        _, long = doors(loop, Rule("r", max_prompt_tokens=99))
        with pytest.raises(PromptTooLong) as refused:
            await admit(long)
        assert refused.value.verdict == AdmissionVerdict("shed", "prompt_too_long", "r.max_prompt_tokens", "enforce")
        _, output = doors(loop, Rule("r", max_output_tokens=499))
        with pytest.raises(OutputTooLong):
            await admit(output)
        small = Door(loop.clock, Limits([Rule("r", within_window=True)])).at(Known(given={"": 99}))
        with pytest.raises(PromptTooLong, match="context window"):
            await admit(small)

    run(main)


def test_a_cap_travels_with_the_permit() -> None:
    async def main(loop: VirtualLoop) -> None:
        _, engine = doors(loop, Rule("r", max_output_tokens=100, cap_output=True))
        assert (await admit(engine)).output_cap == (100, "r.max_output_tokens")

    run(main)


def test_observing_changes_nothing_but_the_verdict() -> None:
    async def main(loop: VirtualLoop) -> None:
        door, engine = doors(
            loop, Rule("r", mode="observe", max_concurrency=1, requests_per_minute=9, max_output_tokens=500)
        )
        permits = [await admit(engine) for _ in range(3)]
        assert permits[0].verdict == AdmissionVerdict(mode="observe")
        assert permits[2].verdict == AdmissionVerdict("admitted", "concurrency", "r.max_concurrency", "observe")
        assert permits[2].output_cap is None
        assert door.headers(ask(FACTS, None, None, Known())) == engine.headers(FACTS, None) == []
        for permit in permits:
            permit.ended("success", None)
        assert taken(door)["max_concurrency"] == 0

    run(main)


def test_what_is_no_inference_is_not_limited() -> None:
    async def main(loop: VirtualLoop) -> None:
        _, engine = doors(loop, Rule("r", max_concurrency=1, requests_per_minute=1))
        for _ in range(3):
            permit = await admit(engine, facts=RequestFacts("openai", "models", "read"))
            assert permit.verdict == AdmissionVerdict()
            permit.ended("success", None)

    run(main)


def test_a_limited_tenant_is_told_what_is_left() -> None:
    async def main(loop: VirtualLoop) -> None:
        _, engine = doors(loop, Rule("r", tenants=("team-a",), requests_per_minute=60))
        await admit(engine, "team-a")
        assert dict(engine.headers(FACTS, "team-a")) == {
            b"x-ratelimit-limit-requests": b"60",
            b"x-ratelimit-remaining-requests": b"59",
            b"x-ratelimit-reset-requests": b"1s",
        }
        assert engine.headers(FACTS, "team-b") == []

    run(main)


def test_other_rules_keep_permits_and_let_in_who_waits_for_a_limit_that_is_gone() -> None:
    async def main(loop: VirtualLoop) -> None:
        door, engine = doors(loop, Rule("r", max_concurrency=1, queue_length=5))
        first = await admit(engine)
        waiter = waits(engine)
        await breathe()
        door.replace([Rule("r", max_concurrency=2, queue_length=5)])
        second = await waiter
        assert taken(door) == {"max_concurrency": 2}
        door.replace([])
        first.ended("success", None)
        second.ended("success", None)
        json.dumps(door.snapshot())
        door.replace([Rule("r", max_concurrency=1)])
        assert (await admit(engine)).verdict.decision == "admitted"

    run(main)


def concurrency(slots: int, queue: int) -> Rule:
    return Rule("r", max_concurrency=slots, queue_length=queue, queue_timeout_s=5, tokens_per_day=10**9)


TENANTS = ("greedy", "modest", None)


@dataclass
class Ticket:
    """One who comes: of whom, the how manieth, and how many later ones may be served before it."""

    tenant: str | None
    number: int
    patience: int


class Traffic(RuleBasedStateMachine):
    """Requests come, wait, leave and end in any order, and rules change under them."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop(ManualClock())
        self.door = Door(self.loop.clock, Limits([concurrency(2, 2)]))
        self.engine = self.door.at(Known())
        self.waiting: list[asyncio.Task[Permit]] = []
        self.tickets: dict[asyncio.Task[Permit], Ticket] = {}
        self.permits: list[Permit] = []
        self.highest = 2

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def collect(self) -> None:
        self.do(breathe())
        done = [task for task in self.waiting if task.done()]
        self.waiting = [task for task in self.waiting if not task.done()]
        for task in done:
            if not task.cancelled() and not isinstance(task.exception(), ProxyError):
                self.permits.append(task.result())
                self.passed_by(self.tickets[task])

    def passed_by(self, served: "Ticket") -> None:
        """Nobody of the same tenant came earlier; of the others' patience one turn is gone."""
        for ticket in (self.tickets[task] for task in self.waiting):
            if ticket.number < served.number:
                assert ticket.tenant != served.tenant
                ticket.patience -= 1
                assert ticket.patience >= 0

    @rule(tenant=st.sampled_from(TENANTS))
    def comes(self, tenant: str | None) -> None:
        before = sum(self.tickets[task].tenant == tenant for task in self.waiting)
        task = self.loop.create_task(admit(self.engine, tenant))
        self.waiting.append(task)
        self.tickets[task] = Ticket(tenant, len(self.tickets), (len(TENANTS) - 1) * (before + 1))
        self.collect()

    @rule(n=st.integers(0, 9), how=st.sampled_from(["success", "ignore", "dropped", "withdrawn"]), both=st.booleans())
    def ends(self, n: int, how: str, both: bool) -> None:
        if self.permits:
            permit = self.permits.pop(n % len(self.permits))
            permit.ended(how, None)
            if both and self.waiting:
                self.waiting[n % len(self.waiting)].cancel()
        self.collect()

    @rule(n=st.integers(0, 9))
    def leaves(self, n: int) -> None:
        if self.waiting:
            self.waiting[n % len(self.waiting)].cancel()
        self.collect()

    @rule(seconds=st.integers(1, 7))
    def passes(self, seconds: int) -> None:
        self.do(asyncio.sleep(seconds))
        self.collect()

    @rule(slots=st.integers(1, 4), queue=st.integers(0, 3))
    def changes(self, slots: int, queue: int) -> None:
        self.highest = max(self.highest, slots)
        self.door.replace([concurrency(slots, queue)])
        self.collect()

    @invariant()
    def slots_are_those_of_living_permits(self) -> None:
        shown = {c["limit"]: c for c in self.door.snapshot()["counters"]}
        slots = shown.get("max_concurrency")
        if slots is not None:
            assert slots["allowed"] - slots["remaining"] == min(len(self.permits), slots["allowed"])
            assert slots["waiting"] == self.door.snapshot()["waiting"] == len(self.waiting)
            assert not self.waiting or slots["remaining"] == 0
        assert len(self.permits) <= self.highest

    def teardown(self) -> None:
        for task in self.waiting:
            task.cancel()
        self.collect()
        for permit in self.permits:
            permit.ended("withdrawn", None)
        self.permits.clear()
        self.collect()
        for counter in self.door.snapshot()["counters"]:
            if counter["limit"] == "max_concurrency":
                assert counter["remaining"] == counter["allowed"]
        self.loop.close()


TestTraffic = Traffic.TestCase
TestTraffic.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
