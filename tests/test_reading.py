"""Large bodies leave the loop, small ones do not."""

import asyncio
import gzip
import threading

import pytest

from proxy.reading import LONG_BODY, MANY_VALUES, Reading, heavy


@pytest.mark.parametrize(
    ("body", "is_heavy"),
    [
        pytest.param(b"", False, id="none"),
        pytest.param(b'{"prompt":"' + b"word " * 10_000 + b'"}', False, id="usual"),
        pytest.param(b'{"prompt":"' + b"x" * LONG_BODY + b'"}', True, id="long"),
        pytest.param(b'{"messages":[' + b",".join([b"{}"] * MANY_VALUES) + b"]}", False, id="as many values"),
        pytest.param(b'{"messages":[' + b",".join([b"{}"] * (MANY_VALUES + 2)) + b"]}", True, id="more values"),
        pytest.param(gzip.compress(b"{}"), True, id="compressed: its size says nothing"),
    ],
)
def test_what_may_take_long_is_known_at_a_glance(body: bytes, is_heavy: bool) -> None:
    assert heavy(body) is is_heavy


def test_only_heavy_bodies_leave_the_loop() -> None:
    reading = Reading()

    def where(body: bytes) -> str:
        return asyncio.run(reading.work(body, lambda: threading.current_thread().name))

    assert where(b"{}") == threading.main_thread().name
    assert where(b" " * (LONG_BODY + 1)) == "phasegate-read_0"


def test_what_work_raises_is_raised() -> None:
    for body in (b"", b" " * (LONG_BODY + 1)):
        with pytest.raises(ZeroDivisionError):
            asyncio.run(Reading().work(body, lambda: 1 // 0))
