"""A port that somebody has, and one that nobody has."""

import socket

from click.testing import CliRunner

from proxy.cli.sim import sim
from tests.support.loopback import free_port


def test_a_port_that_is_taken_or_a_file_that_cannot_be_written_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = CliRunner().invoke(sim, ["--port", port])
        assert (result.exit_code, result.stderr) == (
            2, f"phasegate: cannot listen on 127.0.0.1:{port}: Address already in use; --port gives another\n"
        )  # fmt: skip
    result = CliRunner().invoke(sim, ["--port", str(free_port()), "--truth", "/nowhere/truth"])
    assert (result.exit_code, result.stderr) == (
        2, "phasegate: cannot write /nowhere/truth: No such file or directory\n"
    )  # fmt: skip
