"""A connection's own rules; its behaviour on real connections is in tests/socket/test_wire.py."""

import asyncio

import pytest

from proxy.line import Line


def test_a_line_that_is_gone_takes_no_bytes() -> None:
    async def main() -> None:
        line = Line(asyncio.get_running_loop())
        assert not line.usable()
        with pytest.raises(ConnectionResetError):
            line.write((b"x",))

    asyncio.run(main())


def test_an_error_reaches_whoever_waits_for_the_head() -> None:
    async def main() -> None:
        line = Line(asyncio.get_running_loop())
        reading = asyncio.ensure_future(line.read())
        await asyncio.sleep(0)
        line.set_exception(KeyError("why"))
        with pytest.raises(KeyError):
            await reading

    asyncio.run(main())
