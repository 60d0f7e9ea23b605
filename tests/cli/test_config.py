from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from proxy.cli import main
from proxy.loading import load
from tests.support.hostile import is_plain


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


def test_what_is_printed_is_a_file_of_the_same_settings(tmp_path: Path):
    first, second = tmp_path / "first.toml", tmp_path / "second.toml"
    first.write_text(
        '[[upstream]]\nurl = "http://gpu1:8000"\nname = "a \\"b\\" \u00e9 \U0001f600"\nmodels = ["m"]\n'
        '[[limit]]\nname = "l"\nmodels = ["m"]\nmax_prompt_tokens = 9\n[tokens.models]\n"x \U00020000" = "o200k_base"\n'
    )
    second.write_text(run("print", "--origin", "--config", str(first)).stdout)
    assert load(first, {}, {}).settings == load(second, {}, {}).settings
    assert len(load(second, {}, {}).settings.upstream) == 1


def test_check_warns_of_an_admin_listener_that_refuses_everybody():
    result = run("check", PHASEGATE_ADMIN="0.0.0.0:1")
    assert (result.exit_code, result.stdout) == (0, "ok\n")
    assert "warning: admin listens on 0.0.0.0:1 without admin_token" in result.stderr


def test_check_refuses_a_limit_that_limits_nothing(tmp_path: Path):
    file = tmp_path / "phasegate.toml"
    file.write_text('[[limit]]\nname = "idle"\n')
    result = run("check", str(file))
    assert result.exit_code == 2
    assert "limit: limits nothing" in result.stderr
    assert f"(limit 'idle', file {file})" in result.stderr


def test_print_and_check_quote_nothing_that_steers_a_terminal(tmp_path: Path):
    file = tmp_path / "phasegate.toml"
    for text in (
        'records = "\\u001b[2J"',
        '"\\u001b[2Jkey" = 1',
        'log_level = "\\u001b[2J"',
        '[tokens.models]\n"\\u009b" = "x"',
    ):
        file.write_text(text + "\n")
        for words in (("check", str(file)), ("print", "--config", str(file))):
            result = run(*words)
            assert (result.exit_code, result.stdout) == (2, ""), text
            assert is_plain(result.stderr)
            assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "content", [b"\xff", b"a = " + b"[" * 100_000, b"\0", b"a = 1e999999", b"x" * 100, b"[[[[]]]]"]
)
def test_what_is_no_toml_is_said_in_one_line(tmp_path: Path, content: bytes):
    file = tmp_path / "phasegate.toml"
    file.write_bytes(content)
    result = run("check", str(file))
    assert (result.exit_code, result.stdout) == (2, "")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("path", ["/dev/zero", ".", "/nowhere/x"])
def test_a_path_that_is_no_file_of_settings_is_said(path: str):
    result = run("check", path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert path in result.stderr


def test_no_password_of_an_address_is_shown(tmp_path: Path):
    for url in (
        "http://u:s3cret@h:1",
        "http://u:s3cret@h:1/v1",
        "http://u:s3cret/x@h",
        "u:s3cret@h",
        "http:/u:s3cret@h",
    ):
        for environ in ({"PHASEGATE_UPSTREAM": url}, {"PHASEGATE_UPSTREAM": f'[{{"url": "{url}"}}]'}):
            result = run("print", "--origin", **environ)
            assert (result.exit_code, "upstream.url" in result.stderr) == (2, True)
            assert "s3cret" not in result.output


EVERYTHING = """
listen = "127.0.0.1:1"
scrape_s = "x"
records = "/nope/r.jsonl"
[prefixes]
key_file = "/nope/key"
[tenants]
keys_file = "/nope/keys.json"
[tokens.models]
a = "/nope/tokenizer.json"
[[upstream]]
url = "http://localhost:1"
[[upstream]]
url = "https://a"
ca_file = "/nope/ca.pem"
[[limit]]
name = "idle"
"""


@pytest.mark.parametrize("words", [("config", "check"), ("serve", "--config")], ids=["check", "serve"])
def test_everything_that_serve_would_refuse_is_told_at_once_a_line_each(words: tuple[str, ...], tmp_path: Path):
    file = tmp_path / "phasegate.toml"
    file.write_text(EVERYTHING)
    result = CliRunner().invoke(main, [*words, str(file)], env={"PHASEGATE_NONSENSE": "1"})
    assert (result.exit_code, result.stdout) == (2, "")
    said = result.stderr.splitlines()
    assert said[0] == "phasegate: environment PHASEGATE_NONSENSE: unknown setting"
    assert all(line.startswith("phasegate: ") and line.endswith(f"file {file})") for line in said[1:])
    assert [line.split(": ")[1] for line in said[1:]] == [
        *("scrape_s", "limit", "tenants.keys_file"),
        *("upstream.url", "upstream.ca_file", "records", "prefixes.key_file", "tokens.models"),
    ]
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("command", ["check", "print"])
def test_a_command_is_given_one_file(tmp_path: Path, command: str):
    file = tmp_path / "phasegate.toml"
    file.write_text("scrape_s = 7.0")
    argument, option = run(command, str(file)), run(command, "--config", str(file))
    assert (argument.exit_code, argument.stdout) == (0, option.stdout)
    assert ("scrape_s = 7.0" in argument.stdout) == (command == "print")
    result = run(command, str(file), "--config", str(file))
    assert (result.exit_code, "give one file" in result.stderr) == (2, True)


def test_print_says_where_a_table_of_words_comes_from(tmp_path: Path):
    file = tmp_path / "phasegate.toml"
    file.write_text('[tokens.models]\nm = "o200k_base"\n')
    assert (
        f'tokens.models = {{"m" = "o200k_base"}}  # file {file}'
        in run("print", "--origin", "--config", str(file)).output
    )
