"""Our own errors, rendered in the shape of the dialect in which the client asked."""

import json
import math

from proxy.errors import ProxyError, Shed
from proxy.wire.dialects import dialect_of


def render(dialect: str, error: ProxyError) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Status, headers and body of an error of ours, in the caller's own shape."""
    status = status_of(error)
    shape = dialect_of(dialect).render_error
    body = json.dumps(shape(error, status), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    return status, headers + _retry(error), body


def status_of(error: ProxyError) -> int:
    """The HTTP status of an error of ours."""
    return error.http_status if isinstance(error, Shed) else error.status


def _retry(error: ProxyError) -> list[tuple[bytes, bytes]]:
    """When to come back. Whole seconds are rounded up, for a client that comes a moment early is refused again;
    clients that know `retry-after-ms` (openai-python reads it first) get the exact time."""
    if not isinstance(error, Shed) or error.retry_after_s is None or not math.isfinite(error.retry_after_s):
        return []
    wait = max(error.retry_after_s, 0.001)
    return [(b"retry-after", b"%d" % math.ceil(wait)), (b"retry-after-ms", b"%d" % math.ceil(wait * 1000))]
