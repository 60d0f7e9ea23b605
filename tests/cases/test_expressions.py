"""Expressions of cases can say what they must, and nothing else."""

import gzip
from typing import Any

import pytest

from tests.cases.expressions import evaluate


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("'Bearer sk-%04d'%(i%10)", "Bearer sk-0003"),
        ("' '.join('line %d of %d'%(k,i) for k in range(2))", "line 0 of 3 line 1 of 3"),
        ("{'a':list(range(2))+[(k*7+i)%5 for k in range(2)]}", {"a": [0, 1, 3, 0]}),
        ("gzip.compress(b'x')", None),
        ("json.dumps({'a':1}).ljust(10)", '{"a": 1}  '),
        ("bytes([1])+chr(65).encode()", b"\x01A"),
    ],
)
def test_it_evaluates(source: str, value: Any) -> None:
    found = evaluate(source, 3)
    assert found == value if value is not None else gzip.decompress(found) == b"x"


@pytest.mark.parametrize(
    "source",
    ["open('x')", "__import__('os')", "''.__class__", "gzip.open('x')", "lambda: 1", "(a:=1)", "i.real", "1 +", "x"],
)
def test_it_refuses(source: str) -> None:
    with pytest.raises(ValueError, match=r"not allowed|no expression"):
        evaluate(source)
