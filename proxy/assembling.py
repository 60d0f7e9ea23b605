"""A tree of plain values becomes settings: what cannot stand in it is left out and told, all of it; the rest stands.

What is left out has its default, so that everything else can be judged too.
"""

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeGuard, TypeVar, get_args, get_origin

import msgspec

from proxy.config import Section, Settings
from proxy.flaws import Flaw, Unfit
from proxy.grammar import split_address

PLAIN = {
    "int": "a whole number", "float": "a number", "str": "text", "bool": "true or false", "null": "nothing",
    "array": "a list", "object": "a table", "date": "a date", "time": "a time", "datetime": "a moment",
}  # fmt: skip
"""Types, as msgspec names them and as people do."""

NEAR = 0.65
"""Likeness of two names, by difflib's measure, from which one may be a slip for the other; `idel_s` for `idle_s` has
0.83."""

S = TypeVar("S", bound=Section)


def assemble(tree: Mapping[str, Any]) -> tuple[Settings, list[Flaw]]:
    """The settings that can stand, and what is wrong with each of the others."""
    flaws: list[Flaw] = []
    return _section(Settings, tree, "", "", flaws) or Settings(), flaws


def clashes(settings: Settings) -> Iterator[Flaw]:
    """Values that cannot stand beside one another."""
    if split_address(settings.listen) == (admin := split_address(settings.admin)) and admin[1]:  # port 0: any free one
        yield Flaw("admin", f"{settings.admin!r} is the address of listen too; give each its own", rests_on=("listen",))
    for label in _repeated(engine.label for engine in settings.upstream):
        yield Flaw("upstream", f"two engines are named {label!r}; give each a name of its own")
    for name in _repeated(limit.name for limit in settings.limit):
        yield Flaw("limit", f"two limits are named {name!r}; give each a name of its own")


def schema(section: type[Section], path: str = "") -> Iterator[tuple[str, Any]]:
    """Every dotted key and its type; a list of tables is one key."""
    for field in msgspec.structs.fields(section):
        if _is_section(field.type):
            yield from schema(field.type, f"{path}{field.name}.")
        else:
            yield f"{path}{field.name}", field.type


def nearest(name: str, known: Iterable[str], prefix: str = "") -> str:
    """What may have been meant, as the end of a sentence: a like name, or the same in a table; empty: nothing near."""
    names = [*known]
    ends = (f".{name}", f"_{name}")
    close = difflib.get_close_matches(name, names, 1, NEAR) or [one for one in names if one.endswith(ends)]
    return f"; did you mean {prefix}{close[0]}?" if close else ""


def _section(kind: type[S], tree: Mapping[str, Any], path: str, at: str, flaws: list[Flaw]) -> S | None:
    """None where a value is missing that it must have."""
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    for key in tree:
        if key not in fields:
            meant = nearest(path + key, _tables() if isinstance(tree[key], Mapping | list) else _names(Settings))
            flaws.append(Flaw(path + key, f"unknown setting{meant}", at))
    values = {}
    for key, field in fields.items():
        if key in tree:
            value = _value(field.type, tree[key], path + key, at, flaws)
            if value is not None:
                values[key] = value
        elif field.required:
            flaws.append(Flaw(path + key, "is missing", at))
    needed = {key for key, field in fields.items() if field.required}
    return _built(kind, values, needed, path, at, flaws)


def _built(kind: type[S], values: dict[str, Any], needed: set[str], path: str, at: str, flaws: list[Flaw]) -> S | None:
    while needed <= values.keys():
        try:
            return kind(**values)
        except Unfit as error:
            first = {flaw.key: flaw for flaw in reversed(error.flaws)}  # of those of one value
            for key, flaw in first.items():
                del values[key]
                flaws.append(flaw._replace(key=path + key, at=at))
    return None


def _value(kind: Any, given: Any, path: str, at: str, flaws: list[Flaw]) -> Any:
    """None where it cannot stand, or is nothing."""
    item = _item(kind)
    try:
        if _is_section(kind):
            return _section(kind, msgspec.convert(given, dict[str, Any]), f"{path}.", at, flaws)
        if _is_section(item):
            tables = enumerate(msgspec.convert(given, list[dict[str, Any]]), 1)
            made = (_section(item, table, f"{path}.", _at(path, number, table), flaws) for number, table in tables)
            return tuple(one for one in made if one is not None)
        if get_origin(kind) is dict:
            words = msgspec.convert(given, dict[str, Any]).items()
            named = {word: _value(get_args(kind)[1], one, f"{path}.{word}", at, flaws) for word, one in words}
            return {word: one for word, one in named.items() if one is not None}
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        spelt = f"; each begins with [[{path}]]" if _is_section(item) else ""
        flaws.append(Flaw(path, _wrong(str(error), kind) + spelt, at))
    except UnicodeEncodeError:  # of flags and environment, which are bytes
        flaws.append(Flaw(path, "is no UTF-8", at))
    return None


def _at(path: str, number: int, table: Mapping[str, Any]) -> str:
    """Which table of a list it is: by its name if it has one, else by its place."""
    name = table.get("name")
    return f"{path} {name!r}" if name and isinstance(name, str) else f"{path} {number}"


def _wrong(message: str, kind: Any) -> str:
    """msgspec's message in words of the file; what may be left out is not written as null."""
    what = message.partition(" - at `$")[0]
    if what.startswith("Invalid enum value"):
        choices = get_args(_item(kind) or kind)
        return f"{what.removeprefix('Invalid enum value ')} is none of {', '.join(choices)}"
    if wanted := re.match(r"Expected `(.+)`, got `(.+)`", what):
        return f"{_plain(wanted[1])} is expected, and this is {_plain(wanted[2])}"
    return what


def _plain(kinds: str) -> str:
    return " or ".join(PLAIN.get(kind, kind) for kind in kinds.split(" | ") if kind != "null" or kinds == "null")


def _names(section: type[Section], path: str = "") -> Iterator[str]:
    """Every dotted key, those inside lists of tables too."""
    for key, kind in schema(section, path):
        item = _item(kind)
        if _is_section(item):
            yield from _names(item, f"{key}.")
        else:
            yield key


def _tables() -> Iterator[str]:
    """The tables of a file, and its lists of tables."""
    for field in msgspec.structs.fields(Settings):
        if _is_section(_item(field.type) or field.type):
            yield field.name


def _item(kind: Any) -> Any:
    """What a list of this type has; None: it is none."""
    return get_args(kind)[0] if get_origin(kind) is tuple else None


def _is_section(kind: Any) -> TypeGuard[type[Section]]:
    return isinstance(kind, type) and issubclass(kind, Section)


def _repeated(names: Iterable[str]) -> list[str]:
    return [name for name, times in Counter(names).items() if times > 1]
