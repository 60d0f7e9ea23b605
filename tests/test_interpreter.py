"""What a process keeps for good is not walked again."""

import gc
import sys

from proxy.interpreter import OLDER, SWITCH_S, YOUNG, calm


def test_what_is_there_is_walked_no_more_and_what_comes_later_still_is() -> None:
    before, turn = gc.get_threshold(), sys.getswitchinterval()
    try:
        calm()
        assert gc.get_freeze_count() > 0
        assert gc.get_threshold() == (YOUNG, OLDER, OLDER)
        assert sys.getswitchinterval() == SWITCH_S
        ring: list[object] = []
        ring.append(ring)
        del ring
        assert gc.collect() >= 1
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
        sys.setswitchinterval(turn)
