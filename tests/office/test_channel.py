import asyncio
import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.messages import EngineState, Hello, Message, PromptSeen, Pulse
from proxy.office.channel import ACK, AHEAD, LATE_S, OutOfStep, Sender, Splitter, encode
from proxy.records import (
    AdmissionVerdict,
    EngineReport,
    PrefixVerdict,
    Prompt,
    TokenCount,
    Usage,
)
from tests.support.records import finished

HELLO = Hello(pid=1, version="0")
MESSAGES: list[Message] = [
    HELLO,
    Pulse(at_s=1.0, engines=(EngineState(name="a", models=("m",)),), lag_ns=(1, 2)),
    finished(
        usage=Usage(1, 2, 3, 4),
        report=EngineReport(source="x", decode_ns=5),
        counted=TokenCount(1, "exact", 1, 1, 1),
        admission=AdmissionVerdict("shed", "queue_full", "r", "enforce", 1, 2),
        prefix=PrefixVerdict(16, 32, 16, None, 16, (("hit", 16),), "f"),
        error="é\u2028",
        options=(("num_ctx", "1"),),
    ),
]
STREAM = b"".join(map(encode, MESSAGES))


def test_messages_come_back_as_they_were() -> None:
    assert Splitter().feed(STREAM) == MESSAGES


@given(st.lists(st.integers(0, len(STREAM)), max_size=9))
def test_messages_come_back_however_they_are_cut(cuts: list[int]) -> None:
    splitter, back, at = Splitter(), [], 0
    for cut in [*sorted(cuts), len(STREAM)]:
        back += splitter.feed(STREAM[at:cut])
        at = cut
    assert back == MESSAGES


def test_a_greeting_is_for_this_office_and_for_those_that_follow() -> None:
    async def main() -> list[Message | None]:
        sender, heard = Sender(HELLO), []
        for hello in (Hello(pid=1, version="1"), Hello(pid=1, version="2")):
            ours, theirs = socket.socketpair()
            with theirs:
                sender.attach(ours)
                sender.greet(hello)
                await asyncio.sleep(0)
                heard += Splitter().feed(theirs.recv(4096))
                theirs.send(ACK.pack(1))
                await sender.greeting()
                heard += Splitter().feed(theirs.recv(4096))
                sender.detach()
        return heard

    heard = asyncio.run(main())
    assert [message.version for message in heard if isinstance(message, Hello)] == ["0", "1", "1", "2"]


def test_a_frame_that_cannot_be_read_costs_itself() -> None:
    splitter = Splitter()
    strange = struct.pack("!IB", 4, ord("?")) + b"abc"
    garbled = struct.pack("!IB", 4, ord("P")) + b"abc"
    assert splitter.feed(strange + garbled + encode(HELLO)) == [None, None, HELLO]
    assert splitter.unreadable == 2


@pytest.mark.parametrize("length", [0, 2**32 - 1])
def test_bytes_that_are_no_frames_end_the_connection(length: int) -> None:
    with pytest.raises(OutOfStep):
        Splitter().feed(struct.pack("!IB", length, 0))


def test_without_room_the_oldest_goes_and_is_counted() -> None:
    size = len(encode(finished("r0")))
    sender = Sender(HELLO, limit_bytes=size * 3)
    for number in range(9):
        sender.send(finished(f"r{number}"))
    assert sender.lost == 6
    assert repr(sender) == "<Sender detached, 3 waiting, 0 unacknowledged, 6 lost>"


def test_a_text_that_no_frame_can_hold_is_lost_and_counted() -> None:
    sender = Sender(HELLO)
    sender.send(finished(model="\ud800"))
    assert sender.lost == 1


def test_a_number_that_no_frame_can_hold_is_lost_and_counted() -> None:
    sender = Sender(HELLO)
    sender.send(finished(usage=Usage(prompt_tokens=2**70)))
    assert (sender.lost, sender.waiting) == (1, 0)


def sampled(prompt: Prompt) -> PromptSeen:
    return PromptSeen(id="r", at_s=0.0, engine="e", model="m", prompt=prompt, answer="")


def test_a_sampled_prompt_pushes_no_record_out() -> None:
    size = len(encode(finished()))
    sender = Sender(HELLO, limit_bytes=size * 20)
    for prompt in (Prompt(ids=((2**70,),)), Prompt(texts=("x" * size * 6,))):  # no frame, and one too large
        sender.send(sampled(prompt))
    assert sender.waiting == 0
    for _ in range(20):
        sender.send(sampled(Prompt(texts=("x" * size,))))
    prompts = sender.waiting
    assert 1 < prompts <= 5
    for _ in range(15):
        sender.send(finished())
        sender.send(sampled(Prompt(texts=("x" * size,))))
    assert (sender.waiting, sender.lost) == (prompts + 15, 0)


@pytest.mark.parametrize(
    "other", [Pulse(at_s=1.0), HELLO, sampled(Prompt(texts=("x",)))], ids=["pulse", "hello", "prompt"]
)
def test_what_is_no_record_is_no_lost_record(other: Message) -> None:
    async def main() -> None:
        sender = Sender(HELLO, limit_bytes=len(encode(finished())) * 4)
        for _ in range(40):
            sender.send(other)
        assert sender.lost == 0
        for _ in range(3):
            sender.send(finished())
        assert sender.lost == 0
        while sender.waiting:
            await given_to_one_that_dies(sender)
        assert sender.lost == 3

    asyncio.run(main())


