"""JSON from strangers: decoded fast where it is as expected, and as far as possible where it is not."""

import codecs
import json
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from proxy.crowds import crowd

S = TypeVar("S", bound=msgspec.Struct)

REFUSED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


PIECE = 1024 * 1024
"""Bytes decoded at a time: mending what is no UTF-8 takes 5 ns a byte, and the interpreter serves nobody else in it."""

LONG, OBJECTS = 32 * 1024, 8_000
"""A longer text with more objects and lists is not read: each takes up to 0.5 us. Answers have some dozens; the
log-probabilities of 380 tokens, with 20 others each, have as many."""
PLAIN, ODD = 32, 8
"""Plain values that take as long as an object: 131,072 token ids of a prompt are read, a million are not. Where the
first decoder refused a text, strings of one letter count too."""
MOST = 256
"""Objects of one list that are looked at, each for up to 10 us: choices, results, calls. Requests ask for few; of a
batch of more the usage, which stands beside them, is all that counts."""


class Unreadable(ValueError):
    """A frame that holds no JSON."""


DONE = b"[DONE]"
"""The end of a stream, in OpenAI's way."""

_BLANK = frozenset({b"", b"null"})


def blank(data: bytes) -> bool:
    """An event that says nothing and is no error: empty, white space, or llama.cpp's `null`."""
    return data.strip() in _BLANK


def crowded(data: bytes, plain: int = PLAIN) -> bool:
    """Reading this would take more than some milliseconds: it is long, and of very many objects, lists and values."""
    return len(data) > LONG and crowd(data, plain) > OBJECTS


def loads(data: bytes) -> Any:
    """The JSON value in these bytes; raises `Unreadable`.

    NaN and Infinity, bytes that are no UTF-8, lone surrogates, control characters and numbers of any length are let
    pass, for engines write them and other decoders read them. Strings come out as valid Unicode.
    """
    try:
        return msgspec.json.decode(data)
    except REFUSED:
        pass
    try:
        text = _mended(data)
        value = json.loads(text, strict=False, parse_int=_whole)
        if "\\u" not in text:  # nothing else can spell a lone surrogate
            return value
        return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise Unreadable(type(error).__name__) from error


def loads_short(data: bytes, plain: int = PLAIN) -> Any:
    """The same, of an engine; raises `Unreadable` also where the text is `crowded`."""
    if crowded(data, plain):
        raise Unreadable("crowded")
    return loads(data)


def loads_pairs(data: bytes, each: Callable[[list[tuple[str, Any]]], Any]) -> None:
    """Goes through the same JSON and shows `each` object as it is written, the inner ones first: as name and value, of
    which only the name is to be looked at. Raises `Unreadable`, and whatever `each` raises."""
    try:
        json.loads(_mended(data), strict=False, parse_int=float, object_pairs_hook=each)
    except (ValueError, RecursionError) as error:
        raise Unreadable(type(error).__name__) from error


def _whole(digits: str) -> int | float:
    """A whole number; one of more digits than the interpreter takes is as good as infinite."""
    try:
        return int(digits)
    except ValueError:
        return float(digits)


def _mended(data: bytes) -> str:
    """The text, without its byte order mark, with a replacement character for whatever is no UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
    pieces = [decoder.decode(data[at : at + PIECE]) for at in range(0, len(data), PIECE)]
    return "".join(pieces) + decoder.decode(b"", True)


class Shape(Generic[S]):
    """Reads JSON objects into one Struct; members of an odd type are left out rather than refused.

    Every field of the Struct has a default.
    """

    __slots__ = ("_decode", "_decode_list", "_fields", "_struct")

    def __init__(self, struct: type[S]) -> None:
        self._struct = struct
        self._decode = msgspec.json.Decoder(struct).decode
        self._decode_list = msgspec.json.Decoder(list[struct]).decode  # type: ignore[valid-type]
        self._fields = [(field.name, _fit_for(field.type)) for field in msgspec.structs.fields(struct)]

    def read(self, data: bytes) -> S:
        """The object in these bytes; empty where they hold another JSON value. Raises `Unreadable`, also where they
        are `crowded`."""
        if len(data) > LONG and crowded(data):
            raise Unreadable("crowded")
        try:
            return self._decode(data)
        except REFUSED:
            return self.of(loads_short(data, ODD))

    def several(self, data: bytes) -> list[S]:
        """The same of a list in these bytes: its objects, `MOST` at most."""
        if crowded(data):
            raise Unreadable("crowded")
        try:
            return self._decode_list(data)[:MOST]
        except REFUSED:
            found = loads_short(data, ODD)
        return [self.of(each) for each in found[:MOST] if isinstance(each, dict)] if isinstance(found, list) else []

    def of(self, value: object) -> S:
        """As much of a decoded value as fits."""
        if not isinstance(value, dict):
            return self._struct()
        fitted = ((name, fit(value[name])) for name, fit in self._fields if name in value)
        return self._struct(**{name: each for name, each in fitted if each is not msgspec.UNSET})


def _fit_for(kind: Any) -> Callable[[object], Any]:
    """How a value becomes one of this type: a Struct or a list of them is shaped in turn, others fit or are UNSET."""
    info = msgspec.inspect.type_info(kind)
    for option in info.types if isinstance(info, msgspec.inspect.UnionType) else (info,):
        if isinstance(option, msgspec.inspect.StructType):
            return _one(Shape(option.cls))
        if isinstance(option, msgspec.inspect.ListType) and isinstance(option.item_type, msgspec.inspect.StructType):
            return _many(Shape(option.item_type.cls))
    return _scalar(kind)


def _one(shape: "Shape[Any]") -> Callable[[object], Any]:
    return lambda value: shape.of(value) if isinstance(value, dict) else msgspec.UNSET


def _many(shape: "Shape[Any]") -> Callable[[object], Any]:
    def fit(value: object) -> Any:
        return (
            [shape.of(each) for each in value[:MOST] if isinstance(each, dict)]
            if isinstance(value, list)
            else msgspec.UNSET
        )

    return fit


def _scalar(kind: Any) -> Callable[[object], Any]:
    def fit(value: object) -> Any:
        try:
            return msgspec.convert(value, kind)
        except (msgspec.ValidationError, RecursionError):
            return msgspec.UNSET

    return fit
