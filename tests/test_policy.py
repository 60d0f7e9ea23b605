"""Settings become rules and tenants, and what cannot stand is named by its key."""

import re
from pathlib import Path

import pytest

from proxy.admission.keyring import Keyring
from proxy.config import Limit, Settings, Tenants, Timeouts, Upstream
from proxy.flaws import ConfigError
from proxy.policy import deferred, reloaded, rules, tenants, unfit


def test_every_limit_becomes_a_rule_with_the_same_values() -> None:
    limit = Limit(name="long", mode="observe", models=("llama*",), per=("tenant",), max_prompt_tokens=9)
    (rule,) = rules(Settings(limit=(limit,)))
    assert {name: getattr(rule, name) for name in limit.__struct_fields__} == {
        name: getattr(limit, name) for name in limit.__struct_fields__
    }


def test_limits_and_keys_are_taken_anew_and_the_rest_stays() -> None:
    limit = Limit(name="r", max_concurrency=1)
    anew = Settings(limit=(limit,), tenants=Tenants(header="x-tenant"), ask_usage=False)
    assert reloaded(Settings(), anew) == Settings(limit=(limit,), tenants=Tenants(header="x-tenant"))
    assert deferred(Settings(), anew) == ("ask_usage",)


def test_what_needs_a_restart_is_named_and_its_values_are_not() -> None:
    engine = Upstream(url="http://a:1", api_key="secret")
    anew = Settings(listen="127.0.0.1:9", timeouts=Timeouts(idle_s=1), upstream=(engine,), limit=(Limit(name="r"),))
    assert deferred(Settings(), anew) == ("listen", "upstream", "timeouts.idle_s")
    assert deferred(anew, anew) == ()


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        (Limit(name="idle", cap_output=True), r"^limit: limits nothing; give it one of max_prompt_tokens, .*'idle'\)$"),
        (
            Limit(name="q", requests_per_minute=1, queue_length=5),
            r"^limit\.queue_length: .* without max_concurrency .*'q'",
        ),
        (
            Limit(name="c", max_concurrency=1, cap_output=True),
            r"^limit\.cap_output: .* without max_output_tokens .*'c'",
        ),
        (Limit(name="gold", max_concurrency=1, tenants=("a",)), r"^limit\.tenants: nobody is a tenant .*'gold'\)$"),
        (
            Limit(name="typo", max_concurrency=1, kinds=("chat", "chatt")),
            r"^limit\.kinds: 'chatt' is none of chat, .*'typo'",
        ),
    ],
    ids=["nothing", "no line", "no cap", "nobody", "no kind"],
)
def test_a_limit_that_never_has_a_say_is_named(limit: Limit, message: str) -> None:
    (flaw,) = unfit(Settings(limit=(limit, Limit(name="fine", max_concurrency=1))))
    assert re.match(message, str(flaw))


@pytest.mark.parametrize("told", [Tenants(keys_file="keys.json"), Tenants(header="x-tenant")], ids=["keys", "header"])
def test_a_limit_that_can_have_a_say_stands(told: Tenants) -> None:
    window = Limit(name="window", within_window=True, kinds=("chat", "generate", "embed"))
    gold = Limit(name="gold", max_concurrency=1, tenants=("a",))
    found = unfit(Settings(tenants=told, limit=(window, gold)))
    assert {flaw.key.partition(".")[0] for flaw in found} == {"tenants"}  # its file is not there, nobody is believed


def test_all_that_cannot_stand_is_told() -> None:
    told = Tenants(keys_file="/nowhere/keys.json", networks=("10.0.0.1/8", "10.0.0.0/8", "x"))
    limits = (Limit(name="idle", kinds=("chatt",)), Limit(name="idle too"))
    assert [flaw.key for flaw in unfit(Settings(tenants=told, limit=limits))] == [
        *("limit", "limit.kinds", "limit"),
        *("tenants.networks", "tenants.networks", "tenants.keys_file"),
    ]


def test_without_settings_there_are_no_tenants() -> None:
    assert not tenants(Settings()).on


def test_keys_come_from_the_file(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text(Keyring("salt").add("team", "pg-key", "id", "2026-11-29").dumps(), "utf-8")
    known = tenants(Settings(tenants=Tenants(keys_file=str(file))))
    assert known.on
    assert known.keyring is not None
    assert known.keyring.tenant("pg-key") == "team"


def test_a_file_without_keys_still_asks_for_one(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    file.write_text(Keyring("salt").dumps(), "utf-8")
    assert tenants(Settings(tenants=Tenants(keys_file=str(file)))).on


def test_a_header_is_believed_from_its_networks() -> None:
    known = tenants(Settings(tenants=Tenants(header="X-Tenant", networks=("10.0.0.0/8", "::1/128"))))
    assert known.header == b"x-tenant"
    assert [str(network) for network in known.networks] == ["10.0.0.0/8", "::1/128"]


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (Tenants(networks=("10.0.0.1/8",)), r"^tenants\.networks: 10\.0\.0\.1/8 has host bits set"),
        (Tenants(header="x-tenant"), r"^tenants\.networks: empty"),
        (Tenants(keys_file="/nowhere/keys.json"), r"^tenants\.keys_file: /nowhere/keys\.json: No such file"),
    ],
    ids=["network", "nobody_believed", "no_file"],
)
def test_what_cannot_stand_is_named_by_its_key(told: Tenants, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        tenants(Settings(tenants=told))


@pytest.mark.parametrize("content", [b"{}", b"[", b"\xff"], ids=["empty", "cut", "bytes"])
def test_a_file_of_keys_that_is_none_is_named(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "keys.json"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=r"^tenants\.keys_file: ") as error:
        tenants(Settings(tenants=Tenants(keys_file=str(file))))
    assert str(file) in str(error.value) or content == b"\xff"


def test_a_file_of_keys_without_an_end_is_none() -> None:
    with pytest.raises(ConfigError, match=r"^tenants\.keys_file: /dev/zero: has [0-9,]+ bytes or more"):
        tenants(Settings(tenants=Tenants(keys_file="/dev/zero")))