async def given_to_one_that_dies(sender: Sender) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        await greeted(sender, ours, theirs)
        sender.detach()


async def greeted(sender: Sender, ours: socket.socket, theirs: socket.socket) -> None:
    """An office that has taken its greeting, and has been sent what waited for it."""
    sender.attach(ours)
    await asyncio.sleep(0)
    assert heard_now(theirs) == ["hello"]
    theirs.send(ACK.pack(1))
    await sender.greeting()


def test_a_message_that_never_fits_is_lost_alone() -> None:
    sender = Sender(HELLO, limit_bytes=len(encode(finished())) * 3)
    sender.send(finished("r1"))
    sender.send(finished("r2", error="x" * 10_000))
    assert (sender.lost, sender.waiting) == (1, 1)


def test_detached_it_can_be_told_the_same_things() -> None:
    sender = Sender(HELLO)
    sender.finish()
    sender.detach()
    assert sender.lost == 0


def heard_now(end: socket.socket) -> list[str]:
    """What has been written so far."""
    end.setblocking(False)
    try:
        return names(Splitter().feed(end.recv(65536)))
    except BlockingIOError:
        return []


def names(messages: list[Message | None]) -> list[str]:
    return [getattr(message, "id", "hello") for message in messages]


def test_frames_wait_a_moment_for_company_and_go_at_once_when_all_must_be_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proxy.office.channel.LATE_S", 0.2)  # a busy machine may take 10 ms for three turns of a loop

    async def main() -> None:
        sender = Sender(HELLO)
        ours, theirs = socket.socketpair()
        with theirs:
            await greeted(sender, ours, theirs)
            for number in range(3):
                sender.send(finished(f"r{number}"))
                await asyncio.sleep(0)
            assert heard_now(theirs) == []
            together = await asyncio.get_running_loop().sock_recv(theirs, 65536)
            assert names(Splitter().feed(together)) == ["r0", "r1", "r2"]
            sender.send(finished("r3"))
            draining = asyncio.ensure_future(sender.drain())
            await asyncio.sleep(0)
            assert heard_now(theirs) == ["r3"]
            theirs.send(ACK.pack(4))
            await draining
            sender.detach()
            assert sender.lost == 0

    asyncio.run(main())


def test_what_waits_for_company_when_an_office_dies_is_for_the_next_one() -> None:
    async def main() -> None:
        sender = Sender(HELLO)
        for expected in ([], ["r0"]):
            ours, theirs = socket.socketpair()
            with theirs:
                await greeted(sender, ours, theirs)
                assert heard_now(theirs) == expected
                sender.send(finished("r0"))
                sender.detach()

        assert (sender.lost, sender.waiting) == (1, 1)  # the one that the second office was given and did not take

    asyncio.run(main())


def test_an_office_that_dies_while_it_starts_takes_nothing_along() -> None:
    async def main() -> None:
        sender = Sender(HELLO)
        sender.send(finished("r0"))
        for _ in range(3):
            ours, theirs = socket.socketpair()
            with theirs:
                sender.attach(ours)
                await asyncio.sleep(LATE_S * 2)
                assert heard_now(theirs) == ["hello"]
                sender.detach()
        assert (sender.lost, sender.waiting) == (0, 1)

    asyncio.run(main())


def test_an_office_that_dies_takes_little_along() -> None:
    async def main() -> None:
        sender = Sender(HELLO)
        ours, theirs = socket.socketpair()
        with theirs:
            await greeted(sender, ours, theirs)
            for number in range(AHEAD * 3):
                sender.send(finished(f"r{number}"))
            await asyncio.sleep(LATE_S * 2)
            assert len(heard_now(theirs)) == AHEAD
            theirs.send(ACK.pack(AHEAD))
            await asyncio.sleep(LATE_S)
            assert len(heard_now(theirs)) == AHEAD
        await asyncio.sleep(LATE_S)
        sender.send(finished("last"))
        await asyncio.sleep(LATE_S * 2)
        sender.detach()
        assert (sender.lost, sender.waiting) == (AHEAD, AHEAD + 1)

    asyncio.run(main())


def test_what_the_socket_does_not_take_at_once_comes_whole_and_in_order() -> None:
    names_sent = [f"r{number}" for number in range(20)]

    async def main() -> None:
        sender, splitter, heard = Sender(HELLO), Splitter(), []
        ours, theirs = socket.socketpair()
        with theirs:
            await greeted(sender, ours, theirs)
            for name in names_sent:
                sender.send(finished(name, error="x" * 100_000))
            draining = asyncio.ensure_future(sender.drain())
            while len(heard) < len(names_sent):
                messages = splitter.feed(await asyncio.get_running_loop().sock_recv(theirs, 65536))
                heard += names(messages)
                theirs.send(ACK.pack(len(messages)))
            await draining
            sender.detach()
        assert (heard, sender.lost) == (names_sent, 0)

    asyncio.run(main())
