import math
import re
from collections.abc import Iterator
from typing import get_args

import msgspec
import pytest

from proxy.config import MASK, PERIODS, Section, Settings, Timeouts, Upstream, leaves, masked
from proxy.flaws import ConfigError
from proxy.loading import load


def numbers(section: type[Section], path: str = "") -> Iterator[str]:
    """The dotted key of every numeric setting, those in lists of tables too."""
    for field in msgspec.structs.fields(section):
        kinds = [field.type, *get_args(field.type)]
        if inner := [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Section)]:
            yield from numbers(inner[0], f"{path}{field.name}.")
        if int in kinds or float in kinds:
            yield path + field.name


NUMBERS = [*numbers(Settings)]
LISTS: dict[str, dict[str, object]] = {"upstream": {"url": "http://x:1"}, "limit": {"name": "r"}}


def placed(key: str, value: object) -> dict[str, object]:
    """The settings' tree with this one value."""
    head, _, last = key.rpartition(".")
    table = {**LISTS.get(head, {}), last: value}
    return table if not head else {head: [table] if head in LISTS else table}


def test_numbers_are_found_in_every_section():
    assert {"store_mb", "timeouts.idle_s", "metrics.models", "upstream.slots", "limit.queue_timeout_s"} <= {*NUMBERS}


@pytest.mark.parametrize("key", NUMBERS)
@pytest.mark.parametrize("value", [-1, -0.5, math.nan, math.inf, -math.inf, 10**30])
def test_no_number_is_negative_or_without_end(key: str, value: float):
    with pytest.raises(ConfigError, match=rf"^{re.escape(key)}: .*\((\w+ .*, )?flag\)$"):
        load(None, {}, placed(key, value))


@pytest.mark.parametrize("key", NUMBERS)
def test_every_number_may_be_one(key: str):
    load(None, {}, placed(key, 1))


def test_secrets_are_masked_and_everything_else_is_shown():
    settings = Settings(admin_token="t", upstream=(Upstream(url="http://x:1", api_key="k"), Upstream(url="http://y:1")))
    shown = masked(settings)
    assert shown["admin_token"] == MASK
    assert [engine["api_key"] for engine in shown["upstream"]] == [MASK, ""]
    assert shown["timeouts"]["connect_s"] == 5.0
    assert next(key for key, _ in leaves(settings)) == "listen"


def test_several_faults_of_one_section_are_told_together():
    with pytest.raises(ValueError, match=r"^connect_s: -1\.0 is no .*; idle_s: nan is no .*"):
        Timeouts(connect_s=-1.0, idle_s=math.nan)


def texts(section: type[Section], path: str = "") -> Iterator[str]:
    """The dotted key of every setting of text, or of a list or table of it."""
    for field in msgspec.structs.fields(section):
        kinds = [field.type, *get_args(field.type)]
        if inner := [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Section)]:
            yield from texts(inner[0], f"{path}{field.name}.")
        elif str in kinds:
            yield path + field.name


TEXTS = [*texts(Settings)]


def test_texts_are_found_in_every_section():
    assert {"listen", "admin_hosts", "upstream.api_key", "limit.name", "tokens.models", "tenants.header"} <= {*TEXTS}


@pytest.mark.parametrize("key", TEXTS)
@pytest.mark.parametrize("text", ["a\r\nX-Evil: 1", "\x1b[2J", "a\0b", "\x85", "\u2028"])
def test_no_text_holds_a_line_end_or_steers_a_terminal(key: str, text: str):
    listed = {"admin_hosts", "upstream.models", "tenants.networks", "limit.models", "limit.tenants", "limit.kinds"}
    value: object = {text: "x"} if key == "tokens.models" else [text] if key in listed else text
    with pytest.raises(ConfigError, match=rf"^{re.escape(key)}: ") as refused:
        load(None, {}, placed(key, value))
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("key", ["admin_token", "upstream.api_key"])
@pytest.mark.parametrize("text", [" s3cret", "s3cret ", "s3cret\u00e9", "s3cret\u4e00"])
def test_a_secret_can_be_sent_in_a_header_and_is_not_shown(key: str, text: str):
    with pytest.raises(
        ConfigError, match=rf"^{re.escape(key)}: holds blanks at an end, or what is no ASCII"
    ) as refused:
        load(None, {}, placed(key, text))
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("name", ["x y", "x:", "\u00e9", "(x)"])
def test_a_tenant_s_header_is_a_header_s_name(name: str):
    with pytest.raises(ConfigError, match=r"^tenants\.header: .* is no name of a header"):
        load(None, {}, {"tenants": {"header": name}})


@pytest.mark.parametrize("key", [key for key in NUMBERS if key.rpartition(".")[2] in PERIODS])
def test_a_time_is_0_or_long_enough_to_be_meant(key: str):
    least = PERIODS[key.rpartition(".")[2]]
    for value in (1e-9, least / 2):
        with pytest.raises(ConfigError, match=rf"^{re.escape(key)}: .* is neither 0 nor {least} or more"):
            load(None, {}, placed(key, value))
    for value in (0, least, 5):
        load(None, {}, placed(key, value))


def test_every_time_has_a_least_value():
    assert {key.rpartition(".")[2] for key in NUMBERS if key.endswith(("_s", "_days"))} == PERIODS.keys()


@pytest.mark.parametrize(
    "url",
    ["http://a b", " http://a", "http://a:0", "http://a:99999", "http://[::1", "http://..", "http://\u0663", "http://"],
)
def test_an_engine_s_url_names_a_host_and_a_port(url: str):
    with pytest.raises(ConfigError, match=r"^upstream\.url: .* is not http://host:port"):
        load(None, {}, {"upstream": [{"url": url}]})


@pytest.mark.parametrize(
    "url", ["http://u:s3cret@a", "http://@a", "http://u:s3cret@a/v1", "http://u:s3cret/x@a", "u:s3cret@a"]
)
def test_a_password_in_an_address_is_refused_and_not_shown(url: str):
    with pytest.raises(ConfigError, match=r"^upstream\.url: .* holds credentials; use api_key") as refused:
        load(None, {}, {"upstream": [{"url": url}]})
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("key", ["listen", "admin"])
@pytest.mark.parametrize("address", ["a b:1", "a..b:1", "x" * 64 + ":1", "u@h:1", "\u0663:1"])
def test_an_address_to_listen_on_names_a_host(key: str, address: str):
    with pytest.raises(ConfigError, match=rf"^{key}: .* names no host"):
        load(None, {}, {key: address})
