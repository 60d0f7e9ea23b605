import re
import runpy
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


def test_a_verb_is_imported_on_use_only():
    code = "import sys, proxy.cli; sys.exit(any(name.startswith('proxy.cli.') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_package_is_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr("sys.argv", ["phasegate", "--version"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("proxy", run_name="__main__")
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("phasegate, version ")
