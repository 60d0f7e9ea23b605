"""Compressed copies are inflated at any split, and no further than agreed."""

import gzip
import zlib

import pytest

from proxy.inflating import Bomb, inflater

TEXT = b"answer " * 1_000


def raw_deflate(data: bytes) -> bytes:
    deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return deflate.compress(data) + deflate.flush()


COMPRESSED = {
    "gzip": gzip.compress(TEXT),
    "x-gzip": gzip.compress(TEXT[:5]) + gzip.compress(b"") + gzip.compress(TEXT[5:]),
    "deflate": zlib.compress(TEXT),
}


def inflated(encoding: str, data: bytes, size: int, limit: int = 100_000) -> bytes:
    inflate, why = inflater(encoding, limit)
    assert inflate is not None
    assert why is None
    return b"".join(piece for at in range(0, len(data), size) for piece in inflate.feed(data[at : at + size]))


@pytest.mark.parametrize("size", [1, 7, 100_000])
@pytest.mark.parametrize("encoding", COMPRESSED)
def test_a_body_is_inflated_at_any_split(encoding: str, size: int) -> None:
    assert inflated(encoding, COMPRESSED[encoding], size) == TEXT


def test_raw_deflate_is_known_by_its_first_byte() -> None:
    assert inflated("deflate", raw_deflate(TEXT), 50) == TEXT


def test_no_more_is_inflated_than_was_agreed() -> None:
    with pytest.raises(Bomb):
        inflated("gzip", gzip.compress(bytes(200_000)), 1_000)


def test_a_piece_is_never_large() -> None:
    inflate, _ = inflater("gzip", 10_000_000)
    assert inflate is not None
    assert max(map(len, inflate.feed(gzip.compress(bytes(1_000_000))))) <= 64 * 1024


def test_what_is_no_such_body_is_told() -> None:
    with pytest.raises(zlib.error):
        inflated("gzip", TEXT, 100)


@pytest.mark.parametrize(
    ("encoding", "why"), [("", None), ("identity", None), ("br", "content encoding br is not read")]
)
def test_what_is_plain_or_unknown_is_not_inflated(encoding: str, why: str | None) -> None:
    assert inflater(encoding, 1) == (None, why)
