"""What is said at the start, and what the office is told. (tests/socket has both processes at work.)"""

import asyncio
import json
import os
import re
import sys

import pytest
from structlog.testing import capture_logs

from proxy.cli.service import Service, hello
from proxy.config import MASK, Limit, Metrics, Prefixes, Settings, Timeouts, Upstream
from proxy.engines.fingerprint import Fingerprint


def say(text: str) -> None:
    print(text, file=sys.stderr)


def unread() -> Settings:
    raise AssertionError("nobody asked to reload")


# --- what is said ---


def banner(settings: Settings, **found: Fingerprint) -> str:
    """What is said at the start, where these engines (by label) were found."""

    async def test() -> str:
        service = Service(settings, unread, say)
        for engine in service._app.fleet.engines:
            engine.seen(found.get(engine.name.replace("localhost:", "port"), Fingerprint()))
        return "\n".join(service.banner())

    return asyncio.run(test())


def test_the_banner_names_what_was_found_and_where_to_point_clients() -> None:
    settings = Settings(listen="127.0.0.1:9", upstream=(Upstream(url="http://a:1", name="gpu"),))
    said = banner(settings, gpu=Fingerprint("vllm", "0.32.0", models=tuple("abcdef"), answers=True))
    assert "  gpu  vllm 0.32.0  a, b, c, d and 2 more\n" in said
    assert "export OPENAI_BASE_URL=http://127.0.0.1:9/v1\n" in said
    assert said.endswith("export ANTHROPIC_BASE_URL=http://127.0.0.1:9")
    assert "no answer" not in said


