"""Whoever asks the wrong address learns what is there."""

from collections.abc import Callable

import pytest

from proxy.cli.strangers import modelless, silence
from tests.support.clock import VirtualLoop, run
from tests.support.house import URL, House
from tests.support.script import NOT_FOUND, OK, Call, Read, Script
from tests.support.streams import plain


def admin(call: Call) -> Script:
    """The root of an admin listener, as `office.app` has it."""
    return Script(reads=(Read(0, b"phasegate\n\n/metrics\n"),)) if call.target == "/" else NOT_FOUND


@pytest.mark.parametrize(
    ("looks", "says"),
    [
        (lambda call: NOT_FOUND, f"what answers at {URL} lists no model; if it is an engine, name one with --model"),
        (lambda call: plain(401, {}), f"the engine at {URL} wants a key (status 401); give it as --api-key"),
        (admin, f"{URL} is the admin listener of a phasegate; give the address of the engine"),
        (
            lambda call: Script(ending="refuse"),
            f"what answers at {URL} lists no model; if it is an engine, name one with --model",
        ),
    ],
    ids=["no model", "a key", "admin", "gone"],
)
def test_what_lists_no_model_is_named(looks: Callable[[Call], Script], says: str) -> None:
    async def main(loop: VirtualLoop) -> str:
        return await modelless(House(loop, OK, looks=looks).app.fleet.engines[0])

    assert run(main) == says


@pytest.mark.parametrize(
    ("look", "says"),
    [(Script(ending="refuse"), "cannot reach the engine at engine.test:8000: "), (plain(502, {}), "status 502; ")],
    ids=["nobody", "a gateway"],
)
def test_why_nobody_answers_is_said(look: Script, says: str) -> None:
    async def main(loop: VirtualLoop) -> str:
        return await silence(House(loop, OK, looks=lambda call: look).app.fleet.engines[0])

    said = run(main)
    assert said.startswith(f"no engine answers at {URL}: {says}")
    assert said.endswith("; give the address at which it listens, as http://HOST:PORT")
