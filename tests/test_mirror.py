"""Every source file has its test file at the same place; what takes real sockets or processes is in tests/socket."""

import re
from pathlib import Path

import pytest

from tests.support.imports import ROOT

PROXY, TESTS = ROOT / "proxy", ROOT / "tests"
SOURCES = sorted(file.relative_to(PROXY) for file in PROXY.rglob("*.py") if not file.name.startswith("__"))


@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_a_source_has_its_test(source: Path) -> None:
    mirror = source.parent / f"test_{source.name}"
    assert (TESTS / mirror).exists() or (TESTS / "socket" / mirror).exists(), f"tests/{mirror} is missing"


REAL = re.compile(
    r"\b(subprocess|create_server|start_server|HTTPServer|Socket(Engine|Client)|time\.sleep)\b|support\.(loopback|patience)"
)
ELSEWHERE = {Path(__file__), TESTS / "test_architecture.py"}
"""This one, and one that imports everything in a fresh interpreter."""
FILES = {file for file in TESTS.rglob("test_*.py") if not {"socket", "live"} & {*file.relative_to(TESTS).parts}}


@pytest.mark.parametrize("file", sorted(FILES - ELSEWHERE), ids=lambda file: str(file.relative_to(TESTS)))
def test_what_is_real_is_in_its_place(file: Path) -> None:
    assert REAL.findall(file.read_text("utf-8")) == []
