"""How the project logs: to stderr, in one form, configured once by whoever starts a process.

Nobody waits for the log (`outlet`), and nobody can fill it (`sparing`). No prompt, no key, no body is ever given to a
logger; of what other libraries log, the text of exceptions is left out, for it may quote one.
"""

import asyncio
import json
import logging
import sys
from collections.abc import Callable
from traceback import extract_tb
from types import TracebackType
from typing import Any

import structlog

from proxy.clock import Clock
from proxy.office.outlet import Outlet
from proxy.office.sparing import Sparing
from proxy.plain import printable

FLUSH_S = 0.5
"""For the last lines, when a process ends: whoever reads them has read them in a hundredth of it."""


def to_stderr(level: str, *, as_json: bool, clock: Clock) -> Outlet:
    """Logs to this process' stderr from now on; the outlet is to be closed at the end."""
    outlet = Outlet.of(sys.stderr, _missing_json if as_json else _missing)
    colours = sys.stderr is not None and sys.stderr.isatty()
    configure(level, as_json=as_json, put=outlet.put, clock=clock, colours=colours)
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, Foreign)]:
        root.removeHandler(handler)
    root.addHandler(Foreign())
    return outlet


def died(task: asyncio.Task[Any]) -> None:
    """Nothing that runs beside other things may fail: if it does, it is a bug, and the log says so at once. A callback
    of the task."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        places = _fault((type(error), error, error.__traceback__))
        structlog.get_logger("phasegate").error("task_died", task=task.get_name(), **places)


def configure(level: str, *, as_json: bool, put: Callable[[str], None], clock: Clock, colours: bool = False) -> None:
    """Sets the least level (`debug`, `info`, `warning`, `error`), the form of log lines, and who takes them."""
    form = structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=colours)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            Sparing(clock),
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            _fit_to_show,
            form,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=lambda *names: _Lines(put),
    )


class _Lines:
    """What structlog takes for a logger: a line of any level goes the same way."""

    def __init__(self, put: Callable[[str], None]) -> None:
        self.debug = self.info = self.warning = self.error = self.critical = self.msg = put


class Foreign(logging.Handler):
    """What asyncio, uvicorn and other libraries log, in our form. The first line of it: the next ones show objects."""

    def emit(self, record: logging.LogRecord) -> None:
        """Passes one record on."""
        said = record.getMessage().partition("\n")[0]
        level = max(logging.DEBUG, min(record.levelno // 10 * 10, logging.CRITICAL))
        structlog.get_logger().log(level, said, logger=record.name, **_fault(record.exc_info))


def _fault(raised: object) -> dict[str, str]:
    """An exception by its name and its places."""
    match raised:
        case (type() as kind, _, TracebackType() as trace):
            places = [f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in reversed(extract_tb(trace))]
            return {"error": kind.__name__, "at": " < ".join(places)}
    return {}


def _fit_to_show(logger: object, method: str, said: structlog.typing.EventDict) -> structlog.typing.EventDict:
    return {key: printable(value) if isinstance(value, str) else value for key, value in said.items()}


def _missing(lines: int) -> str:
    return f"phasegate: {lines:,} log lines are missing here: they were not read in time"


def _missing_json(lines: int) -> str:
    return json.dumps({"event": "log_lines_missing", "level": "warning", "lines": lines})
