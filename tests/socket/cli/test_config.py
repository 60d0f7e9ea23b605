"""Settings are checked while the proxy runs that has them."""

import socket
from pathlib import Path

from click.testing import CliRunner, Result

from proxy.cli import main


def run(*arguments: str, **environ: str) -> Result:
    return CliRunner().invoke(main, ["config", *arguments], env=environ)


def test_an_address_in_use_may_be_the_running_proxy_s(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = run("check", PHASEGATE_LISTEN=f"127.0.0.1:{taken.getsockname()[1]}")
    assert (result.exit_code, result.output) == (0, "ok\n")
