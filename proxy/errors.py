"""Everything that can go wrong with an exchange, drawn once.

Each leaf knows whose fault it was (`outcome`), what the client is told (`status`, `code`, the message) and nothing of
how a dialect spells it: `wire.errors` renders any of them in the caller's own shape.

    ProxyError
    +- Refused                the request cannot be served as it is            4xx, 501
    |  +- BadRequest          malformed where we must read it                  400
    |  +- BodyTooLarge        over body_limit                                  413
    |  +- BodyTimeout         the client stopped in the middle of it           408
    |  +- BadKey              tenants are on and the key is missing or unknown 401
    |  +- Forbidden           a route that is closed to this caller            403
    |  +- UnknownModel        no engine serves it                              404
    |  +- PromptTooLong       over the window or a limit                       400
    |  +- OutputTooLong       asks for more output than a rule allows          400
    |  +- UpgradeRefused      WebSocket and other upgrades                     501
    +- Shed                   refused at the door: rate, budget, concurrency   429, 503
    |  +- TokensSpent         over a rate or a budget of tokens                429
    |  +- QueueTimeout        waited in our queue for too long                 503
    +- EngineFailed           the engine's fault
    |  +- EngineUnreachable   refused, unknown host, TLS                       502
    |  |  +- ConnectTimeout   no connection in time                            504
    |  +- EngineTimeout       no head, or not done, in time                    504
    |  +- EngineStalled       silent between two chunks                        abort
    |  +- EngineBroke         the framing broke off                            502 before the head, else abort
    +- ClientGone             the client left                                  nothing
    +- Draining               the proxy is going away                          503
    +- Fault                  our own bug                                      500
"""

from typing import ClassVar

from proxy.records import AdmissionVerdict, Outcome


class ProxyError(Exception):
    """Base: an exchange that ends by our word. `str()` is the message for the client: no key, no prompt text."""

    status: ClassVar[int] = 500
    outcome: ClassVar[Outcome] = Outcome.PROXY_ERROR
    type: ClassVar[str] = "server_error"
    code: ClassVar[str | None] = None
    param: ClassVar[str | None] = None
    verdict: AdmissionVerdict | None = None
    """What the door decided, where it was the door that refused."""
    tenant: str | None = None
    """Whose request it is, where it was refused before that was anybody's to know."""


class Refused(ProxyError):
    """The request cannot be served as it is; asking again unchanged will not help."""

    status = 400
    outcome = Outcome.REFUSED
    type = "invalid_request_error"


class BadRequest(Refused):
    """Malformed in a part that the proxy itself must read."""


class BodyTooLarge(Refused):
    """The body is over `body_limit`."""

    status = 413
    code = "request_too_large"


class BodyTimeout(Refused):
    """The client stopped sending its body and stayed."""

    status = 408
    code = "request_timeout"


class BadKey(Refused):
    """Tenants are on, and the key is missing or unknown."""

    status = 401
    code = "invalid_api_key"


class Forbidden(Refused):
    """This route is closed to this caller: the record says to whom."""

    status = 403
    code = "route_closed"

    def __init__(self, message: str, *, tenant: str | None = None) -> None:
        super().__init__(message)
        self.tenant = tenant


class UnknownModel(Refused):
    """No engine serves this model."""

    status = 404
    code = "model_not_found"
    param = "model"


class PromptTooLong(Refused):
    """The prompt is over the window or over a limit, by more than the count's error."""

    code = "context_length_exceeded"
    param = "messages"


class OutputTooLong(Refused):
    """More output is asked for than a rule allows."""

    code = "max_tokens_exceeded"
    param = "max_tokens"


class UpgradeRefused(Refused):
    """The proxy speaks plain HTTP only."""

    status = 501
    code = "upgrade_not_supported"


class Shed(ProxyError):
    """Refused at the door; asking again later can help.

    `retry_after_s`: seconds after which a place or a budget is free, true to the best of our knowledge.
    `status`: 429 for rates and budgets, 503 for a full queue; None: that of the class.
    """

    status = 429
    outcome = Outcome.SHED
    type = "requests"
    code = "rate_limit_exceeded"

    def __init__(
        self, message: str, *, reason: str, rule: str, retry_after_s: float | None, status: int | None = None
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.rule = rule
        self.retry_after_s = retry_after_s
        self.http_status = self.status if status is None else status


class TokensSpent(Shed):
    """Over a rate or a budget of tokens; OpenAI tells it from one of requests by the type."""

    type = "tokens"


class QueueTimeout(Shed):
    """Waited in our own queue for longer than the rule allows."""

    status = 503
    outcome = Outcome.QUEUE_TIMEOUT


class EngineFailed(ProxyError):
    """The engine did not answer as it should."""

    status = 502
    outcome = Outcome.ENGINE_UNREACHABLE
    code = "engine_failed"


class EngineUnreachable(EngineFailed):
    """No connection: refused, unknown host, TLS failure."""

    code = "engine_unreachable"


class ConnectTimeout(EngineUnreachable):
    """No connection in time."""

    status = 504


class EngineTimeout(EngineFailed):
    """No response head within the first-byte limit, or no end within the total limit."""

    status = 504
    outcome = Outcome.ENGINE_TIMEOUT
    code = "engine_timeout"


class EngineStalled(EngineFailed):
    """Silent between two chunks for longer than the idle limit."""

    status = 504
    outcome = Outcome.ENGINE_STALLED
    code = "engine_stalled"


class EngineBroke(EngineFailed):
    """The connection broke, or the framing is no HTTP."""

    outcome = Outcome.TRUNCATED
    code = "engine_broke_off"


class ClientGone(ProxyError):
    """The client left; nobody is there to be told."""

    status = 499
    outcome = Outcome.CLIENT_GONE


class Draining(ProxyError):
    """The proxy is shutting down and the drain limit is reached, or it takes no new work."""

    status = 503
    code = "draining"


class Fault(ProxyError):
    """Our own bug. The message is always the same: details go to the log."""
