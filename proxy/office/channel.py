"""The way from the data process to the office: length-prefixed frames over one end each of a socketpair.

A stream socket, not SOCK_SEQPACKET: many frames go in one write, a record may be larger than a datagram's limit, and
macOS has no sequenced packets. A frame is its length (4 bytes, big endian, what follows), one byte that names the
message, and the message as msgpack. The office answers with the number of frames that it took (4 bytes) after each
read: what was written to an office that died, and not acknowledged, is lost, and the records in it are counted. So
little is written ahead, and to an office that starts nothing behind its greeting.
"""

import asyncio
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator
from typing import NamedTuple

import msgspec

from proxy.messages import Hello, Message, PromptSeen, Pulse
from proxy.records import Finished

LIMIT_BYTES = 8 * 1024 * 1024
"""Frames waiting for the office, at most: some 5,000 records, a minute of heavy traffic while it restarts. Sampled
prompts have a quarter of it, and push nothing out."""
WRITE_BYTES = 128 * 1024
"""Bytes handed to one write: about what a socketpair takes at once."""
AHEAD = 64
"""Frames written and not yet acknowledged, at most: what an office that dies takes along; the rest waits for the next
one."""
READ_BYTES = 256 * 1024
LATE_S = 0.01
"""How long a frame may wait for others to go with it: a busy proxy does not write, and wake the office, for each."""
FRAME_BYTES = 64 * 1024 * 1024
"""A longer frame cannot be: the stream is out of step."""

HEAD = struct.Struct("!IB")
ACK = struct.Struct("!I")

CODES: dict[type, int] = {Hello: ord("H"), Finished: ord("F"), Pulse: ord("P"), PromptSeen: ord("S")}
"""Every message and the byte that names it."""
DECODERS: dict[int, msgspec.msgpack.Decoder[Message]] = {
    code: msgspec.msgpack.Decoder(kind) for kind, code in CODES.items()
}

UNWRITABLE = (ValueError, TypeError, OverflowError)
"""What msgpack has no place for: a lone surrogate out of somebody's JSON, a number of more than 64 bits."""

_encode = msgspec.msgpack.Encoder().encode


def encode(message: Message) -> bytes:
    """One message as one frame."""
    body = _encode(message)
    return HEAD.pack(len(body) + 1, CODES[type(message)]) + body


class OutOfStep(ValueError):
    """The bytes are no frames; the connection is of no more use."""


class Splitter:
    """Frames back to messages, whatever the reads look like.

    State: the bytes of a frame that is not complete, and the number of frames that could not be read.
    """

    __slots__ = ("_open", "unreadable")

    def __init__(self) -> None:
        self._open = b""
        self.unreadable = 0

    def feed(self, data: bytes) -> list[Message | None]:
        """The messages that are complete now; None for a frame that cannot be read, which is counted.

        Raises OutOfStep for a length that cannot be.
        """
        data, at = self._open + data, 0
        messages: list[Message | None] = []
        while len(data) - at >= HEAD.size:
            length, code = HEAD.unpack_from(data, at)
            if not 0 < length <= FRAME_BYTES:
                raise OutOfStep(f"a frame of {length} bytes")
            end = at + HEAD.size - 1 + length
            if end > len(data):
                break
            messages.append(self._read(code, data[at + HEAD.size : end]))
            at = end
        self._open = data[at:]
        return messages

    def _read(self, code: int, body: bytes) -> Message | None:
        try:
            return DECODERS[code].decode(body)
        except (KeyError, msgspec.DecodeError):
            self.unreadable += 1
            return None


class _Link(NamedTuple):
    """One connection with one office."""

    end: socket.socket
    loop: asyncio.AbstractEventLoop


