"""How the project logs: to stderr, in one form, configured once by whoever starts a process.

No prompt, no key, no body is ever given to a logger; nothing here has to take one out.
"""

import logging
import sys

import structlog


def configure(level: str, *, as_json: bool) -> None:
    """Sets the least level (`debug`, `info`, `warning`, `error`) and the form of log lines."""
    form = structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            form,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
    )
