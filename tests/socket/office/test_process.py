"""The keeper, with offices that do as they please. (tests/socket has real ones.)"""

import asyncio
import contextlib
import os
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, MutableMapping
from pathlib import Path
from typing import Any

import pytest
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
        assert (sender.lost, sender.waiting) == (0, 1)  # which the log has said

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


def failing_once(real: Callable[..., Any]) -> Callable[..., Any]:
    """The same, but for the first call."""
    errors = [BlockingIOError(11, "Resource temporarily unavailable")]

    def call(*arguments: Any, **named: Any) -> Any:
        if errors:
            raise errors.pop()
        return real(*arguments, **named)

    return call


@pytest.mark.parametrize(
    ("module", "name"),
    [(socket, "socketpair"), (asyncio, "create_subprocess_exec"), (os, "memfd_create"), (tempfile, "TemporaryFile")],
    ids=["no socket", "no process", "no memory", "no file"],
)
def test_an_office_that_cannot_be_started_is_told_of_and_tried_again(
    module: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if module is tempfile:
        monkeypatch.delattr(os, "memfd_create", raising=False)  # as on macOS

    async def test() -> None:
        monkeypatch.setattr(module, name, failing_once(getattr(module, name)))  # now that the loop has its own
        sender = Sender(Hello(pid=1, version="0"))
        process = OfficeProcess(sender, (sys.executable, "-c", LISTENER, os.devnull), delay_s=0.01)
        task = asyncio.create_task(process.run())
        await until(lambda: sender.greeted)
        await process.stop()
        await task

    with capture_logs() as logs:
        run(test)
    assert [(entry["event"], entry["error"]) for entry in logs] == [
        ("office_not_started", "Resource temporarily unavailable")
    ]


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="there is no memory that is a file here")
def test_an_office_needs_no_directory_to_write_in(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> None:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "TemporaryFile", nowhere)

    async def test() -> None:
        process = OfficeProcess(Sender(Hello(pid=1, version="0")), (sys.executable, "-c", LISTENER, os.devnull))
        task = asyncio.create_task(process.run())
        await until(lambda: process.pid is not None)
        await process.stop()
        await task

    run(test)


def test_an_office_that_can_never_be_started_holds_neither_descriptors_nor_the_end() -> None:
    async def test() -> None:
        sender = Sender(Hello(pid=1, version="0"))
        process = OfficeProcess(sender, ("/nowhere/python",), delay_s=0.01)
        with capture_logs() as logs:
            task = asyncio.create_task(process.run())
            await until(lambda: len(logs) > 3)
            held = len(os.listdir("/dev/fd"))
            await until(lambda: len(logs) > 9)
            assert len(os.listdir("/dev/fd")) == held
            sender.send(finished("a"))
            await process.stop(limit_s=10)
            await task
        assert [entry["event"] for entry in logs[-2:]] == ["office_not_started", "frames_not_delivered"]

    run(test)
