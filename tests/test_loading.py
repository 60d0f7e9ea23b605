from collections.abc import Iterator
from pathlib import Path

import pytest

from proxy.config import Settings
from proxy.flaws import ConfigError, Flaw
from proxy.loading import gather, load


def test_without_any_source_every_setting_is_its_default():
    loaded = load(None, {}, {})
    assert loaded.settings == Settings()
    assert set(loaded.origins.values()) == {"default"}


def test_flags_win_over_environment_over_file_over_defaults(tmp_path: Path):
    file = tmp_path / "phasegate.toml"
    file.write_text('listen = "127.0.0.1:1"\nadmin = "127.0.0.1:2"\n[timeouts]\nidle_s = 3\nconnect_s = 4\n')
    environ = {"PHASEGATE_LISTEN": "127.0.0.1:10", "PHASEGATE_ADMIN": "127.0.0.1:20", "PATH": "/bin"}
    loaded = load(file, environ, {"listen": "127.0.0.1:100", "admin": None})
    assert loaded.settings.listen == "127.0.0.1:100"
    assert loaded.settings.admin == "127.0.0.1:20"
    assert loaded.settings.timeouts.idle_s == 3.0
    assert loaded.settings.timeouts.total_s == 0.0
    assert loaded.origins["listen"] == "flag"
    assert loaded.origins["admin"] == "environment PHASEGATE_ADMIN"
    assert loaded.origins["timeouts.connect_s"] == f"file {file}"
    assert loaded.origins["timeouts.total_s"] == "default"


@pytest.mark.parametrize(
    ("value", "urls"),
    [
        ("http://a:1,http://b:2", ["http://a:1", "http://b:2"]),
        ('[{"url": "http://a:1", "kind": "vllm"}]', ["http://a:1"]),
        ("", []),
    ],
    ids=["urls", "json", "empty"],
)
def test_engines_can_come_from_the_environment(value: str, urls: list[str]):
    assert [engine.url for engine in load(None, {"PHASEGATE_UPSTREAM": value}, {}).settings.upstream] == urls


def test_a_list_of_words_can_come_from_the_environment():
    assert load(None, {"PHASEGATE_ADMIN_HOSTS": "a.example, b.example"}, {}).settings.admin_hosts == (
        "a.example",
        "b.example",
    )


@pytest.mark.parametrize(
    ("environ", "flags", "message"),
    [
        ({"PHASEGATE_TIMEOUTS_IDEL_S": "3"}, {}, r"IDEL_S: unknown setting; did you mean PHASEGATE_TIMEOUTS_IDLE_S\?"),
        ({"PHASEGATE_TIMEOUTS_IDLE_S": "x"}, {}, r"timeouts\.idle_s: a number is expected, and this is text \(env"),
        ({"PHASEGATE_UPSTREAM": "[{"}, {}, r"environment PHASEGATE_UPSTREAM: "),
        ({}, {"listen": "x"}, r"listen: 'x' is not HOST:PORT \(flag\)"),
        ({}, {"listen": "::1:80"}, r"listen: "),
        ({}, {"listen": "a:70000"}, r"listen: "),
        ({}, {"timeouts": {"idle_s": -1}}, r"timeouts\.idle_s: -1\.0 is no number from 0 to .* \(flag\)"),
        (
            {"PHASEGATE_TIMEOUTS_IDLE_S": "nan"},
            {},
            r"timeouts\.idle_s: nan is no number .* \(environment PHASEGATE_TIM",
        ),
        ({}, {"body_limit_bytes": 0}, r"body_limit_bytes: 0 is no number from 1 to .* \(flag\)"),
        ({}, {"event_limit_bytes": 0}, r"event_limit_bytes: 0 is no number from 1"),
        ({}, {"nonsense": 1}, r"^nonsense: unknown setting \(flag\)"),
        ({}, {"upstream": [{"urll": "http://x"}]}, r"upstream\.urll: unknown setting; did you mean upstream\.url\?"),
        ({}, {"upstream": [{}]}, r"^upstream\.url: is missing \(upstream 1, flag\)$"),
        (
            {},
            {"upstream": {"url": "http://x:1"}},
            r"^upstream: a list is .*; each begins with \[\[upstream\]\] \(flag\)$",
        ),
        (
            {},
            {"limit": [{"name": "r", "max_prompt_tokens": "x"}]},
            r"_tokens: a whole number is expected, and this is t",
        ),
        ({}, {"limit": [{"name": "r"}, {"name": "r"}]}, r"^limit: two limits are named 'r'; give each a name of its o"),
        ({}, {"upstream": [{"url": "ftp://x"}]}, r"upstream\.url: .* is not http"),
        ({}, {"upstream": [{"url": "http://x:1/v1"}]}, r"upstream\.url: .* has a path"),
        ({}, {"upstream": [{"url": "http://u:p@x:1"}]}, r"upstream\.url: 'http://x:1' holds credentials"),
        (
            {},
            {"upstream": [{"url": "http://x:1", "kind": "tgi"}]},
            r"upstream\.kind: 'tgi' is none of auto, openai, vllm,",
        ),
        (
            {},
            {"limit": [{"name": "r", "mode": "watch"}]},
            r"limit\.mode: 'watch' is none of off, observe, enforce \(limit 'r', flag\)$",
        ),
        ({}, {"limit": [{"name": "r", "per": ["user"]}]}, r"limit\.per: 'user' is none of engine, model, tenant"),
        ({}, {"log_level": "loud"}, r"^log_level: 'loud' is none of debug, info, warning, error \(flag\)$"),
        ({}, {"listen": "a:1", "admin": "a:1"}, r"^admin: 'a:1' is the address of listen too; give each its own \(fl"),
        ({}, {"upstream": [{"url": "http://x:1"}, {"url": "http://x:1"}]}, r"upstream: two engines are named 'x:1'"),
    ],
)
def test_every_error_names_its_key(environ: dict[str, str], flags: dict[str, object], message: str):
    with pytest.raises(ConfigError, match=message):
        load(None, environ, flags)


