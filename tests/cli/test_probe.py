import json
from dataclasses import asdict, replace

import pytest
from click.testing import CliRunner

from proxy.cli import UNREACHABLE, USAGE
from proxy.cli import probe as module
from proxy.cli.probe import probe, render
from proxy.cli.probing import ProbeError, Result, Seen
from proxy.config import Settings
from tests.support.hostile import ESCAPE, is_plain

SHORT_SEEN = Seen(200, 0, 24, 0.5, 0.1, 500.0, 40.0, (39.0, 41.0))
RESULT = Result("vllm", False, "0.33.0", "m1", 3, SHORT_SEEN, Seen(2000, 0, 24, 4.0, 0.0, 500.0, 38.0, (37.0, 39.0)))


def test_the_table_is_aligned_and_says_in_one_sentence_what_was_seen() -> None:
    *table, _, sentence = render(RESULT, "http://e").splitlines()
    assert table[0] == "m1 on vllm 0.33.0 at http://e, 3 rounds, medians, one request at a time"
    assert table[3] == "prompt tokens             200         2,000"
    assert {len(line) for line in table[2:]} == {len(table[3])}
    assert sentence == (
        "A prompt 10.0 times as long takes 8.0 times as long to its first token; "
        "the answer is written at the same speed."
    )


def test_what_was_cached_is_said_and_a_gateway_is_no_engine() -> None:
    seen = replace(RESULT, gateway=True, short=replace(SHORT_SEEN, cached_tokens=31))
    table = render(seen, "http://e").splitlines()
    assert table[0].startswith("m1 on vllm behind a gateway at http://e")
    assert table[4] == "of them cached             31             0"
    assert "cached" not in render(RESULT, "http://e")


@pytest.mark.parametrize(("rate", "words"), [(20.0, "50% slower"), (60.0, "50% faster")])
def test_a_change_of_speed_is_said(rate: float, words: str) -> None:
    changed = replace(RESULT, long=replace(RESULT.long, decode_rate=rate, decode_span=(rate - 1, rate + 1)))
    assert f"the answer is written {words}" in render(changed, "http://e")


@pytest.mark.parametrize("span", [(20.0, 39.5), (10.0, 50.0), None], ids=["touches", "around", "unknown"])
def test_a_difference_within_the_noise_is_no_change_of_speed(span: tuple[float, float] | None) -> None:
    changed = replace(RESULT, long=replace(RESULT.long, decode_rate=30.0, decode_span=span))
    text = render(changed, "http://e")
    assert "differs by no more than from round to round" in text
    assert "slower" not in text


def test_one_round_tells_nothing_of_the_speed() -> None:
    changed = replace(RESULT, rounds=1, long=replace(RESULT.long, decode_rate=20.0, decode_span=(20.0, 20.0)))
    assert render(changed, "http://e").endswith("takes 8.0 times as long to its first token.")


def test_what_is_unknown_is_said_to_be() -> None:
    dark = replace(SHORT_SEEN, waiting_s=None, prefill_rate=None, decode_rate=None)
    text = render(replace(RESULT, version=None, short=dark, long=dark), "http://e")
    assert text.startswith("m1 on vllm at http://e")
    assert text.count("unknown") == 6
    assert "this engine does not say" in text


def invoke(monkeypatch: pytest.MonkeyPatch, end: Result | ProbeError, *options: str) -> tuple[int, str, list[object]]:
    asked: list[object] = []

    async def probing(settings: Settings, model: str | None) -> Result:
        asked.extend((settings.upstream[0].url, settings.upstream[0].api_key, model))
        if isinstance(end, ProbeError):
            raise end
        return end

    monkeypatch.setattr(module, "_probe", probing)
    result = CliRunner().invoke(probe, ["--quick", *options])
    return result.exit_code, result.output, asked


def test_the_command_prints_what_was_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    code, output, asked = invoke(monkeypatch, RESULT, "http://e:1", "--model", "m1", "--api-key", "k")
    assert (code, asked) == (0, ["http://e:1", "k", "m1"])
    assert output == render(RESULT, "http://e:1") + "\n"


def test_machines_get_json(monkeypatch: pytest.MonkeyPatch) -> None:
    _, output, _ = invoke(monkeypatch, RESULT, "http://e:1", "--json")
    assert json.loads(output) == json.loads(json.dumps(asdict(RESULT)))


@pytest.mark.parametrize("code", [USAGE, UNREACHABLE])
def test_a_failure_has_its_exit_code_and_one_line(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    assert invoke(monkeypatch, ProbeError("why", code), "http://e:1")[:2] == (code, "phasegate: why\n")


def test_an_address_that_is_none_is_a_matter_of_usage() -> None:
    assert CliRunner().invoke(probe, ["ftp://e"]).exit_code == USAGE


def test_nothing_listens_there() -> None:
    result = CliRunner().invoke(probe, ["http://127.0.0.1:1"])
    assert (result.exit_code, len(result.output.splitlines())) == (UNREACHABLE, 1)
    assert result.output.startswith("phasegate: no engine answers at http://127.0.0.1:1: cannot reach the engine at ")


@pytest.mark.parametrize(
    ("url", "says"), [("foo", "URL: 'foo' is not http://host:port"), ("http://u:p@e", "use api_key")]
)
def test_the_command_line_knows_no_settings(url: str, says: str) -> None:
    said = CliRunner().invoke(probe, [url]).stderr
    assert says in said
    assert "upstream" not in said
    assert "(flag)" not in said


def test_what_an_engine_says_of_itself_steers_no_terminal() -> None:
    result = Result("vllm", False, ESCAPE + "v" * 9999, ESCAPE, 1, *[Seen(1, 0, 1, 0.1, None, None, None)] * 2)
    shown = render(result, "http://h:1")
    assert is_plain(shown)
    assert len(shown.splitlines()) == len(render(replace(result, version="1", model="m"), "http://h:1").splitlines())


@pytest.mark.parametrize(
    "arguments",
    [
        ["http://u:s3cret@h:1/x"],
        ["http://h:99999"],
        ["http://[::1"],
        ["http://h\n:1"],
        ["http://\udcff"],
        ["http://h:1", "--api-key", "a\r\nX: 1"],
        ["http://h:1", "--api-key", " a"],
    ],
)
def test_an_address_or_key_that_cannot_be_used_is_a_usage_error(arguments: list[str]) -> None:
    result = CliRunner().invoke(probe, arguments)
    assert (result.exit_code, result.stdout) == (USAGE, "")
    assert is_plain(result.stderr)
    assert "s3cret" not in result.stderr
