"""Every source file has its test file at the same place, and every test file its source."""

from pathlib import Path

import pytest

from tests.support.imports import ROOT

PROXY, TESTS = ROOT / "proxy", ROOT / "tests"
SOURCES = sorted(file.relative_to(PROXY) for file in PROXY.rglob("*.py") if not file.name.startswith("__"))

WITHOUT = {
    "events.py": "records of plain fields",
    "messages.py": "records of plain fields",
}
"""Files without a test of their own, and why."""


@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_a_source_has_its_test(source: Path) -> None:
    mirror = TESTS / source.parent / f"test_{source.name}"
    assert str(source) in WITHOUT or mirror.exists(), f"{mirror.relative_to(ROOT)} is missing"


def test_nothing_is_excused_that_needs_no_excuse() -> None:
    assert [name for name in WITHOUT if not (PROXY / name).exists()] == []
