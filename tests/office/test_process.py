"""The keeper, with offices that do as they please. (tests/socket has real ones.)"""

import asyncio
import sys

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