class Sender:
    """The data side. `send` never blocks and never raises; what finds no room pushes out the oldest; what could never
    fit, and a sampled prompt without room, is lost alone. Records are counted, whichever way they are lost.

    State: frames that wait and their size, the rest of a batch that is half written, of each frame written and not yet
    acknowledged whether it is a record, how many of these there may be, the link (None while there is no office), and
    whether a write is due.
    """

    def __init__(self, hello: Hello, limit_bytes: int = LIMIT_BYTES) -> None:
        self._hello = hello
        self._limit = limit_bytes
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._partial = b""
        self._unacked: list[bool] = []
        self._acks = b""
        self._ahead = 0
        self._link: _Link | None = None
        self._due = False
        self._moved = asyncio.Event()
        self.lost = 0
        """Records that could not be encoded, were dropped for want of room, or are gone with an office that died."""

    def __repr__(self) -> str:
        state = "attached" if self._link else "detached"
        return f"<Sender {state}, {len(self._waiting)} waiting, {len(self._unacked)} unacknowledged, {self.lost} lost>"

    @property
    def waiting(self) -> int:
        """Frames not yet handed to an office."""
        return len(self._waiting)

    def greet(self, hello: Hello) -> None:
        """What the office must know from now on: this one, and those that follow it."""
        self._hello = hello
        self.send(hello)

    def send(self, message: Message) -> None:
        """Hands one message over: a few microseconds, whatever the office does."""
        try:
            frame = encode(message)
        except UNWRITABLE:
            frame = b""
        room = self._limit // 4 - self._bytes if isinstance(message, PromptSeen) else self._limit
        if not 0 < len(frame) <= room:
            self.lost += isinstance(message, Finished)
            return
        self._waiting.append(frame)
        self._bytes += len(frame)
        while self._bytes > self._limit:
            oldest = self._waiting.popleft()
            self._bytes -= len(oldest)
            self.lost += _is_record(oldest)
        self._schedule()

    def attach(self, end: socket.socket) -> None:
        """Writes from now on to this end of a socketpair, `Hello` first. Runs in the loop."""
        end.setblocking(False)
        self._link = link = _Link(end, asyncio.get_running_loop())
        self._partial = encode(self._hello)
        self._unacked, self._acks, self._ahead = [False], b"", 1
        link.loop.add_reader(end, self._acknowledged, link)
        self._due = True
        link.loop.call_soon(self._flush, link)

    def detach(self) -> None:
        """The office is gone: what it did not acknowledge is lost. What waits is kept for the next one."""
        if self._link is None:
            return
        self._link.loop.remove_reader(self._link.end)
        self._link.loop.remove_writer(self._link.end)
        self._link.end.close()
        self._link = None
        self.lost += sum(self._unacked)
        self._partial, self._unacked, self._due = b"", [], False
        self._moved.set()

    def finish(self) -> None:
        """Nothing more will come: the office settles what it has, and ends."""
        if self._link is not None:
            self._link.end.shutdown(socket.SHUT_WR)

    @property
    def greeted(self) -> bool:
        """The office has taken its first frames: it is set up, and heeds signals."""
        return self._link is not None and self._ahead > 1

    async def greeting(self) -> None:
        """Waits until the office is `greeted`, or gone."""
        while self._link is not None and not self.greeted:
            self._moved.clear()
            await self._moved.wait()

    async def drain(self) -> None:
        """Waits until every frame was taken by the office. For shutdown; bound it with a timeout."""
        if self._link is not None:
            self._flush(self._link)
        while self._link is not None and (self._waiting or self._partial or self._unacked):
            self._moved.clear()
            await self._moved.wait()

    def _schedule(self) -> None:
        if self._link is not None and not self._due:
            self._due = True
            self._link.loop.call_later(LATE_S, self._flush, self._link)

    def _flush(self, link: _Link) -> None:
        """Writes what there is, as much as the socket takes; comes again when it takes more."""
        if link is not self._link:  # detached in the meantime
            return
        try:
            while batch := self._batch():
                written = link.end.send(batch)
                self._partial = batch[written:]
        except BlockingIOError:
            self._partial = batch
            link.loop.add_writer(link.end, self._flush, link)
            return
        except OSError:  # the office is dying: its keeper sees the end of the process and detaches
            link.loop.remove_writer(link.end)
            return
        self._due = False
        link.loop.remove_writer(link.end)

    def _batch(self) -> bytes:
        """The next bytes to write: the rest of the last batch, or frames joined up to one write's worth, or what may be
        written ahead."""
        if self._partial:
            return self._partial
        frames: list[bytes] = []
        size, room = 0, self._ahead - len(self._unacked)
        while self._waiting and size < WRITE_BYTES and len(frames) < room:
            frames.append(self._waiting.popleft())
            size += len(frames[-1])
        self._bytes -= size
        self._unacked.extend(map(_is_record, frames))
        return b"".join(frames)

    def _acknowledged(self, link: _Link) -> None:
        """The office took frames, or is gone."""
        try:
            data = link.end.recv(4096)
        except ConnectionError:
            data = b""
        if not data:  # gone; its keeper detaches
            link.loop.remove_reader(link.end)
        self._ahead = AHEAD if data else 0
        self._acks += data
        whole = len(self._acks) - len(self._acks) % ACK.size
        del self._unacked[: sum(count for (count,) in ACK.iter_unpack(self._acks[:whole]))]
        self._acks = self._acks[whole:]
        self._moved.set()
        if self._waiting and not self._due:
            self._flush(link)


def _is_record(frame: bytes) -> bool:
    return frame[HEAD.size - 1] == CODES[Finished]


class Receiver:
    """The office's side. A batch is acknowledged when the next one is asked for: whoever asks has dealt with it."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._end = end
        self._splitter = Splitter()

    async def batches(self) -> AsyncIterator[list[Message]]:
        """The messages of each read, until the data process closes. Raises OutOfStep."""
        loop = asyncio.get_running_loop()
        while data := await _read(loop, self._end):
            messages = self._splitter.feed(data)
            if messages:
                yield [message for message in messages if message is not None]
                await _answer(loop, self._end, ACK.pack(len(messages)))


async def _read(loop: asyncio.AbstractEventLoop, end: socket.socket) -> bytes:
    try:
        return await loop.sock_recv(end, READ_BYTES)
    except ConnectionError:
        return b""


async def _answer(loop: asyncio.AbstractEventLoop, end: socket.socket, ack: bytes) -> None:
    try:
        await loop.sock_sendall(end, ack)
    except ConnectionError:
        return  # the data process is gone; the next read says so
