import pytest
import structlog

from proxy.office.sparing import BURST, STRETCH_NS, Sparing
from tests.support.clock import ManualClock


def written(sparing: Sparing, **said: object) -> dict[str, object] | None:
    try:
        return dict(sparing(None, "error", dict(said)))
    except structlog.DropEvent:
        return None


def test_of_one_kind_so_many_are_written_and_the_next_stretch_says_how_many_were_not() -> None:
    clock = ManualClock()
    sparing = Sparing(clock)
    lines = [written(sparing, event="proxy_fault", request=str(number)) for number in range(BURST + 7)]
    assert [line for line in lines if line is not None] == lines[:BURST]
    assert lines[BURST - 1] == {"event": "proxy_fault", "request": str(BURST - 1)}
    clock.advance(STRETCH_NS)
    assert written(sparing, event="proxy_fault", request="x") == {"event": "proxy_fault", "request": "x", "left_out": 7}
    assert written(sparing, event="proxy_fault", request="y") == {"event": "proxy_fault", "request": "y"}


def test_a_kind_costs_another_nothing() -> None:
    sparing = Sparing(ManualClock())
    for _ in range(2 * BURST):
        written(sparing, event="proxy_fault")
    assert written(sparing, event="draining") is not None


def test_what_a_foreign_logger_says_is_one_kind_whatever_it_says() -> None:
    sparing = Sparing(ManualClock())
    said = [written(sparing, event=f"bad request {number}", logger="uvicorn.error") for number in range(2 * BURST)]
    assert sum(line is not None for line in said) == BURST


@pytest.mark.parametrize("event", ["reloaded", "reload_refused"])
def test_an_answer_to_whoever_runs_us_is_never_left_out(event: str) -> None:
    sparing = Sparing(ManualClock())
    lines = [written(sparing, event=event, reason=str(number)) for number in range(2 * BURST)]
    assert lines == [{"event": event, "reason": str(number)} for number in range(2 * BURST)]


@pytest.mark.parametrize("seconds", [0, 9])
def test_a_few_lines_are_never_left_out(seconds: int) -> None:
    clock = ManualClock()
    sparing = Sparing(clock)
    for _ in range(BURST):
        assert written(sparing, event="e") == {"event": "e"}
        clock.advance(seconds * STRETCH_NS // 100)
