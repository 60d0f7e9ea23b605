from collections.abc import Callable

import pytest

from proxy.events import NOTHING
from proxy.timeline import Recorder
from proxy.transitions import NEXT, ROWS, IllegalInput

INPUTS: dict[str, Callable[[Recorder], object]] = {
    "arrived": lambda r: r.arrived(0.0, 0, 0),
    "admitted": lambda r: r.admitted(0, 0),
    "dispatched": lambda r: r.dispatched(0),
    "head": lambda r: r.head(0, 200, True),
    "read": lambda r: r.read(0, 1),
    "event": lambda r: r.event(0, NOTHING),
    "unreadable": lambda r: r.unreadable(0),
    "blocked": lambda r: r.blocked(1),
    "body_end": lambda r: r.body_end(0),
    "end": lambda r: r.end(0),
}
PATHS = {
    "arrived": [],
    "admitted": ["admitted"],
    "dispatched": ["dispatched"],
    "answering": ["dispatched", "head"],
    "answered": ["dispatched", "head", "body_end"],
    "ended": ["end"],
}
LEGAL = {
    "arrived": {"arrived", "admitted", "dispatched", "head", "end"},
    "admitted": {"dispatched", "head", "end"},
    "dispatched": {"dispatched", "head", "end"},
    "answering": {"dispatched", "read", "event", "unreadable", "blocked", "body_end", "end"},
    "answered": {"dispatched", "event", "unreadable", "blocked", "end"},
    "ended": set(),
}


@pytest.mark.parametrize("word", INPUTS)
@pytest.mark.parametrize("state", PATHS)
def test_an_input_out_of_order_raises_and_changes_nothing(state: str, word: str) -> None:
    recorder, twin = Recorder(0.0, 0), Recorder(0.0, 0)
    for step in PATHS[state]:
        INPUTS[step](recorder)
        INPUTS[step](twin)
    if word in LEGAL[state]:
        INPUTS[word](recorder)
        return
    with pytest.raises(IllegalInput, match=f"while {state}"):
        INPUTS[word](recorder)
    assert repr(recorder) == repr(twin)
    if state != "ended":
        assert recorder.end(7) == twin.end(7)


def test_every_state_of_the_table_is_reached_and_has_a_row() -> None:
    assert set(PATHS) == set(NEXT) == set(ROWS)
    assert {after for row in NEXT.values() for after in row.values()} == set(NEXT)
