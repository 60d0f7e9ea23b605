import pytest

from proxy.events import Frame
from proxy.wire.blocks import LINES, Blocks, lines, parse_block
from proxy.wire.framing import Sse


@pytest.mark.parametrize("size", [1, 3, 100])
def test_blocks_joined_are_the_bytes_as_they_came(size: int) -> None:
    body = b"data: a\n\n\r\n\r\n: x\rdata: b\r\r\n\nend"
    blocks = Blocks()
    pieces = [piece for at in range(0, len(body), size) for piece in blocks.feed(body[at : at + size])]
    assert len(blocks) in (3, 4), "the line end of a blank line may stand before what is open"
    assert b"".join((*pieces, blocks.close())) == body
    assert len(pieces) >= 3


def test_a_block_without_data_is_no_frame() -> None:
    assert parse_block(b"event: x\nid: 1\n\n") is None
    assert parse_block(b"event: x\ndata: 1\n\n") == Frame(b"1", b"x")


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_an_event_of_very_many_lines_is_over_the_limit_whatever_its_size(end: bytes) -> None:
    usual, much = ((b"data: 1" + end) * count + end for count in (LINES // 4, LINES))
    assert lines(usual) <= LINES < lines(much)
    assert parse_block(usual) == Frame(b"\n".join([b"1"] * (LINES // 4)))
    assert parse_block(much) is None
    framing = Sse(1 << 20)
    assert framing.feed(usual + b"data: 2\n\n" + much + b"data: 3\n\n")[1:] == [Frame(b"2")]
    assert framing.overflowed
