"""Takes members out of an answer's JSON again; all other bytes stay as they came.

A decoder says which bytes a member's value is, and those bytes are cut: nothing is written anew. It is done only where
it is sure: `"name":` must stand in the text exactly where the decoder saw that member, at the top and in choices. That
can be nothing but a member's name, for inside a string its quotes would be escaped.
"""

import msgspec

from proxy.wire.decoding import LONG, OBJECTS
from proxy.wire.splicing import skip

NAMES = ("token_ids", "prompt_token_ids", "meta_info")
"""Members that can be cut."""

_ABSENT = msgspec.Raw()


class Choice(msgspec.Struct, gc=False):
    """Of a choice, the values that can be cut and those that tell what it says otherwise."""

    delta: msgspec.Raw = _ABSENT
    finish_reason: msgspec.Raw = _ABSENT
    token_ids: msgspec.Raw = _ABSENT
    prompt_token_ids: msgspec.Raw = _ABSENT
    meta_info: msgspec.Raw = _ABSENT

    @property
    def adds(self) -> bool:
        """It has more than token ids: a delta with something in it, or an end."""
        if bytes(self.delta) != b"{}" or bytes(self.finish_reason) not in _NOTHING:
            return True
        return bytes(self.token_ids) in _NOTHING


class Body(msgspec.Struct, gc=False):
    """Of an answer, or of one event, the values that can be cut."""

    choices: list[Choice] = []
    prompt_token_ids: msgspec.Raw = _ABSENT


MOST = 256
"""Members of one name that are looked at; nobody asks for as many choices."""

_NOTHING = frozenset((b"", b"null"))
_SPELT = {name: b'"%b":' % name.encode() for name in NAMES}
_read = msgspec.json.Decoder(Body).decode


def read(text: bytes) -> Body | None:
    """What the text has to cut; None where it cannot be read, or would take milliseconds."""
    if len(text) > LONG and text.count(b"{") > OBJECTS:  # each may be a choice; lists are passed over unread
        return None
    try:
        return _read(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def cut(text: bytes, body: Body, names: tuple[str, ...], *, whole: bool) -> bytes:
    """The text with these members null, or gone altogether (`whole`); as it is where that cannot be done safely."""
    places: list[tuple[int, int, bytes]] = []
    for name in names:
        values = [value for value in [bytes(getattr(choice, name)) for choice in body.choices] if value]
        top = bytes(body.prompt_token_ids) if name == "prompt_token_ids" else b""
        found = _found(text, _SPELT[name], values, top)
        if found is None:
            return text
        places += [_gone(text, *place) if whole else (place[1], place[2], b"null") for place in found]
    short = _edited(text, sorted(places)) if places else text
    return text if whole and read(short) is None else short


def _found(text: bytes, spelt: bytes, values: list[bytes], top: bytes) -> list[tuple[int, int, int]] | None:
    """Where each member that is not null begins, where its value begins, and where it ends; None where the text does
    not have exactly these values in the order of the choices, the one at the top before or behind them."""
    count = text.count(spelt)
    if count != len(values) + bool(top) or count > MOST:
        return None
    starts, at = [], -1
    for _ in range(count):
        at = text.find(spelt, at + 1)
        starts.append((at, skip(text, at + len(spelt))))
    for order in ([top, *values], [*values, top]) if top else (values,):
        if all(text.startswith(value, start) for value, (_, start) in zip(order, starts, strict=True)):
            pairs = zip(order, starts, strict=True)
            return [(at, start, start + len(value)) for value, (at, start) in pairs if value != b"null"]
    return None


def _gone(text: bytes, at: int, start: int, end: int) -> tuple[int, int, bytes]:
    """What goes with a member that goes: the comma before it, else the one behind."""
    before = at if text[at - 1 : at] in b",{" else len(text[:at].rstrip(b" \t\r\n"))
    if text[before - 1 : before] == b",":
        return before - 1, end, b""
    behind = skip(text, end)
    return at, behind + 1 if text[behind : behind + 1] == b"," else end, b""


def _edited(text: bytes, places: list[tuple[int, int, bytes]]) -> bytes:
    pieces, done = [], 0
    for start, end, instead in places:
        pieces += [text[done:start], instead]
        done = end
    return b"".join([*pieces, text[done:]])