@pytest.mark.parametrize(
    ("listen", "here"),
    [("0.0.0.0:9", "127.0.0.1"), (":9", "127.0.0.1"), ("[::]:9", "[::1]")],
    ids=["ipv4", "empty", "ipv6"],
)
def test_the_banner_names_an_address_that_a_client_can_use(listen: str, here: str) -> None:
    said = banner(Settings(listen=listen, admin="0.0.0.0:10"))
    family = "IPv6" if here == "[::1]" else "IPv4"
    assert f"listens on http://{here}:9 and all other {family} addresses, admin on http://127.0.0.1:10 and all" in said
    assert set(re.findall(r"export \w+=http://(.*):9", said)) == {here}
    assert said.endswith(f"\n    on other machines   this one's name or address in place of {here}")
    assert "other machines" not in banner(Settings(listen="gpu-box:9", admin="0.0.0.0:10"))


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("ollama", ["OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "OLLAMA_HOST"]),
        ("llamacpp", ["OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"]),
        ("sglang", ["OPENAI_BASE_URL"]),
        ("openai", ["OPENAI_BASE_URL"]),
        (None, ["OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "OLLAMA_HOST"]),
    ],
)
def test_the_banner_names_the_clients_that_the_engines_can_serve(kind: str | None, names: list[str]) -> None:
    settings = Settings(upstream=(Upstream(url="http://a:1", name="e"),))
    said = banner(settings, **({"e": Fingerprint(kind, answers=True)} if kind else {}))
    assert re.findall(r"export (\w+)=", said) == names


def test_the_banner_names_who_does_not_answer_yet() -> None:
    two = (Upstream(url="http://a:1", name="gpu"), Upstream(url="http://b:1"))
    said = banner(Settings(upstream=two), gpu=Fingerprint("vllm", None, answers=True))
    assert "  gpu  vllm\n" in said
    assert "no answer yet from b:1; looking again" in said


@pytest.mark.parametrize(
    ("key", "said"), [("", "gpu wants a key: set upstream.api_key"), ("k", "gpu refuses its upstream.api_key")]
)
def test_the_banner_names_an_engine_that_wants_a_key(key: str, said: str) -> None:
    settings = Settings(upstream=(Upstream(url="http://a:1", name="gpu", api_key=key),))
    assert said in banner(settings, gpu=Fingerprint("llamacpp", answers=True, barred=True))
    assert "key" not in banner(settings, gpu=Fingerprint("llamacpp", answers=True))


def test_where_engines_are_looked_for_silent_ones_matter_only_when_all_are() -> None:
    said = banner(Settings(), port11434=Fingerprint("ollama", "0.33.0", models=("m",), answers=True))
    assert "localhost:11434  ollama 0.33.0  m" in said
    assert "no answer" not in said
    said = banner(Settings())
    for place in ("localhost:11434 (Ollama)", "localhost:8000 (vLLM)", "localhost:30000 (SGLang)"):
        assert place in said


def test_a_web_server_where_an_engine_was_looked_for_is_named_and_not_used() -> None:
    alone = banner(Settings(), port8080=Fingerprint(answers=True))
    line = "  localhost:8080 lists no models: not used; if it is an engine, --upstream http://localhost:8080\n"
    assert line in alone
    assert "no answer yet from localhost:11434 (Ollama), localhost:8000 (vLLM), localhost:30000 (SGLang); " in alone
    assert line in banner(Settings(), port8080=Fingerprint(answers=True), port11434=Fingerprint("ollama", answers=True))


def test_a_proxy_in_an_engines_old_place_does_not_look_for_it_there() -> None:
    said = banner(Settings(listen="127.0.0.1:30000", admin="127.0.0.1:8080"))
    assert "localhost:8000" in said
    assert "localhost:30000" not in said
    assert "localhost:8080" not in said


def test_the_office_is_told_all_it_must_know_and_its_page_no_secret() -> None:
    settings = Settings(
        admin="[::1]:9", admin_token="t0p", admin_hosts=("a.example",), records="r", store="s", store_days=1.0,
        store_mb=2, quiet=True, log_level="debug", log_json=True, scrape_s=3.0, metrics=Metrics(models=4, tenants=5),
        upstream=(Upstream(url="https://a:1", api_key="k3y", ca_file="ca.pem"),), prefixes=Prefixes(capture_text=True),
    )  # fmt: skip
    told = hello(settings, b"audit")
    assert (told.pid, told.admin_host, told.admin_port, told.admin_token) == (os.getpid(), "::1", 9, "t0p")
    assert (told.admin_hosts, told.records, told.store, told.store_days, told.store_mb) == (
        ("a.example",), "r", "s", 1.0, 2,
    )  # fmt: skip
    assert (told.models, told.tenants, told.live, told.log_level, told.log_json, told.scrape_s) == (
        4, 5, False, "debug", True, 3.0,
    )  # fmt: skip
    assert (told.audit_key, told.capture_text) == (b"audit", True)
    (engine,) = told.engines
    assert (engine.name, engine.url, engine.api_key, engine.ca_file) == ("a:1", "https://a:1", "k3y", "ca.pem")
    shown = json.loads(told.config)
    assert (shown["admin_token"], shown["upstream"][0]["api_key"]) == (MASK, MASK)
    assert "t0p" not in told.config
    assert "k3y" not in told.config


@pytest.mark.parametrize(
    ("anew", "late", "level"),
    [
        (Settings(), "nothing", "info"),
        (Settings(limit=(Limit(name="r", max_concurrency=1),)), "nothing", "info"),
        (Settings(admin_token="secret", timeouts=Timeouts(idle_s=1)), "admin_token, timeouts.idle_s", "warning"),
        (Settings(upstream=(Upstream(url="http://a:1"),)), "upstream", "warning"),
    ],
    ids=["nothing new", "limits", "others", "engines in place of a search"],
)
def test_a_reload_names_what_needs_a_restart(anew: Settings, late: str, level: str) -> None:
    """Such settings were read, and ignored without a word."""

    async def test() -> str | None:
        service = Service(Settings(), lambda: anew, say)
        service._reload()
        return service._state().reloaded

    with capture_logs() as logs:
        last = asyncio.run(test())
    (said,) = (entry for entry in logs if entry["event"] == "reloaded")
    assert (said["needs_restart"], said["log_level"]) == (late, level)
    assert last == ("ok" if late == "nothing" else f"ok, but for what needs a restart: {late}")
