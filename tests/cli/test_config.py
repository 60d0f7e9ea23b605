from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from proxy.cli import main


def run(*arguments: str, **environ: str) -> Result:
    return CliRunner().invoke(main, ["config", *arguments], env=environ)


def test_check_says_ok_for_settings_that_can_stand():
    result = run("check")
    assert (result.exit_code, result.output) == (0, "ok\n")


def test_check_names_the_wrong_key_and_exits_2(tmp_path: Path):
    file = tmp_path / "phasegate.toml"
    file.write_text("[timeouts]\nidel_s = 3\n")
    result = run("check", str(file))
    assert result.exit_code == 2
    assert "timeouts.idel_s: unknown setting; did you mean timeouts.idle_s?" in result.stderr


@pytest.mark.parametrize("origin", [True, False])
def test_print_shows_every_setting_its_origin_if_asked_and_no_secret(origin: bool):
    result = run("print", *(["--origin"] if origin else []), PHASEGATE_ADMIN_TOKEN="sk-secret")
    assert result.exit_code == 0
    assert "sk-secret" not in result.output
    assert ('admin_token = "********"  # environment PHASEGATE_ADMIN_TOKEN' in result.output) is origin
    assert "timeouts.idle_s = 300.0" in result.output


def test_check_warns_of_an_admin_listener_that_refuses_everybody():
    result = run("check", PHASEGATE_ADMIN="0.0.0.0:1")
    assert (result.exit_code, result.stdout) == (0, "ok\n")
    assert "warning: admin listens on 0.0.0.0:1 without admin_token" in result.stderr


def test_check_refuses_a_limit_that_limits_nothing(tmp_path: Path):
    file = tmp_path / "phasegate.toml"
    file.write_text('[[limit]]\nname = "idle"\n')
    result = run("check", str(file))
    assert result.exit_code == 2
    assert "limit 'idle': limits nothing" in result.stderr
