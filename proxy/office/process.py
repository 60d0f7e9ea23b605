"""The keeper of the office: starts it, starts it again when it dies, and ends it last.

The office is given its end of a socketpair, and a file without a name in which one office leaves its counters to the
next; what else it must know comes in `Hello`. It has a session of its own, so that a
terminal's ^C does not find it while it starts, and ignores SIGINT and SIGTERM, which systemd sends to every process at
once: it ends when its socket does, so the records of streams that were still running are not lost.
"""

import asyncio
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Coroutine, Sequence
from typing import IO, Any

import structlog

from proxy.office.channel import Sender
from proxy.plain import fault

COMMAND = (sys.executable, "-m", "proxy.office")
DELAY_S = 1.0
"""Between a death and the next start: starting costs half a second of CPU."""
STOP_S = 10.0
"""For the last frames, settling and writing. Then it is killed: a service manager waits 10 to 90 s."""

log = structlog.get_logger("phasegate.office")


class OfficeProcess:
    """One office at a time.

    State: the child (None between two), the file that they share, whether the child is to open its files anew as soon
    as it can hear of it, whether it shall end, whether it has, and whether patience did.
    """

    def __init__(self, sender: Sender, command: Sequence[str] = COMMAND, delay_s: float = DELAY_S) -> None:
        self._sender = sender
        self._command = command
        self._delay_s = delay_s
        self._child: asyncio.subprocess.Process | None = None
        self._memory: IO[bytes] | None = None
        self._stale = False
        self._ending = asyncio.Event()
        self._ended = asyncio.Event()
        self._given_up = False

    @property
    def pid(self) -> int | None:
        """Of the office; None between two."""
        return self._child.pid if self._child is not None else None

    async def run(self) -> None:
        """Keeps an office running until `stop`. A task of its own."""
        try:
            await self._keep()
        finally:
            if self._memory is not None:
                self._memory.close()
            self._ended.set()

    async def stop(self, limit_s: float = STOP_S) -> None:
        """Sends the last frames, lets the office finish its work, and ends it. Kills it after `limit_s`."""
        self._ending.set()
        if not await _within(limit_s, self._ended.wait()):
            log.error("office_killed", after_s=limit_s)
            self._given_up = True
            if self._child is not None:
                self._child.kill()
            await self._ended.wait()
        if self._sender.waiting:
            log.error("frames_not_delivered", frames=self._sender.waiting)

    def reopen(self) -> None:
        """The office opens its files anew: SIGHUP, passed on; to one that starts, when it can hear: it would die."""
        self._stale = not self._sender.greeted
        if not self._stale and self._child is not None and self._child.returncode is None:
            self._child.send_signal(signal.SIGHUP)

    async def _keep(self) -> None:
        while not self._ending.is_set():
            await self._one()
            if not self._ending.is_set():
                await _within(self._delay_s, self._ending.wait())
        if self._sender.waiting and not self._given_up:  # records that came while there was none: one more office
            await self._one()

    async def _one(self) -> None:
        """One office, if one can be had: what has run out (descriptors, processes, memory) there may be later."""
        try:
            self._child, ours = await self._start()
        except OSError as error:
            log.error("office_not_started", error=fault(error))
            return
        await self._live(self._child, ours)
        if not self._ending.is_set():
            log.warning("office_died", lost=self._sender.lost, again_in_s=self._delay_s)

    async def _start(self) -> tuple[asyncio.subprocess.Process, socket.socket]:
        """A new office, and our end of its socket. Raises OSError."""
        self._memory = self._memory or _nameless()
        ours, theirs = socket.socketpair()
        with theirs:
            inherited = (theirs.fileno(), self._memory.fileno())
            try:
                child = await asyncio.create_subprocess_exec(
                    *self._command,
                    *map(str, inherited),
                    stdin=asyncio.subprocess.DEVNULL,
                    start_new_session=True,
                    pass_fds=inherited,
                )
            except BaseException:
                ours.close()
                raise
        return child, ours

    async def _live(self, child: asyncio.subprocess.Process, ours: socket.socket) -> None:
        """Its life, to its end."""
        self._stale = False
        self._sender.attach(ours)
        beside = [asyncio.create_task(self._welcome()), asyncio.create_task(self._farewell())]
        try:
            await child.wait()
        finally:
            for task in beside:
                task.cancel()
            self._sender.detach()
            self._child = None

    async def _welcome(self) -> None:
        """When it is set up: what it could not hear of before."""
        await self._sender.greeting()
        if self._stale:
            self.reopen()

    async def _farewell(self) -> None:
        """When it shall end: the last frames, then the end of the stream."""
        await self._ending.wait()
        await self._sender.drain()
        self._sender.finish()


def _nameless() -> IO[bytes]:
    """A file without a name: in memory, where the system has such; a container may have no directory to write in."""
    return os.fdopen(os.memfd_create("phasegate"), "wb") if hasattr(os, "memfd_create") else tempfile.TemporaryFile()


async def _within(limit_s: float, work: Coroutine[Any, Any, object]) -> bool:
    """Whether `work` was done in time; it is given up else."""
    task = asyncio.create_task(work)
    done, _ = await asyncio.wait((task,), timeout=limit_s)
    task.cancel()
    return bool(done)
