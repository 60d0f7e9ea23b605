"""Every await of an app is struck once, with a cancellation or with something worse."""

import asyncio

import pytest

from tests.support.cancel import Blow, Strike, at_every_await
from tests.support.client import Receive, Scope, ScriptedClient, Send, simple_request
from tests.support.clock import VirtualLoop, run


@pytest.mark.parametrize("error", [None, Blow], ids=["cancelled", "blow"])
def test_each_await_is_struck_once_and_the_last_run_is_whole(error: type[BaseException] | None) -> None:
    ends: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        step = "start"
        try:
            await asyncio.sleep(1)
            step = "slept"
            await asyncio.sleep(2)
            step = "whole"
        finally:
            ends.append(step)

    def play(strike: Strike) -> type[BaseException] | None:
        async def main(loop: VirtualLoop) -> None:
            await ScriptedClient(loop, strike.over(app)).ask(simple_request())

        run(main)
        return None if strike.raised is None else type(strike.raised)

    blow = error or asyncio.CancelledError
    assert list(at_every_await(play, error)) == [(1, blow), (2, blow), (3, None)]
    assert ends == ["start", "slept", "whole"]


def test_an_app_may_outlive_its_cancellation() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            await asyncio.sleep(1)

    def play(strike: Strike) -> BaseException | None:
        async def main(loop: VirtualLoop) -> None:
            await ScriptedClient(loop, strike.over(app)).ask(simple_request())

        run(main)
        return strike.raised

    assert [raised for _, raised in at_every_await(play)] == [None, None]
