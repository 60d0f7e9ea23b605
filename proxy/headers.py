"""Header lists on their way through: what goes to the engine, and what comes back.

Pairs of bytes in, pairs of bytes out. Order, duplicates and bytes are kept; what differs is declared here and nowhere
else: hop-by-hop fields end at each hop (RFC 9110 7.6.1), `Host` is the engine's own authority, `Expect` is ours to
answer, and a request has one `x-request-id`. Forwarding fields (`x-forwarded-for`, ...) pass as they came; none is
added.
"""

import re
from collections.abc import Callable, Iterable, Sequence

Pair = tuple[bytes, bytes]

HOP_BY_HOP = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authentication-info",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    )
)
"""Fields that speak of one connection only; framing is made anew by whoever writes the next one."""

NOT_FOR_ENGINES = HOP_BY_HOP | {b"expect", b"http2-settings"}
"""`Expect` is answered by us, before the body is read; `HTTP2-Settings` belongs to an upgrade."""

KEYS = frozenset((b"authorization", b"x-api-key", b"api-key"))
"""Where clients put a key: OpenAI, Anthropic, Azure."""

REQUEST_ID = b"x-request-id"
SERVER_TIMING = b"server-timing"

_GOOD_ID = re.compile(rb"[\x21-\x7e]{1,128}")
# 128 characters: twice a W3C trace id with its parent, and short enough for a log line and an exemplar.


def stated_length(value: bytes) -> int:
    """What a `content-length` says (RFC 9110 8.6), zeros in front and all; -1 where it is no number. Python reads 4,300
    digits at most: what has over twenty is a number all the same, and more than anybody can send."""
    digits = value.strip().lstrip(b"0")
    return int(digits[:20] or b"0") if value.strip().isdigit() else -1


def request_id(headers: Iterable[Pair], make: Callable[[], str]) -> str:
    """The client's id where it is one field of 1 to 128 printable ASCII characters without space, else a made one."""
    ids = [value for name, value in headers if name == REQUEST_ID]
    if len(ids) == 1 and _GOOD_ID.fullmatch(ids[0]):
        return ids[0].decode("ascii")
    return make()


def to_engine(
    headers: Sequence[Pair],
    *,
    authority: bytes,
    request_id: str,
    identity: bool,
    key: str | None,
    keyless: bool,
) -> list[Pair]:
    """The request's headers as the engine gets them.

    `identity`: ask for an answer that is not compressed (a compressed stream has no event times).
    `key`: the engine's own key, in place of any the client sent. `keyless`: the client's key was for us; drop it.
    `content-length` passes: it is end-to-end, and whoever writes the body corrects it.
    """
    ours = {b"host": authority, REQUEST_ID: request_id.encode("ascii")}
    dropped = _besides(NOT_FOR_ENGINES, headers)
    if identity:
        ours[b"accept-encoding"] = b"identity"
    if key is not None:
        ours[b"authorization"] = b"Bearer " + key.encode()
    if keyless or key is not None:
        dropped |= KEYS
    return _replaced(headers, ours, dropped)


def to_client(
    headers: Sequence[Pair], *, request_id: str, resized: bool = False, also: Sequence[Pair] = ()
) -> list[Pair]:
    """The answer's headers as the client gets them.

    `resized`: the body will not have the length that the engine said. `also`: what a limited tenant or an opt-in adds.
    """
    names = {name.lower() for name, _ in headers}
    dropped = _besides(HOP_BY_HOP, headers)
    if resized or b"transfer-encoding" in names:  # RFC 9112 6.3: chunked wins over a length beside it
        dropped |= {b"content-length"}
    kept = [pair for pair in headers if pair[0].lower() not in dropped]
    if REQUEST_ID not in names:
        kept.append((REQUEST_ID, request_id.encode("ascii")))
    kept.extend(also)
    return kept


def _besides(dropped: frozenset[bytes], headers: Iterable[Pair]) -> frozenset[bytes]:
    """The fields that are dropped, and those that `Connection` names as its own."""
    named = [value for name, value in headers if name.lower() == b"connection"]
    return dropped.union(token.strip().lower() for token in b",".join(named).split(b",")) if named else dropped


def _replaced(headers: Iterable[Pair], ours: dict[bytes, bytes], dropped: frozenset[bytes]) -> list[Pair]:
    """Ours stands where the client's first one stood, else at the end; later ones of the same name go."""
    missing = dict(ours)
    kept = []
    for name, value in headers:
        if name in missing:
            kept.append((name, missing.pop(name)))
        elif name not in ours and name not in dropped:
            kept.append((name, value))
    kept.extend(missing.items())
    return kept
