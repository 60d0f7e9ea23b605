"""What a process keeps for good is not walked again."""

import gc

from proxy.collector import OLDER, YOUNG, calm


def test_what_is_there_is_walked_no_more_and_what_comes_later_still_is() -> None:
    before = gc.get_threshold()
    try:
        calm()
        assert gc.get_freeze_count() > 0
        assert gc.get_threshold() == (YOUNG, OLDER, OLDER)
        ring: list[object] = []
        ring.append(ring)
        del ring
        assert gc.collect() >= 1
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)
