import asyncio
import json
import logging
import sys
from collections.abc import Iterator

import pytest
import structlog

from proxy.office.logs import FLUSH_S, Foreign, configure, died, to_stderr
from proxy.office.sparing import BURST
from tests.support.clock import ManualClock


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    yield
    structlog.reset_defaults()
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, Foreign)]:
        root.removeHandler(handler)


def said(level: str = "info", *, as_json: bool = True) -> list[str]:
    """Lines of a log that is configured from now on."""
    lines: list[str] = []
    configure(level, as_json=as_json, put=lines.append, clock=ManualClock())
    return lines


def test_json_lines_go_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    log = to_stderr("info", as_json=True, clock=ManualClock())
    structlog.get_logger().info("started", port=1)
    log.close(FLUSH_S)
    out, err = capfd.readouterr()
    line = json.loads(err)
    assert (out, line["event"], line["port"], line["level"]) == ("", "started", 1, "info")
    assert line["timestamp"].endswith("Z")


@pytest.mark.parametrize("as_json", [True, False])
def test_lines_that_were_not_written_are_said_in_the_log_s_own_form(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    log = to_stderr("info", as_json=as_json, clock=ManualClock())
    monkeypatch.setattr(log, "_limit", 0)
    structlog.get_logger().info("started")
    log.close(FLUSH_S)
    err = capfd.readouterr().err
    if as_json:
        assert json.loads(err) == {"event": "log_lines_missing", "level": "warning", "lines": 1}
    else:
        assert err == "phasegate: 1 log lines are missing here: they were not read in time\n"


def test_a_process_without_stderr_logs_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    log = to_stderr("info", as_json=False, clock=ManualClock())
    structlog.get_logger().info("started")
    log.close(FLUSH_S)


def test_what_is_below_the_level_is_not_said() -> None:
    lines = said("warning", as_json=False)
    structlog.get_logger().info("quiet")
    structlog.get_logger().warning("loud")
    assert len(lines) == 1
    assert "loud" in lines[0]


@pytest.mark.parametrize("as_json", [True, False])
def test_a_line_is_one_line_and_steers_no_terminal(as_json: bool) -> None:
    lines = said(as_json=as_json)
    structlog.get_logger().error("e\x1b[2J", path="/tmp/a\nforged \x9b31m\x1b]0;x\x07")
    (line,) = lines
    assert line.isprintable()
    assert "forged" in line


def test_a_task_that_fails_is_said_to_have_by_what_and_where_and_nothing_else() -> None:
    async def bug() -> None:
        raise ValueError("a prompt")

    async def main() -> None:
        tasks = [asyncio.create_task(work, name="it") for work in (bug(), asyncio.sleep(0), asyncio.sleep(60))]
        for task in tasks:
            task.add_done_callback(died)
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        tasks[2].cancel()
        await asyncio.wait(tasks)

    lines = said()
    asyncio.run(main())
    (line,) = map(json.loads, lines)
    assert (line["event"], line["task"], line["error"]) == ("task_died", "it", "ValueError")
    assert line["at"].startswith("test_logs.py:")
    assert "a prompt" not in lines[0]


def test_nobody_can_fill_the_log() -> None:
    lines = said()
    for number in range(1000):
        structlog.get_logger().error("proxy_fault", request=str(number))
    assert len(lines) == BURST


@pytest.mark.usefixtures("capfd")
def test_what_other_libraries_log_comes_in_our_form_without_an_exception_s_text() -> None:
    to_stderr("info", as_json=True, clock=ManualClock()).close(0)
    to_stderr("info", as_json=True, clock=ManualClock()).close(0)
    assert sum(isinstance(handler, Foreign) for handler in logging.getLogger().handlers) == 1
    lines = said()
    try:
        raise ValueError("a prompt")
    except ValueError:
        logging.getLogger("asyncio").error("Task exception was never retrieved\nfuture: a prompt", exc_info=True)
    (line,) = map(json.loads, lines)
    assert (line["event"], line["logger"], line["error"]) == (
        "Task exception was never retrieved", "asyncio", "ValueError",
    )  # fmt: skip
    assert line["at"].startswith("test_logs.py:")
    assert "a prompt" not in lines[0]


@pytest.mark.usefixtures("capfd")
@pytest.mark.parametrize(("number", "level"), [(35, "warning"), (41, "error"), (99, "critical")])
def test_a_level_that_is_none_of_ours_is_the_next_lower(number: int, level: str) -> None:
    to_stderr("debug", as_json=True, clock=ManualClock()).close(0)
    lines = said("debug")
    logging.getLogger("elsewhere").log(number, "odd")
    assert json.loads(lines[0])["level"] == level
