"""What imports what in `proxy`, read from the sources with `ast`; nothing is imported for it."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tests.support import syntax

ROOT = Path(__file__).parent.parent.parent
PACKAGE = "proxy"


def sources() -> dict[str, Path]:
    """Every module of the package and its file; a package goes by its own name."""
    files = sorted((ROOT / PACKAGE).rglob("*.py"))
    return {_name(file): file for file in files}


def trees() -> dict[str, ast.Module]:
    """Every module's syntax tree."""
    return {name: syntax.module(file.read_text("utf-8"), str(file)) for name, file in sources().items()}


def imports(tree: ast.AST, known: Iterable[str]) -> Iterator[str]:
    """The modules that a tree imports; `from package import module` names the module where it is a known one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            modules = [name for name in inner if name in known]
            yield from modules
            if len(modules) < len(inner):
                yield node.module


def graph() -> dict[str, set[str]]:
    """Module of the package -> modules that it imports, foreign ones too."""
    found = trees()
    return {name: set(imports(tree, found)) for name, tree in found.items()}


def reachable(edges: Mapping[str, set[str]], starts: Iterable[str]) -> set[str]:
    """What these modules import, and what that imports."""
    seen: set[str] = set()
    waiting = list(starts)
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += edges.get(name, ())
    return seen


def _name(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
