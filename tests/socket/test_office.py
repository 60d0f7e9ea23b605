"""The office as a process of its own, over a real socketpair: what is sent, what is lost, how it ends."""

import asyncio
import json
import os
import re
import signal
import socket
import sqlite3
import struct
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import structlog

from proxy.clock import SystemClock
from proxy.exporters.carry import load
from proxy.exporters.reader import Unreadable, Wanted, lines
from proxy.exporters.series import Series
from proxy.messages import EngineState, Hello, Message, PromptSeen, Pulse
from proxy.office import main
from proxy.office.channel import Receiver, Sender, encode
from proxy.office.memory import Memory
from proxy.office.process import OfficeProcess
from proxy.office.research import Research
from proxy.office.scrape import Scraper
from proxy.records import PrefixVerdict, Prompt, Usage
from tests.support.loopback import free_port
from tests.support.patience import run, until
from tests.support.records import AT_S, finished

READY = Pulse(at_s=1.0, engines=(EngineState(name="ollama", answers=True),))


def recorded(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def stored(path: Path) -> int:
    try:
        return len(list(lines(path, Wanted())))
    except Unreadable:  # not there yet
        return 0


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def hit(process: OfficeProcess, name: signal.Signals) -> int:
    """Sends the running office a signal (to process 0 it would go to our own group). The office's process id."""
    assert process.pid is not None
    os.kill(process.pid, name)
    return process.pid


@asynccontextmanager
async def office(hello: Hello, delay_s: float = 0.05) -> AsyncIterator[tuple[Sender, OfficeProcess]]:
    sender = Sender(hello)
    process = OfficeProcess(sender, delay_s=delay_s)
    task = asyncio.create_task(process.run())
    try:
        yield sender, process
    finally:
        await process.stop()
        await task


def test_no_record_is_lost_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"

    async def test() -> None:
        async with office(Hello(pid=1, version="0", records=str(path), live=False, admin_port=0)) as (sender, _):
            for number in range(2000):
                sender.send(finished(f"r{number}"))
        assert sender.lost == 0

    run(test)
    assert recorded(path) == 2000


def test_signals_to_the_whole_group_do_not_end_the_office_before_its_time(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"

    async def test() -> None:
        async with office(Hello(pid=1, version="0", records=str(path), live=False, admin_port=0)) as (sender, process):
            sender.send(finished("a"))
            await until(lambda: recorded(path) == 1)
            for name in (signal.SIGINT, signal.SIGTERM):
                hit(process, name)
            sender.send(finished("b"))

    run(test)
    assert recorded(path) == 2


def test_a_killed_office_is_restarted_and_every_record_is_written_or_counted(tmp_path: Path) -> None:
    path, store = tmp_path / "r.jsonl", tmp_path / "s.db"
    hello = Hello(pid=1, version="0", records=str(path), store=str(store), live=False, admin_port=0)

    async def test() -> None:
        async with office(hello) as (sender, process):
            sender.send(finished("a"))
            await until(lambda: recorded(path) == 1 and stored(store) == 1)
            first = hit(process, signal.SIGKILL)
            for number in range(100):
                sender.send(finished(f"r{number}"))
            await until(lambda: process.pid not in (None, first))
            for number in range(100, 200):
                sender.send(finished(f"r{number}"))
        assert recorded(path) + sender.lost == 201

    run(test)
    assert stored(store) == recorded(path) >= 101


def test_rows_that_a_killed_office_had_taken_and_not_yet_written_are_counted_as_lost(tmp_path: Path) -> None:
    path, store, port = tmp_path / "r.jsonl", tmp_path / "s.db", free_port()
    hello = Hello(pid=1, version="0", records=str(path), store=str(store), live=False, admin_port=port)

    async def lost(by: str) -> int:
        async with httpx.AsyncClient() as client:
            text = (await client.get(f"http://127.0.0.1:{port}/metrics")).text
        (count,) = re.findall(rf'phasegate_records_lost_total{{by="{by}"}} (\d+)', text)
        return int(count)

    async def test() -> None:
        async with office(hello) as (sender, process):
            for killed in range(1, 4):
                await until(lambda: process.pid is not None)
                for number in range(100):
                    sender.send(finished(f"r{killed}-{number}"))
                await sender.drain()
                first = hit(process, signal.SIGKILL)
                await until(lambda first=first: process.pid not in (None, first))  # type: ignore[misc]
                await sender.drain()
                await until(lambda: answers(port))
                assert sender.lost == 0
                # More, should it die between a write and the note that it was made.
                for written, by in ((recorded(path), "records"), (stored(store), "store")):
                    assert killed * 100 - written <= await lost(by) <= killed * 100
            assert await lost("records") > 0

    run(test)


def test_the_admin_listener_answers_and_a_rotated_file_is_followed(tmp_path: Path) -> None:
    path, port = tmp_path / "r.jsonl", free_port()

    async def test() -> None:
        hello = Hello(pid=1, version="0", records=str(path), live=False, admin_port=port)
        async with office(hello) as (sender, process), httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            sender.send(READY)
            sender.send(finished("a"))
            await until(lambda: recorded(path) == 1)
            assert (await client.get("/readyz")).status_code == 200
            assert [row["id"] for row in (await client.get("/api/requests")).json()] == ["a"]
            path.rename(tmp_path / "r.1")
            process.reopen()
            await until(path.exists)
            sender.send(finished("b"))
            await until(lambda: recorded(path) == 1)

    run(test)
    assert recorded(tmp_path / "r.1") == 1


def test_a_crowd_of_wishes_to_reload_is_one(tmp_path: Path) -> None:
    path, port = tmp_path / "r.jsonl", free_port()
    heard: list[int] = []

    async def test() -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, heard.append, 1)
        hello = Hello(pid=os.getpid(), version="0", records=str(path), live=False, admin_port=port)
        async with office(hello) as (sender, _), httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            sender.send(finished("a"))
            await until(lambda: recorded(path) == 1)
            statuses = [(await client.post("/api/reload")).status_code for _ in range(50)]
            assert statuses == [202] * 50
            await until(lambda: bool(heard))
        assert len(heard) < 25  # one by one all are heard; so many would need 5 s for the crowd

    run(test)


def test_another_greeting_changes_the_settings_that_are_shown(tmp_path: Path) -> None:
    path, port = tmp_path / "r.jsonl", free_port()

    async def test() -> None:
        hello = Hello(pid=1, version="0", records=str(path), live=False, admin_port=port, config='{"limit": []}')
        async with office(hello) as (sender, _), httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            sender.send(finished("a"))
            await until(lambda: recorded(path) == 1)
            assert (await client.get("/api/config")).json() == {"limit": []}
            sender.greet(replace(hello, config='{"limit": [{"name": "r"}]}'))
            sender.send(finished("b"))
            await until(lambda: recorded(path) == 2)
            assert (await client.get("/api/config")).json() == {"limit": [{"name": "r"}]}

    run(test)


async def found(client: httpx.AsyncClient) -> str:
    """The name of the one family, once the office has its record."""
    assert 0 < (await client.get("/api/prefixes")).json()["since"] <= SystemClock().wall_s()
    while not (families := (await client.get("/api/prefixes")).json()["families"]):  # noqa: ASYNC110  # as in `until`
        await asyncio.sleep(0.05)
    return str(families[0]["family"])


def test_a_record_has_the_family_of_the_prompt_before_it_everywhere(tmp_path: Path) -> None:
    path, store, port = tmp_path / "r.jsonl", tmp_path / "s.db", free_port()
    asked = Prompt(texts=("You help travellers. Be brief. " * 9,))

    async def test() -> None:
        hello = Hello(pid=1, version="0", records=str(path), store=str(store), live=False, admin_port=port)
        async with office(hello) as (sender, _), httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            for id in "ab":
                if id == "a":
                    sender.send(PromptSeen(id=id, at_s=AT_S, engine="ollama", model="m", prompt=asked, answer=""))
                prefix = PrefixVerdict(16, 100, bins=(("compulsory", 100),))
                sender.send(finished(id, prefix=prefix, usage=Usage(100, 1)))
            await until(lambda: recorded(path) == 2 and stored(store) == 2)
            name = await found(client)
            (row,) = (await client.get("/api/requests", params={"family": name})).json()
            assert (row["id"], row["prefix"]["family"]) == ("a", name)
        written = [json.loads(line) for line in path.read_bytes().splitlines()]
        assert [(row["id"], row["prefix"]["family"]) for row in written] == [("a", name), ("b", None)]
        with closing(sqlite3.connect(store)) as connection:
            kept = connection.execute("SELECT id, family FROM requests ORDER BY n").fetchall()
        assert kept == [("a", name), ("b", None)]

    run(test)


def test_an_admin_port_that_is_taken_harms_no_record(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"

    async def test() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = int(taken.getsockname()[1])
            async with office(Hello(pid=1, version="0", records=str(path), live=False, admin_port=port)) as (sender, _):
                sender.send(finished("a"))
                await until(lambda: recorded(path) == 1)

    run(test)


def test_records_that_came_while_there_was_no_office_get_a_last_one(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"

    async def test() -> None:
        hello = Hello(pid=1, version="0", records=str(path), live=False, admin_port=0)
        async with office(hello, delay_s=600) as (sender, process):
            await until(lambda: process.pid is not None)
            hit(process, signal.SIGKILL)
            await until(lambda: process.pid is None)
            sender.send(finished("a"))

    run(test)
    assert recorded(path) == 1


def test_a_slow_reader_never_blocks_the_sender_and_gets_all_that_was_not_dropped() -> None:
    async def test() -> None:
        ours, theirs = socket.socketpair()
        sender = Sender(Hello(pid=1, version="0"), limit_bytes=100_000)
        sender.attach(ours)
        for number in range(3000):  # far more than the socket takes: nobody reads yet
            sender.send(finished(f"r{number}"))
            await asyncio.sleep(0)
        taken: list[Message] = []

        async def read() -> None:
            async for batch in Receiver(theirs).batches():
                taken.extend(batch)

        reading = asyncio.create_task(read())
        await sender.drain()
        sender.finish()
        await reading
        sender.detach()
        theirs.close()
        assert 0 < sender.lost < 3000
        assert len(taken) == 1 + 3000 - sender.lost

    run(test)


def test_the_office_lives_as_long_as_its_end_of_the_socketpair(tmp_path: Path) -> None:
    path, port = tmp_path / "r.jsonl", free_port()

    async def test() -> None:
        ours, theirs = socket.socketpair()
        sender = Sender(Hello(pid=1, version="0", records=str(path), live=False, admin_port=port))
        sender.attach(ours)
        with tempfile.TemporaryFile() as memory:
            await serve(sender, theirs, Memory(memory.fileno()))
        sender.detach()

    async def serve(sender: Sender, theirs: socket.socket, memory: Memory) -> None:
        serving = asyncio.create_task(main.serve(theirs, memory, SystemClock()))
        sender.send(READY)
        sender.send(finished("a"))
        await until(lambda: recorded(path) == 1)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
            assert (await client.get("/readyz")).status_code == 200
        sender.send(finished("b"))
        await sender.drain()
        sender.finish()
        await serving

    run(test)
    structlog.reset_defaults()
    assert recorded(path) == 2


async def one_office(hello: Hello, *messages: Message) -> list[int]:
    """An office in this process, and what it was told, until it ends by itself. The numbers of frames that it took."""
    ours, theirs = socket.socketpair()
    with tempfile.TemporaryFile() as memory, ours:
        ours.sendall(b"".join(map(encode, (hello, *messages))))
        await main.serve(theirs, Memory(memory.fileno()), SystemClock())
        return [count for (count,) in struct.iter_unpack("!I", ours.recv(4096))]


@pytest.mark.parametrize(
    ("part", "work"), [("tick", (main._Desk, "_tick")), ("research", (Research, "run"))], ids=["tick", "research"]
)
def test_an_office_of_which_a_part_dies_says_so_and_writes_and_ends(
    part: str,
    work: tuple[type, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Its keeper starts another."""
    path = tmp_path / "r.jsonl"
    hello = Hello(pid=1, version="0", records=str(path), live=False, admin_port=0, log_json=True)

    async def bug(*_: object) -> None:
        await asyncio.sleep(0.01)
        raise ZeroDivisionError("secret")

    async def test() -> None:
        assert await one_office(hello, finished("a")) == [2]

    monkeypatch.setattr(*work, bug)
    run(test)
    structlog.reset_defaults()
    said = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert [(line["event"], line["task"], line["error"]) for line in said] == [("task_died", part, "ZeroDivisionError")]
    assert recorded(path) == 1


def test_a_look_at_the_engines_that_fails_is_counted_and_costs_no_other(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    looks = []

    async def look(*_: object) -> None:
        looks.append(1)
        if len(looks) == 3:
            raise asyncio.CancelledError
        raise ZeroDivisionError("secret")

    async def test() -> None:
        await one_office(Hello(pid=1, version="0", live=False, admin_port=0, scrape_s=0.01, log_json=True))

    monkeypatch.setattr(Scraper, "look", look)
    run(test)
    structlog.reset_defaults()
    (said,) = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert (said["event"], said["exporter"], said["error"]) == ("exporter_failed", "scrape", "ZeroDivisionError")
    assert len(looks) == 3


def test_the_next_office_counts_on() -> None:
    async def office(memory: Memory) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            ours, theirs = socket.socketpair()
            port = int(taken.getsockname()[1])
            sender = Sender(Hello(pid=1, version="0", live=False, admin_port=port, scrape_s=0))
            sender.attach(ours)
            serving = asyncio.create_task(main.serve(theirs, memory, SystemClock()))
            sender.send(finished())
            await sender.drain()
            sender.finish()
            await serving
            sender.detach()

    async def test() -> None:
        with tempfile.TemporaryFile() as file:
            for _ in range(2):
                await office(Memory(file.fileno()))
            series = Series()
            load(series, Memory(file.fileno()).load() or b"")
        assert sum(series.counters["requests"].sets.values()) == 2

    run(test)
    structlog.reset_defaults()


def test_an_office_that_nobody_greets_ends() -> None:
    ours, theirs = socket.socketpair()
    kept = {name: signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    ours.close()
    try:
        main.main(theirs.detach(), 0)
        assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN
    finally:
        for name, handler in kept.items():
            signal.signal(name, handler)


@pytest.mark.parametrize("half", [True, False], ids=["in the middle of a frame", "at once"])
def test_what_the_other_side_never_took_is_counted(half: bool) -> None:
    async def test() -> None:
        ours, theirs = socket.socketpair()
        sender = Sender(Hello(pid=1, version="0"))
        sender.attach(ours)
        if half:
            await asyncio.sleep(0)
            theirs.recv(10)
        theirs.close()
        for number in range(5):
            sender.send(finished(f"r{number}"))
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        sender.detach()
        assert sender.lost + sender.waiting == 5

    run(test)


def test_all_that_a_data_process_wrote_before_it_died_is_taken() -> None:
    async def test() -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            batches = Receiver(theirs).batches()
            ours.sendall(encode(finished("a")))
            taken = list(await anext(batches))
            again = asyncio.create_task(anext(batches))
            await asyncio.sleep(0.01)  # the first batch is acknowledged; nobody reads that
            ours.sendall(encode(finished("b")))
            ours.close()
            taken += await again
            async for batch in batches:
                taken += batch
        assert taken == [finished("a"), finished("b")]

    run(test)


def test_a_link_that_ends_before_the_first_write_loses_nothing() -> None:
    async def test() -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            sender = Sender(Hello(pid=1, version="0"))
            sender.attach(ours)
            sender.send(finished("a"))
            sender.detach()
            await asyncio.sleep(0)
            assert (sender.lost, sender.waiting) == (0, 1)

    run(test)
