"""Python's own parser, one thread at a time: CPython 3.11 loses count of a tree's depth when two parse (gh-106905)."""

import ast
from threading import Lock

_PARSING = Lock()


def module(source: str, name: str = "<module>") -> ast.Module:
    """The tree of a file. Raises SyntaxError."""
    with _PARSING:
        return ast.parse(source, name)


def expression(source: str) -> ast.Expression:
    """The tree of an expression. Raises SyntaxError."""
    with _PARSING:
        return ast.parse(source, mode="eval")
