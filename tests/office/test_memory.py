import os
import tempfile
from collections.abc import Iterator

import pytest

from proxy.office.memory import SLOT_BYTES, Memory


@pytest.fixture
def fd() -> Iterator[int]:
    with tempfile.TemporaryFile() as file:
        yield file.fileno()


def test_the_next_one_knows_what_was_saved_last(fd: int) -> None:
    assert Memory(fd).load() is None
    for number in range(5):
        memory = Memory(fd)
        memory.load()
        memory.save(b"%d" % number)
        memory.save(b"%d!" % number)
        assert Memory(fd).load() == b"%d!" % number


@pytest.mark.parametrize("torn", [b"", b"\x00" * 16, b"\xff" * 40])
def test_a_write_cut_short_leaves_the_one_before(torn: bytes, fd: int) -> None:
    memory = Memory(fd)
    memory.save(b"first")
    memory.save(b"second")
    os.pwrite(fd, torn, 0)  # the second write is in the slot of even numbers
    assert Memory(fd).load() == (b"first" if torn else b"second")


def test_what_has_no_room_is_not_saved(fd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory(fd)
    memory.save(b"small")
    memory.save(b"x" * SLOT_BYTES)

    def full(fd: int, data: bytes, offset: int) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        memory.save(b"lost")
    assert Memory(fd).load() == b"small"
