import json

import pytest
import structlog

from proxy.office.logs import configure


@pytest.fixture(autouse=True)
def _restored() -> object:
    yield
    structlog.reset_defaults()


def test_json_lines_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info", as_json=True)
    structlog.get_logger().info("started", port=1)
    out, err = capsys.readouterr()
    said = json.loads(err)
    assert (out, said["event"], said["port"], said["level"]) == ("", "started", 1, "info")
    assert said["timestamp"].endswith("Z")


def test_what_is_below_the_level_is_not_said(capsys: pytest.CaptureFixture[str]) -> None:
    configure("warning", as_json=False)
    structlog.get_logger().info("quiet")
    structlog.get_logger().warning("loud")
    err = capsys.readouterr().err
    assert "loud" in err
    assert "quiet" not in err
