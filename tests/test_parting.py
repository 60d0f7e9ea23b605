"""What follows an exchange's end. (Swaps, samples and inferred figures are in test_app and test_auditing.)"""

import asyncio

from proxy.engines.runners import Rivals, Runner
from proxy.events import Said
from proxy.parting import Parting
from proxy.records import COLD_LOAD_NS, EngineReport, Evidence, Finished, TokenCount
from proxy.rooms import Ended
from proxy.tokens.sample import FEATURES
from tests.support.clock import VirtualLoop, run
from tests.support.house import House
from tests.support.records import finished
from tests.support.script import OK

NOBODY: Rivals = {}


def left(done: Finished, rivals: Rivals = NOBODY) -> tuple[list[object], list[object]]:
    """What has left at once, and what when all was known."""

    async def main(loop: VirtualLoop) -> tuple[list[object], list[object]]:
        house, out = House(loop, OK), list[object]()
        parting = Parting(house.app.auditing, out.append, lambda id, bug: out.append(bug))
        parting.leave(Ended(house.app.fleet.engines[0], "1", done.facts, done, Said(), rivals))
        at_once = list(out)
        await asyncio.wait_for(parting.idle(), 60)
        return at_once, out

    return run(main)


def test_a_record_that_waits_for_nothing_leaves_at_once() -> None:
    assert left(finished()) == ([finished()], [finished()])


def test_a_long_load_beside_another_model_is_looked_at_first_and_the_record_leaves_whatever_is_seen() -> None:
    loaded = EngineReport(source="ollama.durations", load_ns=COLD_LOAD_NS)
    done = finished()._replace(report=loaded, evidence=Evidence("ollama", others_done_ns=1))
    assert left(done, rivals={Runner("other"): 1}) == ([], [done])  # the engine has no such page
    quick = done._replace(report=loaded._replace(load_ns=COLD_LOAD_NS - 1))
    assert left(quick, rivals={Runner("other"): 1})[0] == [quick]


def test_counting_learns_nothing_from_the_tokens_of_one_prompt_of_several() -> None:
    """llama.cpp says those of the first."""

    async def main(loop: VirtualLoop) -> list[int]:
        house, answers = House(loop, OK), []
        engine = house.app.fleet.engines[0]
        parting = Parting(house.app.auditing, lambda record: None, lambda id, bug: None)
        for prompts in (1, 2):
            done = finished(
                counted=TokenCount(9, "estimated", 5, 90, 9, sample=(1,) * len(FEATURES)),
                evidence=Evidence("llamacpp"),
                report=EngineReport(source="llamacpp.timings", covers_all=prompts == 1),
            )
            facts = done.facts._replace(prompts=prompts)
            parting.leave(Ended(engine, "1", facts, done._replace(facts=facts), Said(), NOBODY))
            answers.append(sum(learnt["answers"] for learnt in engine.desk.snapshot().values()))
        return answers

    assert run(main) == [1, 1]
