"""Values that somebody else wrote: where a file has a field, anything may stand in it."""

import copy
import json
from typing import Any

from hypothesis import strategies as st

ESCAPE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\r\nforged"
"""A terminal's title, its screen, its colours, its direction, and a line of somebody else's."""

ODD: list[Any] = [
    *(None, True, 0, -1, 1.5, 1e300, -1e300, 1e-300, 10**20, 2**63, float("nan"), float("inf")),
    *("", "x", ESCAPE, "=1+1", "@x", "|", "\x00", "\ud800", "x" * 3000),
    *([], [None], {}, {"a": 1}, {ESCAPE: 1}, [[[]]]),
]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to everything inside a JSON value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, inner in inside for place in ((*path, key), *places(inner, (*path, key)))]


def changed(value: Any, changes: list[tuple[int, int]]) -> Any:
    """The value with odd ones in some of its places."""
    value = copy.deepcopy(value)
    for where, what in changes:
        all_places = places(value)
        if not all_places:
            break
        *path, last = all_places[where % len(all_places)]
        inner = value
        for key in path:
            inner = inner[key]
        inner[last] = copy.deepcopy(ODD[what % len(ODD)])
    return value


def lines(value: Any) -> st.SearchStrategy[bytes]:
    """Some lines of JSON as this one, each with some odd values; now and then cut, or with a byte of something else."""
    change = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 10_000)), max_size=3)
    cut = st.one_of(st.none(), st.integers(0, 5_000))

    def line(changes: list[tuple[int, int]], ascii: bool, end: int | None) -> bytes:
        return json.dumps(changed(value, changes), ensure_ascii=ascii).encode("utf-8", "surrogatepass")[:end]

    return st.lists(st.builds(line, change, st.booleans(), cut), max_size=6).map(b"\n".join)


def is_plain(text: str) -> bool:
    """Whether it can be shown: nothing in it steers a terminal."""
    return all(line.isprintable() for line in text.split("\n"))
