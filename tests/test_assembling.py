"""Plain values become settings; each that cannot stand is told once, by its dotted key, and costs only itself."""

from typing import Any

import pytest

from proxy.assembling import assemble, clashes, nearest, schema
from proxy.config import Limit, Settings, Upstream
from proxy.flaws import Flaw


def test_nothing_given_is_nothing_wrong() -> None:
    assert assemble({}) == (Settings(), [])


@pytest.mark.parametrize(
    ("tree", "flaw"),
    [
        ({"nonsense": 1}, Flaw("nonsense", "unknown setting")),
        ({"upstreams": [{}]}, Flaw("upstreams", "unknown setting; did you mean upstream?")),
        ({"limits": {}}, Flaw("limits", "unknown setting; did you mean limit?")),
        ({"tenant": [{}]}, Flaw("tenant", "unknown setting; did you mean tenants?")),
        ({"timeouts": 3}, Flaw("timeouts", "a table is expected, and this is a whole number")),
        ({"quiet": "x"}, Flaw("quiet", "true or false is expected, and this is text")),
        ({"limit": [3]}, Flaw("limit", "a table is expected, and this is a whole number; each begins with [[limit]]")),
        ({"limit": [{"mode": "off"}]}, Flaw("limit.name", "is missing", "limit 1")),
        (
            {"limit": [{"name": "a"}, {"name": "", "per": ["x"]}]},
            Flaw("limit.per", "'x' is none of engine, model, tenant", "limit 2"),
        ),
        ({"admin_hosts": ["a", 3]}, Flaw("admin_hosts", "text is expected, and this is a whole number")),
        ({"tokens": {"models": []}}, Flaw("tokens.models", "a table is expected, and this is a list")),
        (
            {"upstream": [{"url": "\x1b", "name": "a"}]},
            Flaw("upstream.url", "holds a line end or another character that cannot be printed", "upstream 'a'"),
        ),
    ],
)
def test_what_cannot_stand_is_told_once(tree: dict[str, Any], flaw: Flaw) -> None:
    settings, flaws = assemble({"scrape_s": "3", **tree})
    assert flaws == [flaw]
    assert settings.scrape_s == 3.0


def test_what_is_left_out_has_its_default_or_is_absent() -> None:
    tree = {"store_mb": -1, "limit": [{"name": "a", "max_concurrency": 0, "queue_length": 3}, {"max_concurrency": 1}]}
    settings, flaws = assemble(tree)
    assert [flaw.key for flaw in flaws] == ["limit.max_concurrency", "limit.name", "store_mb"]
    assert (settings.store_mb, settings.limit) == (1024, (Limit(name="a", queue_length=3),))


def test_nothing_is_what_may_be_left_out() -> None:
    settings, flaws = assemble({"limit": [{"name": "a", "max_concurrency": None}], "scrape_s": None})
    assert [str(flaw) for flaw in flaws] == ["scrape_s: a number is expected, and this is nothing"]
    assert settings.limit == (Limit(name="a"),)


def test_values_that_clash_are_told_each_once() -> None:
    engines = tuple(Upstream(url=url) for url in ("http://x:1", "http://y:1", "http://x:1", "https://x:1"))
    limits = tuple(Limit(name=name) for name in "aabcb")
    told = clashes(Settings(listen="[::1]:1", admin="[::1]:1", upstream=engines, limit=limits))
    assert [flaw.what.partition(";")[0] for flaw in told] == [
        "'[::1]:1' is the address of listen too",
        "two engines are named 'x:1'",
        "two limits are named 'a'",
        "two limits are named 'b'",
    ]


def test_a_free_port_for_each_is_no_clash() -> None:
    assert list(clashes(Settings(listen="127.0.0.1:0", admin="127.0.0.1:0"))) == []


def test_every_setting_has_a_key() -> None:
    keys = dict(schema(Settings))
    assert {"listen", "timeouts.idle_s", "tokens.models", "upstream", "limit"} <= keys.keys()
    assert "timeouts" not in keys


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("idel_s", "; did you mean idle_s?"),
        ("upstreams", "; did you mean upstream?"),
        ("connect_s", "; did you mean timeouts.connect_s?"),
        ("CONNECT_S", "; did you mean TIMEOUTS_CONNECT_S?"),
        ("FOO", ""),
        ("serve", ""),
    ],
)
def test_only_what_is_near_may_have_been_meant(name: str, meant: str) -> None:
    assert nearest(name, ["idle_s", "store", "upstream", "timeouts.connect_s", "TIMEOUTS_CONNECT_S"]) == meant
    assert nearest("STOER", ["STORE"], "PHASEGATE_") == "; did you mean PHASEGATE_STORE?"
