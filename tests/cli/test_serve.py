"""`phasegate serve`: flags become settings, and what cannot start says why and exits 2."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from proxy.cli import USAGE, main
from proxy.config import Settings
from proxy.flaws import ConfigError
from proxy.office.outlet import Outlet


class Served:
    """Stands where the service would: keeps what it was given, and ends at once with code 7."""

    started: "list[Served]"

    def __init__(self, settings: Settings, reread: Callable[[], Settings], say: Callable[[str], None]) -> None:
        self.settings = settings
        self.reread = reread
        self.say = say
        self.started.append(self)

    async def run(self) -> int:
        self.say("served")
        return 7


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Served]:
    Served.started = []
    monkeypatch.setattr("proxy.cli.serve.Service", Served)
    monkeypatch.setattr("proxy.cli.serve.to_stderr", lambda level, as_json, clock: Outlet(sys.stderr, str))
    monkeypatch.setattr("proxy.cli.serve.calm", lambda: None)
    return Served.started


def serve(*arguments: str, **environ: str) -> Result:
    return CliRunner().invoke(main, ["serve", *arguments], env=environ)


def test_flags_win_over_environment_over_the_file(started: list[Served], tmp_path: Path) -> None:
    file = tmp_path / "phasegate.toml"
    file.write_text('listen = "127.0.0.1:1"\nadmin = "127.0.0.1:2"\nstore = "s.db"\nrecords = "r.jsonl"\n', "utf-8")
    result = serve(
        *("--config", str(file), "--upstream", "http://a:1", "--upstream", "http://b:2", "--listen", "127.0.0.1:10"),
        *("--quiet",),
        PHASEGATE_ADMIN="127.0.0.1:20",
        PHASEGATE_LISTEN="127.0.0.1:11",
    )
    assert result.exit_code == 7
    (service,) = started
    settings = service.settings
    assert [engine.url for engine in settings.upstream] == ["http://a:1", "http://b:2"]
    assert (settings.listen, settings.admin, settings.store, settings.records, settings.quiet) == (
        "127.0.0.1:10", "127.0.0.1:20", "s.db", "r.jsonl", True,
    )  # fmt: skip


def test_without_flags_every_setting_is_its_default(started: list[Served]) -> None:
    assert serve().exit_code == 7
    assert started[0].settings == Settings()


def test_settings_are_read_anew_with_the_same_flags(started: list[Served], tmp_path: Path) -> None:
    file = tmp_path / "phasegate.toml"
    file.write_text("", "utf-8")
    serve("--config", str(file), "--listen", "127.0.0.1:10")
    (service,) = started
    file.write_text('[[limit]]\nname = "r"\nmax_concurrency = 3\n', "utf-8")
    again = service.reread()
    assert (again.listen, again.limit[0].max_concurrency) == ("127.0.0.1:10", 3)
    file.write_text('[[limit]]\nname = "r"\nmax_concurrency = 0\n', "utf-8")
    with pytest.raises(ConfigError, match="max_concurrency"):
        service.reread()


def test_an_admin_listener_that_refuses_everybody_starts_with_a_warning(started: list[Served]) -> None:
    result = serve("--admin", "0.0.0.0:1")
    assert (result.exit_code, len(started)) == (7, 1)
    assert result.stderr == (
        "phasegate: warning: admin listens on 0.0.0.0:1 without admin_token: all but health checks will be refused\n"
        "served\n"
    )


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--workers", "2"), "only one"),
        (("--listen", "nonsense"), "listen: 'nonsense' is not HOST:PORT"),
        (("--upstream", "http://a:1/v1"), "has a path"),
        (("--config", "/nowhere.toml"), "/nowhere.toml: No such file"),
        (("--records", "/nope/x.jsonl"), "records: cannot write /nope/x.jsonl: there is no directory /nope"),
        (("--store", "/nope/x.db"), "store: cannot write /nope/x.db: there is no directory /nope"),
        (("--listen", "127.0.0.1:9", "--admin", "127.0.0.1:9"), "admin: '127.0.0.1:9' is the address of listen too"),
    ],
    ids=["workers", "address", "engine", "file", "records", "store", "same"],
)
def test_what_cannot_start_says_why(started: list[Served], arguments: tuple[str, ...], says: str) -> None:
    result = serve(*arguments)
    assert result.exit_code == USAGE
    assert says in result.stderr
    assert started == []


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ('[[upstream]]\nurl = "https://a:1"\nca_file = "/nowhere.pem"\n', "No such file"),
        (
            '[tokens]\nmodels = {m = "/nowhere.json"}\n',
            "tokens.models: cannot read /nowhere.json: No such file or directory (os error 2) (file",
        ),
        (
            '[prefixes]\nkey_file = "/nope/key"\n',
            "prefixes.key_file: cannot use /nope/key: there is no directory",
        ),
    ],
    ids=["ca_file", "tokenizer", "key_file"],
)
def test_a_file_that_the_settings_name_must_be_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str, says: str
) -> None:
    monkeypatch.setattr("proxy.cli.serve.to_stderr", lambda level, as_json, clock: Outlet(sys.stderr, str))
    file = tmp_path / "phasegate.toml"
    file.write_text(content, "utf-8")
    result = serve("--config", str(file))
    assert result.exit_code == USAGE
    assert says in result.stderr
