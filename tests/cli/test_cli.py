import asyncio
import re
import runpy
import signal

import click
import pytest
from click.testing import CliRunner

from proxy.cli import VERBS, main


def test_help_lists_every_verb():
    output = CliRunner().invoke(main, ["--help"]).output
    for verb, (_, purpose) in VERBS.items():
        first = " ".join(purpose.split()[:3])  # the rest may be wrapped
        assert re.search(rf"^  {verb} +{re.escape(first)}", output, re.MULTILINE)


def test_verbs_are_completed_without_an_import():
    assert isinstance(main, click.Group)
    assert main.list_commands(click.Context(main)) == list(VERBS)


def test_an_unknown_verb_is_a_usage_error():
    result = CliRunner().invoke(main, ["nonsense"])
    assert result.exit_code == 2
    assert "nonsense" in result.output


@pytest.fixture
def heeded():
    """An interrupt is one, even where a shell has started all this in the background and lets it ignore them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@click.command()
def endless():
    signal.raise_signal(signal.SIGINT)


@click.command()
def endless_on_a_loop():
    async def wait():
        asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)
        await asyncio.Event().wait()

    asyncio.run(wait())


@pytest.mark.usefixtures("heeded")
@pytest.mark.parametrize("verb", ["endless", "endless_on_a_loop"])
def test_an_interrupt_ends_any_verb_in_one_line_with_the_code_that_shells_have(monkeypatch, verb):
    monkeypatch.setitem(VERBS, verb, (f"{__name__}:{verb}", ""))
    result = CliRunner().invoke(main, [verb])
    assert (result.exit_code, result.output) == (128 + signal.SIGINT, "phasegate: interrupted\n")


def test_the_package_is_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr("sys.argv", ["phasegate", "--version"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("proxy", run_name="__main__")
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("phasegate, version ")
