"""The keeper, with offices that do as they please. (tests/socket has real ones.)"""

import asyncio
import sys

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


def test_stopping_between_two_offices_does_not_wait_for_the_next() -> None:
    async def test() -> None:
        sender = Sender(Hello(pid=1, version="0"))
        process = OfficeProcess(sender, (sys.executable, "-c", "pass"), delay_s=600)
        task = asyncio.create_task(process.run())
        await until(lambda: process.pid is not None)
        await until(lambda: process.pid is None)
        process.reopen()
        await process.stop()
        await task

    run(test)


def test_an_office_that_always_dies_does_not_keep_us() -> None:
    async def test() -> None:
        sender = Sender(Hello(pid=1, version="0"))
        process = OfficeProcess(sender, (sys.executable, "-c", "pass"), delay_s=600)
        task = asyncio.create_task(process.run())
        await until(lambda: process.pid is not None)
        await until(lambda: process.pid is None)
        sender.send(finished("a"))
        await process.stop()
        await task
        assert sender.lost + sender.waiting == 1

    run(test)


def test_an_office_that_dies_of_its_last_work_is_told_of() -> None:
    async def test() -> None:
        sender = Sender(Hello(pid=1, version="0"))
        process = OfficeProcess(sender, (sys.executable, "-c", "pass"), delay_s=600)
        task = asyncio.create_task(process.run())
        await until(lambda: process.pid is not None)
        await until(lambda: process.pid is None)
        for number in range(2000):  # more than a socketpair takes
            sender.send(finished(f"r{number}"))
        with capture_logs() as logs:
            await process.stop()
        await task
        assert sender.lost + sender.waiting == 2000
        assert [entry["frames"] for entry in logs] == [sender.waiting]

    run(test)
