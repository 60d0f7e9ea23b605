"""What an engine tells only when it is asked, and the client did not ask: it is asked for, and cut out of the answer.

The asking is a splice of one member; where the client said that member itself, whatever it said stands.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from proxy.records import RequestFacts
from proxy.wire import ids, meta, usage
from proxy.wire.edits import Edit
from proxy.wire.splicing import find, splice


class Asking(NamedTuple):
    """One thing to ask for."""

    path: tuple[str, ...]
    """The member that is set to true."""
    asks: Callable[[str, RequestFacts], bool]
    """(engine's kind, request) -> whether it is asked for, if the setting is on."""
    edit: Callable[[], Edit]
    """Takes what came for it out of one answer."""
    whole: bool = True
    """An answer that is no stream holds it too."""
    unless: tuple[str, ...] = ()
    """Members of the body in whose presence the asking would change more."""


ASKINGS = {
    "usage": Asking(("stream_options", "include_usage"), usage.asks, usage.UsageEdit, whole=False),
    "token_ids": Asking(("return_token_ids",), ids.asks, ids.IdsEdit, unless=ids.UNLESS),
    "meta_info": Asking(("return_meta_info",), meta.asks, meta.MetaEdit),
}
"""By name; a new one is one file, and one line here."""


_UNSAID = (None, b"null", b"false")


def wanted(names: Iterable[str], kind: str, facts: RequestFacts) -> tuple[str, ...]:
    """Which of these an engine of this kind is asked for."""
    return tuple([name for name in names if ASKINGS[name].asks(kind, facts)])


def ask(body: bytes, names: Iterable[str]) -> tuple[bytes, tuple[str, ...]]:
    """The body that asks, and what it asks for: that of which the client says nothing, and that can be spliced."""
    asked: tuple[str, ...] = ()
    for name in names:
        path, unless = ASKINGS[name].path, ASKINGS[name].unless
        if find(body, path) is not None:
            continue
        if unless and any(find(body, (member,)) not in _UNSAID for member in unless):
            continue
        spliced = splice(body, path, b"true")
        if spliced is not None:
            body, asked = spliced, (*asked, name)
    return body, asked