def test_what_kubernetes_says_of_a_service_is_no_setting():
    environ = {
        "PHASEGATE_SERVICE_HOST": "10.0.0.7",
        "PHASEGATE_SERVICE_PORT_HTTP": "8800",
        "PHASEGATE_PORT": "tcp://10.0.0.7:8800",
        "PHASEGATE_PORT_8800_TCP_ADDR": "10.0.0.7",
    }
    assert load(None, environ, {}).settings == Settings()


def test_an_unreadable_file_is_named(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"missing\.toml: No such file"):
        load(tmp_path / "missing.toml", {}, {})
    broken = tmp_path / "broken.toml"
    broken.write_text("listen = ")
    with pytest.raises(ConfigError, match=r"broken\.toml: Invalid value"):
        load(broken, {}, {})
    broken.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=r"broken\.toml: is no text in UTF-8$"):
        load(broken, {}, {})


def test_what_is_no_utf_8_is_said_to_be_none():
    for environ, flags in (({"PHASEGATE_SCRAPE_S": "\udcff"}, {}), ({}, {"log_level": "\udcff"})):
        with pytest.raises(ConfigError, match=r"^(scrape_s|log_level): is no UTF-8 \((environment \w+|flag)\)$"):
            load(None, environ, flags)


@pytest.mark.parametrize("name", ["PHASEGATE_UPSTREAM", "PHASEGATE_ADMIN_HOSTS", "PHASEGATE_TOKENS_MODELS"])
def test_lists_without_end_are_no_setting(name: str):
    with pytest.raises(ConfigError):
        load(None, {name: "[" * 100_000}, {})


@pytest.mark.parametrize("table", ["", "timeouts", "timeouts.idle_s", "tokens.models", "upstream"])
def test_tables_without_end_are_no_setting(tmp_path: Path, table: str):
    file = tmp_path / "phasegate.toml"
    deep = ".".join([*filter(None, [table]), *["a"] * 5_000])
    for text in (f"[{deep}]\nb = 1\n", f"{deep} = 1\n"):
        file.write_text(text)
        with pytest.raises(ConfigError) as caught:
            load(file, {}, {})
        assert [flaw.origin for flaw in caught.value.flaws] == [f"file {file}"]


def test_a_file_without_an_end_is_no_file_of_settings():
    with pytest.raises(ConfigError, match=r"/dev/zero: has [0-9,]+ bytes or more"):
        load(Path("/dev/zero"), {}, {})


def test_a_message_can_be_shown_as_it_is(tmp_path: Path):
    file = tmp_path / "phasegate.toml"
    file.write_text('"\\u001b[2J\\nforged" = 1\n')
    with pytest.raises(ConfigError) as refused:
        load(file, {}, {})
    assert str(refused.value).isprintable()
    assert "forged" in str(refused.value)


