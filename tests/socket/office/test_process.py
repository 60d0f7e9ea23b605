"""The keeper, with offices that do as they please. (tests/socket has real ones.)"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, MutableMapping
from pathlib import Path
from typing import Any

from structlog.testing import capture_logs

from proxy.messages import Hello
from proxy.office.channel import Sender
from proxy.office.process import OfficeProcess
from tests.support.patience import run, until
from tests.support.records import finished


def test_an_office_that_hangs_is_killed_in_the_end() -> None:
    async def test() -> None:
        sender = Sender(Hello(pid=1, version="0"))
        process = OfficeProcess(sender, (sys.executable, "-c", "import time; time.sleep(600)"))
        task = asyncio.create_task(process.run())
        sender.send(finished("a"))
        await until(lambda: process.pid is not None)
        await process.stop(limit_s=0.2)
        await task
        assert sender.lost == 1

    run(test)


LISTENER = """
import signal, socket, struct, sys
def heard(*_):
    open(sys.argv[1], "a").write("heard\\n")
end = socket.socket(fileno=int(sys.argv[2]))
end.recv(65536)
signal.signal(signal.SIGHUP, heard)
end.send(struct.pack("!I", 1))
while end.recv(65536):
    end.send(struct.pack("!I", 1))
"""


def test_an_office_that_starts_hears_of_a_reload_when_it_is_set_up(tmp_path: Path) -> None:
    async def test() -> None:
        heard = tmp_path / "heard"
        sender = Sender(Hello(pid=1, version="0"))
        process = OfficeProcess(sender, (sys.executable, "-c", LISTENER, str(heard)), delay_s=600)
        task = asyncio.create_task(process.run())
        await until(lambda: process.pid is not None)
        process.reopen()
        process.reopen()
        await until(heard.exists)
        process.reopen()
        await until(lambda: heard.read_text() == "heard\n" * 2)
        await process.stop()
        await task

    with capture_logs() as logs:
        run(test)
    assert logs == []


@contextlib.asynccontextmanager
async def between_two(sender: Sender) -> AsyncIterator[tuple[OfficeProcess, list[MutableMapping[str, Any]]]]:
    """A keeper whose office has died and whose next one is far away, and what it logs; it must be stopped."""
    process = OfficeProcess(sender, (sys.executable, "-c", "pass"), delay_s=600)
    with capture_logs() as logs:
        task = asyncio.create_task(process.run())
        await until(lambda: "office_died" in [entry["event"] for entry in logs])
        yield process, logs
        await task


def test_stopping_between_two_offices_does_not_wait_for_the_next() -> None:
    async def test() -> None:
        async with between_two(Sender(Hello(pid=1, version="0"))) as (process, _):
            assert process.pid is None
            process.reopen()
            await process.stop()

    run(test)


def test_an_office_that_always_dies_does_not_keep_us() -> None:
    async def test() -> None:
        sender = Sender(Hello(pid=1, version="0"))
        async with between_two(sender) as (process, _):
            sender.send(finished("a"))
            await process.stop()
        assert sender.lost + sender.waiting == 1

    run(test)


def test_an_office_that_dies_of_its_last_work_is_told_of() -> None:
    async def test() -> None:
        sender = Sender(Hello(pid=1, version="0"))
        async with between_two(sender) as (process, logs):
            logs.clear()
            for number in range(2000):  # more than a socketpair takes
                sender.send(finished(f"r{number}"))
            await process.stop()
        assert sender.lost + sender.waiting == 2000
        assert [entry["frames"] for entry in logs] == [sender.waiting]

    run(test)
