"""What the proxy changes on the way. The table is whole: nothing else differs between what the client sent and what the
engine gets, or between what the engine sent and what the client gets.

`phasegate config print` shows it, README has it, and the differential test reads it: a header that is not named here
must arrive as it was sent.
"""

from collections.abc import Callable
from typing import NamedTuple

from proxy.config import Settings
from proxy.headers import HOP_BY_HOP, KEYS, NOT_FOR_ENGINES, REQUEST_ID, SERVER_TIMING


def _always(settings: Settings) -> bool:
    return True


def _asks_usage(settings: Settings) -> bool:
    return settings.ask_usage


def _spells(settings: Settings) -> bool:
    return settings.prefixes.asks_ids


def _asks_meta(settings: Settings) -> bool:
    return settings.ask_meta_info


def _times(settings: Settings) -> bool:
    return settings.server_timing


def _caps(settings: Settings) -> bool:
    return any(limit.cap_output and limit.mode == "enforce" for limit in settings.limit)


def _has_key(settings: Settings) -> bool:
    return any(engine.api_key for engine in settings.upstream) or bool(settings.tenants.keys_file)


def _limits_rates(settings: Settings) -> bool:
    return any(limit.requests_per_minute or limit.tokens_per_minute for limit in settings.limit)


def _is_fleet(settings: Settings) -> bool:
    return len(settings.upstream) != 1


class Change(NamedTuple):
    """One change, and when it is made."""

    what: str
    when: Callable[[Settings], bool] = _always
    request: frozenset[bytes] = frozenset()
    """Headers of the request that are the proxy's to write or to drop, in lower case."""
    inference: frozenset[bytes] = frozenset()
    """The same, on inference routes alone."""
    answer: frozenset[bytes] = frozenset()
    """Headers of the answer."""


CHANGES: dict[str, Change] = {
    "usage": Change(
        "stream_options.include_usage is spliced in where usage comes on demand, and the event not asked for taken out",
        _asks_usage,
    ),
    "token_ids": Change(
        "return_token_ids is spliced in for vLLM's chats and completions, and the ids not asked for are cut out",
        _spells,
    ),
    "meta_info": Change(
        "return_meta_info is spliced in for SGLang's chats that do not stream, and the block not asked for cut out",
        _asks_meta,
    ),
    "output_cap": Change("the number of output tokens is spliced, where a limit says cap_output", _caps),
    "encoding": Change("accept-encoding: identity on inference routes", inference=frozenset({b"accept-encoding"})),
    "hop": Change(
        "host is the engine's; hop-by-hop fields, trailers, 1xx and reason phrases end; framing is made anew; expect "
        "is answered here; names of request headers are lower case",
        request=NOT_FOR_ENGINES | {b"host", b"content-length"},
        answer=HOP_BY_HOP | {b"content-length"},
    ),
    "request_id": Change(
        "x-request-id both ways: the client's where it is good, else a made one",
        request=frozenset({REQUEST_ID}),
        answer=frozenset({REQUEST_ID}),
    ),
    "key": Change(
        "the engine's api_key in place of the client's; a tenant's key is never passed on",
        _has_key,
        request=KEYS,
    ),
    "quota": Change(
        "x-ratelimit-* on answers to a client whose rate is limited, as they stand at its head, without its output",
        _limits_rates,
        answer=frozenset(
            b"x-ratelimit-%b-%b" % (part, unit)
            for part in (b"limit", b"remaining", b"reset")
            for unit in (b"requests", b"tokens")
        ),
    ),
    "timing": Change(
        "server-timing on answers that are no streams, and one comment before the end of event streams",
        _times,
        answer=frozenset({SERVER_TIMING}),
    ),
    "lists": Change("model lists of several engines are told as one", _is_fleet),
}
"""Every change by name."""


def request_headers(settings: Settings, *, inference: bool) -> frozenset[bytes]:
    """Headers of a request that may differ under these settings."""
    made = [change for change in CHANGES.values() if change.when(settings)]
    return frozenset().union(*(change.request | (change.inference if inference else frozenset()) for change in made))


def answer_headers(settings: Settings) -> frozenset[bytes]:
    """Headers of an answer that may differ under these settings."""
    return frozenset().union(*(change.answer for change in CHANGES.values() if change.when(settings)))
