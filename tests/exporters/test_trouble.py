from pathlib import Path

from structlog.testing import capture_logs

from proxy.exporters.trouble import Trouble


def test_each_trouble_is_said_twice_with_its_own_cost() -> None:
    with capture_logs() as logs:
        trouble = Trouble("store", Path("s.db"))
        for cost in (2, 3):
            for _ in range(cost):
                trouble.begins("disk full")
                trouble.lost += 1
            trouble.ends()
            trouble.ends()
    assert [(log["event"], log.get("lost")) for log in logs] == [
        ("store_not_written", None),
        ("store_written_again", 2),
        ("store_not_written", None),
        ("store_written_again", 3),
    ]
    assert trouble.lost == 5


def test_what_is_left_at_the_end_is_lost_and_said() -> None:
    with capture_logs() as logs:
        trouble = Trouble("store", Path("s.db"))
        trouble.begins("disk full")
        trouble.lost += 1
        trouble.closes(4)
    assert [(log["event"], log.get("lost")) for log in logs] == [("store_not_written", None), ("store_lost", 5)]


def test_without_trouble_nothing_is_said() -> None:
    with capture_logs() as logs:
        trouble = Trouble("store", Path("s.db"))
        trouble.ends()
        trouble.closes(0)
    assert (logs, trouble.lost) == ([], 0)
