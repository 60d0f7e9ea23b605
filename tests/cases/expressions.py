"""The small Python that cases may use: literals, operators, comprehensions, a few names and methods."""

import ast
import gzip
import json
from typing import Any

from tests.support import syntax

NAMES: dict[str, Any] = {
    "gzip": gzip,
    "json": json,
    "range": range,
    "len": len,
    "list": list,
    "dict": dict,
    "str": str,
    "bytes": bytes,
    "chr": chr,
    "min": min,
    "max": max,
    "sum": sum,
}
METHODS = frozenset({"join", "encode", "format", "compress", "dumps", "ljust", "zfill"})
_BANNED = (ast.Lambda, ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)


def evaluate(source: str, i: int = 0) -> Any:
    """The value of an expression; `i` is the number of the repetition. Raises ValueError for what is not allowed."""
    try:
        tree = syntax.expression(source)
    except SyntaxError as error:
        raise ValueError(f"{source!r} is no expression: {error.msg}") from error
    own = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for node in ast.walk(tree):
        if isinstance(node, _BANNED):
            raise ValueError(f"{type(node).__name__} is not allowed in an expression")
        if isinstance(node, ast.Attribute) and node.attr not in METHODS:
            raise ValueError(f"method {node.attr!r} is not allowed in an expression")
        if isinstance(node, ast.Name) and node.id not in own and node.id not in NAMES and node.id != "i":
            raise ValueError(f"name {node.id!r} is not allowed in an expression")
    return eval(compile(tree, "<case>", "eval"), {"__builtins__": {}, **NAMES, "i": i})


def as_bytes(value: str | bytes) -> bytes:
    """Text as UTF-8, bytes as they are."""
    return value.encode() if isinstance(value, str) else value
