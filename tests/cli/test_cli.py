import asyncio
import os
import re
import runpy
import signal
import subprocess
import sys

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


@click.command()
def endless():
    signal.raise_signal(signal.SIGINT)


@click.command()
def endless_on_a_loop():
    async def wait():
        asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)
        await asyncio.Event().wait()

    asyncio.run(wait())


@pytest.mark.parametrize("verb", ["endless", "endless_on_a_loop"])
def test_an_interrupt_ends_any_verb_in_one_line_with_the_code_that_shells_have(monkeypatch, verb):
    monkeypatch.setitem(VERBS, verb, (f"{__name__}:{verb}", ""))
    result = CliRunner().invoke(main, [verb])
    assert (result.exit_code, result.output) == (128 + signal.SIGINT, "phasegate: interrupted\n")


def test_a_verb_is_imported_on_use_only():
    code = "import sys, proxy.cli; sys.exit(any(name.startswith('proxy.cli.') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_package_is_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr("sys.argv", ["phasegate", "--version"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("proxy", run_name="__main__")
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("phasegate, version ")


def test_a_name_that_the_terminal_cannot_show_ends_no_command(tmp_path):
    file = tmp_path / "r.jsonl"
    file.write_text('{"id": "a", "at": 1, "outcome": "completed", "total_s": 1, "model": "\\u65e5"}\n')
    done = subprocess.run(
        [sys.executable, "-m", "proxy", "report", str(file)],
        env={**os.environ, "PYTHONIOENCODING": "latin-1:strict"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "\\u65e5" in done.stdout) == (0, True), done.stderr


@pytest.mark.parametrize("words", [("--help",), ("config", "print"), ("report", "FILE"), ("report", "FILE", "--rows")])
def test_a_full_disk_behind_the_output_is_said_in_one_line(tmp_path, words):
    file = tmp_path / "r.jsonl"
    file.write_text('{"id": "a", "at": 1, "outcome": "completed", "total_s": 1}\n')
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "proxy", *(str(file) if word == "FILE" else word for word in words)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (2, "phasegate: cannot go on: No space left on device\n")
