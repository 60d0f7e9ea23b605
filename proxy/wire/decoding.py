"""JSON from strangers: decoded fast where it is as expected, and as far as possible where it is not."""

import json
from typing import Any, Generic, TypeVar

import msgspec

S = TypeVar("S", bound=msgspec.Struct)

_REFUSED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class Unreadable(ValueError):
    """A frame that holds no JSON."""


DONE = b"[DONE]"
"""The end of a stream, in OpenAI's way."""

_BLANK = frozenset({b"", b"null"})


def blank(data: bytes) -> bool:
    """An event that says nothing and is no error: empty, white space, or llama.cpp's `null`."""
    return data.strip() in _BLANK


def loads(data: bytes) -> Any:
    """The JSON value in these bytes; raises `Unreadable`.

    NaN and Infinity, bytes that are no UTF-8, lone surrogates and control characters are let pass, for engines write
    them and other decoders read them. Strings come out as valid Unicode.
    """
    try:
        return msgspec.json.decode(data)
    except _REFUSED:
        pass
    try:
        value = json.loads(data.decode("utf-8-sig", "replace"), strict=False)
        return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise Unreadable(type(error).__name__) from error


class Shape(Generic[S]):
    """Reads JSON objects into one Struct; members of an odd type are left out rather than refused."""

    __slots__ = ("_decode", "_struct")

    def __init__(self, struct: type[S]) -> None:
        self._struct = struct
        self._decode = msgspec.json.Decoder(struct).decode

    def read(self, data: bytes) -> S:
        """The object in these bytes; empty where they hold another JSON value. Raises `Unreadable`."""
        try:
            return self._decode(data)
        except _REFUSED:
            return salvage(self._struct, loads(data))

    def of(self, value: object) -> S:
        """The same from a value that is decoded already."""
        return salvage(self._struct, value)


def salvage(struct: type[S], value: object) -> S:
    """As much of `value` as fits `struct`; every field of the Struct has a default."""
    found: dict[str, Any] = {}
    if isinstance(value, dict):
        for field in msgspec.structs.fields(struct):
            if field.encode_name in value:
                kept = _fit(field.type, value[field.encode_name])
                if kept is not msgspec.UNSET:
                    found[field.name] = kept
    return struct(**found)


def _fit(kind: Any, value: object) -> Any:
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError):
        return _repaired(msgspec.inspect.type_info(kind), value)


def _repaired(kind: msgspec.inspect.Type, value: object) -> Any:
    """A struct with its odd members left out, a list of such structs, or UNSET."""
    options = kind.types if isinstance(kind, msgspec.inspect.UnionType) else (kind,)
    for option in options:
        if isinstance(option, msgspec.inspect.StructType) and isinstance(value, dict):
            return salvage(option.cls, value)
        if isinstance(option, msgspec.inspect.ListType) and isinstance(value, list):
            item = option.item_type
            if isinstance(item, msgspec.inspect.StructType):
                return [salvage(item.cls, each) for each in value if isinstance(each, dict)]
    return msgspec.UNSET
