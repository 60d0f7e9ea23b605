"""The house stands as its own map says: layers, libraries, clocks, imports. The map is the docstring of `proxy`."""

import ast
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

import proxy
from tests.support.imports import PACKAGE, graph, imports, sources, trees

GRAPH = graph()
TREES = trees()
STANDARD = sys.stdlib_module_names
CLOCKS = {"now", "utcnow", "today"}


def block(heading: str) -> list[list[str]]:
    """The lines of a table of the map, in words."""
    text = (proxy.__doc__ or "").split(f"\n{heading}", 1)[1]
    table = re.search(r"\n\n((?: {4,}\S.*\n)+)", text)
    assert table is not None, f"no table under {heading}"
    return [row.split() for row in re.sub(r"\n {5,}", " ", table[1]).splitlines()]


def layers() -> dict[str, tuple[int, bool]]:
    """Member of a layer -> (its line, whether it is a family)."""
    out = {}
    for number, (_, *words) in enumerate(block("Layers.")):
        bar = words.index("|") if "|" in words else len(words)
        out.update({word: (number, at > bar) for at, word in enumerate(words) if word != "|"})
    return out


def member(module: str) -> str:
    """The module or family that the map names: the part behind `proxy.`"""
    return module.split(".")[1] if "." in module else ""


def foreign(module: str) -> set[str]:
    """Libraries that a module names."""
    roots = {name.split(".")[0] for name in GRAPH[module]}
    return roots - STANDARD - {PACKAGE}


def outer(tree: ast.Module) -> Iterator[ast.AST]:
    """Nodes outside of functions: what runs at import, and in class bodies."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)


def test_the_map_names_every_member_and_no_other() -> None:
    assert {member(module) for module in GRAPH if member(module)} - layers().keys() == set()


@pytest.mark.parametrize("module", sorted(GRAPH))
def test_a_module_imports_what_its_layer_may(module: str) -> None:
    where, mine = layers(), member(module)
    for name in (name for name in GRAPH[module] if member(name) and name.startswith(f"{PACKAGE}.")):
        theirs = member(name)
        if theirs == mine:
            continue
        (my_line, family), (their_line, theirs_family) = where[mine], where[theirs]
        beside = my_line == their_line and not family and not theirs_family
        assert their_line < my_line or beside, f"{module} may not import {name}"


@pytest.mark.parametrize("module", sorted(GRAPH))
def test_a_library_is_named_in_its_homes_alone(module: str) -> None:
    homes = {library: set(places) for library, *places in block("Libraries,")}
    parts = module.split(".")[1:]
    mine = {".".join(parts[:length]) for length in range(1, len(parts) + 1)}
    for library in foreign(module):
        assert homes.get(library, set()) & mine, f"{library} is named in {module}"


def test_the_vocabulary_needs_the_standard_library_alone() -> None:
    for name in (name for name, (line, _) in layers().items() if line == 0):
        assert foreign(f"{PACKAGE}.{name}") == set()


def test_nothing_imports_in_a_circle() -> None:
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, f"circle: {' -> '.join((*path, module))}"
        if module not in done:
            for name in GRAPH[module] & GRAPH.keys():
                visit(name, (*path, module))
            done.add(module)

    for module in GRAPH:
        visit(module, ())


@pytest.mark.parametrize("module", sorted(GRAPH))
def test_imports_stand_at_the_head(module: str) -> None:
    tree = TREES[module]
    at_head = {id(node) for node in tree.body}
    late = [
        f"line {node.lineno}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom) and id(node) not in at_head
    ]
    assert late == []
    assert "TYPE_CHECKING" not in sources()[module].read_text("utf-8")


@pytest.mark.parametrize("module", sorted(set(GRAPH) - {f"{PACKAGE}.clock"}))
def test_only_one_module_reads_a_clock(module: str) -> None:
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            assert not (node.value.id in ("datetime", "date") and node.attr in CLOCKS), f"line {node.lineno}"
    assert "time" not in set(imports(TREES[module], ())), f"{module} imports time"


@pytest.mark.parametrize("module", sorted(GRAPH))
def test_state_is_never_global(module: str) -> None:
    assert not any(isinstance(node, ast.Global | ast.Nonlocal) for node in ast.walk(TREES[module]))


def test_importing_has_no_effect() -> None:
    """In a fresh process, libraries first; then sockets and threads are forbidden, and the environment to our code."""
    names = {name for edges in GRAPH.values() for name in edges}
    libraries = {name for name in names if name.split(".")[0] not in STANDARD | {PACKAGE}}
    there = sorted(name for name in libraries if importlib.util.find_spec(name.split(".")[0]))
    ours = sorted(name for name in GRAPH if name.rpartition(".")[2] != "__main__" and not foreign(name) - set(there))
    result = subprocess.run(
        [sys.executable, "-c", FORBIDDING, " ".join(there), " ".join(ours)], capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stderr[-2000:]
    assert result.stdout == ""


FORBIDDING = """
import importlib, os, socket, sys, threading
libraries, ours = (names.split() for names in sys.argv[1:])
for name in libraries:
    importlib.import_module(name)

class Environment(type(os.environ)):
    def __getitem__(self, name):
        assert "/proxy/" not in sys._getframe(1).f_code.co_filename.replace(os.sep, "/"), f"reads {name} at import"
        assert "/proxy/" not in sys._getframe(2).f_code.co_filename.replace(os.sep, "/"), f"reads {name} at import"
        return super().__getitem__(name)

def refuse(*args, **named):
    raise AssertionError("opens a socket or starts a thread at import")

os.environ.__class__ = Environment
socket.socket.__init__ = threading.Thread.start = refuse
for name in ours:
    importlib.import_module(name)
"""
