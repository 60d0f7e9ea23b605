"""Every source file has its test file at the same place."""

from pathlib import Path

import pytest

from tests.support.imports import ROOT

PROXY, TESTS = ROOT / "proxy", ROOT / "tests"
SOURCES = sorted(file.relative_to(PROXY) for file in PROXY.rglob("*.py") if not file.name.startswith("__"))


@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_a_source_has_its_test(source: Path) -> None:
    mirror = TESTS / source.parent / f"test_{source.name}"
    assert mirror.exists(), f"{mirror.relative_to(ROOT)} is missing"
