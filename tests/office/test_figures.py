import pytest

from proxy.engines.gauges import TARGET
from proxy.engines.inside import PROPS, PS, SLOTS, Inside
from proxy.office.figures import MISSES, Figures


@pytest.fixture
def figures() -> Figures:
    made = Figures()
    made.of("llamacpp")
    return made


def test_before_the_first_page_nothing_is_known(figures: Figures) -> None:
    assert figures.inside == Inside()
    assert not figures.said(PROPS)


def test_pages_are_told_together_and_metrics_come_first(figures: Figures) -> None:
    figures.heard(SLOTS, Inside(running=1, kv_usage=0.5, slots=2))
    figures.heard(PROPS, Inside(slots=2, model="m"))
    figures.heard(TARGET, Inside(running=2, waiting=0))
    assert figures.inside == Inside(running=2, waiting=0, kv_usage=0.5, slots=2, model="m")


def test_a_page_that_is_late_once_still_stands_and_one_that_stays_away_is_forgotten(figures: Figures) -> None:
    figures.heard(SLOTS, Inside(running=1))
    for _ in range(MISSES - 1):
        figures.heard(SLOTS, None)
    assert figures.inside.running == 1
    figures.heard(SLOTS, Inside(running=2))
    for _ in range(MISSES):
        figures.heard(SLOTS, None)
    assert figures.inside == Inside()


def test_an_engine_that_does_not_answer_is_forgotten(figures: Figures) -> None:
    figures.heard(SLOTS, Inside(running=1))
    for _ in range(MISSES):
        figures.silent()
    assert figures.inside == Inside()


def test_another_engine_has_pages_of_its_own(figures: Figures) -> None:
    figures.heard(SLOTS, Inside(running=1))
    figures.of("llamacpp")
    assert figures.inside.running == 1
    figures.of("ollama")
    assert figures.inside == Inside()
    figures.heard(PS, Inside(loaded=()))
    assert figures.inside.loaded == ()


def test_what_cannot_sleep_may_always_be_asked(figures: Figures) -> None:
    figures.heard(PROPS, Inside(slots=2))
    figures.asked()
    assert not figures.rests(0)


@pytest.mark.parametrize("why", ["first", "in flight", "a request came", "runs", "waits"])
def test_what_could_fall_asleep_is_asked_while_there_is_something_to_see(figures: Figures, why: str) -> None:
    figures.heard(PROPS, Inside(sleeping=False))
    if why != "first":
        figures.asked()
    if why == "a request came":
        figures.stir()
    seen = {"runs": Inside(running=1, waiting=0), "waits": Inside(running=0, waiting=1)}
    figures.heard(SLOTS, seen.get(why, Inside(running=0, waiting=0)))
    assert not figures.rests(int(why == "in flight"))


def test_it_is_left_alone_when_the_last_look_saw_nothing(figures: Figures) -> None:
    figures.heard(PROPS, Inside(sleeping=False))
    figures.stir()
    assert not figures.rests(0)
    figures.asked()
    figures.heard(SLOTS, Inside(running=0))
    assert figures.rests(0)


def test_what_sleeps_is_left_alone_and_does_no_work(figures: Figures) -> None:
    figures.heard(SLOTS, Inside(running=1))
    figures.heard(TARGET, Inside(waiting=1))
    figures.heard(PROPS, Inside(sleeping=True, slots=2))
    assert figures.rests(3)
    figures.slept()
    assert figures.inside == Inside(sleeping=True, slots=2)