MANY = """
nonsense = 3
scrape_s = "x"
admin = "127.0.0.1:1"
limit = {name = "l"}
[serve]
listen = "x"
[empty]
[timeouts]
idle_s = -1
total_s = -2
[tokens.models]
a = "cl100k_base"
b = 3
[[upstream]]
url = "foo"
[[upstream]]
name = "two"
kind = "tgi"
[[upstream]]
url = "http://x:1"
[[upstream]]
url = "http://x:1"
"""


def test_everything_that_is_wrong_is_told_at_once_with_its_source(tmp_path: Path):
    file = tmp_path / "phasegate.toml"
    file.write_text(MANY)
    environ = {"PHASEGATE_NONSENSE": "1", "PHASEGATE_STORE_MB": "x", "PHASEGATE_UPSTREAM_": "[{"}
    found = gather(file, environ, {"listen": "127.0.0.1:1", "log_level": "loud"})
    said = [str(flaw) for flaw in found.flaws]
    assert said[:2] == [
        "environment PHASEGATE_NONSENSE: unknown setting",
        "environment PHASEGATE_UPSTREAM_: unknown setting; did you mean PHASEGATE_UPSTREAM?",
    ]
    where = f"file {file}"
    assert sorted(said[2:]) == [
        f"admin: '127.0.0.1:1' is the address of listen too; give each its own ({where})",
        f"empty: unknown setting ({where})",
        f"limit: a list is expected, and this is a table; each begins with [[limit]] ({where})",
        "log_level: 'loud' is none of debug, info, warning, error (flag)",
        f"nonsense: unknown setting ({where})",
        f"scrape_s: a number is expected, and this is text ({where})",
        f"serve: unknown setting ({where})",
        "store_mb: a whole number is expected, and this is text (environment PHASEGATE_STORE_MB)",
        f"timeouts.idle_s: -1.0 is no number from 0 to 1,000,000,000,000 ({where})",
        f"timeouts.total_s: -2.0 is no number from 0 to 1,000,000,000,000 ({where})",
        f"tokens.models.b: text is expected, and this is a whole number ({where})",
        f"upstream.kind: 'tgi' is none of auto, openai, vllm, sglang, llamacpp, ollama (upstream 'two', {where})",
        f"upstream.url: 'foo' is not http://host:port or https://host:port (upstream 1, {where})",
        f"upstream.url: is missing (upstream 'two', {where})",
        f"upstream: two engines are named 'x:1'; give each a name of its own ({where})",
    ]
    with pytest.raises(ConfigError) as refused:
        found.good()
    assert refused.value.flaws == found.flaws


def test_what_can_stand_stands_beside_what_cannot(tmp_path: Path):
    file = tmp_path / "phasegate.toml"
    file.write_text(MANY)
    settings = gather(file, {}, {"listen": "127.0.0.1:1"}).settings
    assert (settings.listen, settings.scrape_s, settings.tokens.models) == ("127.0.0.1:1", 5.0, {"a": "cl100k_base"})
    assert [engine.url for engine in settings.upstream] == ["http://x:1", "http://x:1"]


def test_a_check_tells_no_consequence_of_what_is_known():
    found = gather(None, {}, {"listen": "nonsense", "limit": [{"name": "r", "mode": "watch"}, {"name": "s"}]})
    fine = Flaw("limit", "limits nothing", "limit 's'", rests_on=("limit 's'",))
    asked: list[Settings] = []

    def check(settings: Settings) -> Iterator[Flaw]:
        asked.append(settings)
        yield Flaw("limit", "limits nothing", "limit 'r'", rests_on=("limit 'r'",))
        yield Flaw("limit.mode", "again", "limit 'r'")
        yield Flaw("upstream.url", "is this proxy", rests_on=("listen",))
        yield fine

    assert found.also(check).flaws == (*found.flaws, fine._replace(origin="flag"))
    assert asked == [found.settings]


def test_without_the_file_nothing_is_said_of_what_may_stand_in_it(tmp_path: Path):
    found = gather(tmp_path / "gone.toml", {"PHASEGATE_ADMIN": "127.0.0.1:8800", "PHASEGATE_SCRAPE_S": "x"}, {})
    assert [flaw.key for flaw in found.also(lambda settings: [Flaw("records", "x")]).flaws] == [
        str(tmp_path / "gone.toml"),
        "scrape_s",
    ]


def test_a_table_has_an_origin_too(tmp_path: Path):
    file = tmp_path / "phasegate.toml"
    file.write_text('[tokens.models]\nm = "o200k_base"\n')
    assert load(file, {}, {}).origins["tokens.models"] == f"file {file}"
