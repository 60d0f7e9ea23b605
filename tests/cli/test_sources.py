import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.cli import sources
from proxy.prefixes.wording import headline, table
from tests.support.hostile import changed

BINS = dict.fromkeys(
    ("hit", "compulsory", "structural", "capacity", "other_replica", "text_break", "engine_gap"), 10
)  # fmt: skip
ANSWER = {
    "since": 1_796_079_955.4,
    "totals": {
        **{"requests": 9, "prompt_tokens": 70, "sized_requests": 0, "known_requests": 9, "bins": BINS},
        **{"ideal": 0.5, "attainable": None, "delivered": 0.25},
    },
    "engines": [{"engine": "e", "verdict": "healthy", "requests": 9, "prompt_tokens": 70, "bins": BINS}],
    "breakers": [
        {
            **{"family": "F1", "kind": "timestamp", "fix": "move", "role": "system", "message": 0, "char": 9},
            **{"requests": 9, "tokens_saved": 900, "share_saved": 0.5, "excerpts": ["dd:dd"]},
            **{"observed_s": 7200.0, "tokens_observed": 900, "seconds_observed": 9.0},
            **{"tokens_per_hour": 450, "seconds_per_hour": 4.5},
        }
    ],
    "families": [{"family": "F1", "requests": 9, "prompt_tokens": 70, "reuse": 35}],
    "curve": [{"engine": "e", "capacity_tokens": 1000, "rate": 0.4, "sampled": 1}],
}


def test_a_line_of_requests_and_one_of_records() -> None:
    asked = sources.line(b'{"id": 7, "t_s": 1, "path": "/x", "body": {"a": [1]}, "output_text": "yes", "more": {}}')
    assert (asked.id, asked.t_s, asked.path, bytes(asked.body), asked.output_text) == (
        7,
        1.0,
        "/x",
        b'{"a": [1]}',
        "yes",
    )
    assert sources.line(b"{}").path == "/v1/chat/completions"
    record = sources.line(b'{"v": 1, "engine": "e", "prefix": {"bins": {"hit": 3}, "expected": null}}')
    assert record.prefix is not None
    assert (record.v, record.engine, record.prefix.bins) == (1, "e", {"hit": 3})


@pytest.mark.parametrize(
    "line",
    [
        b'{"output_text": 5}',
        b'{"t_s": 1e308}',
        b'{"t_s": NaN}',
        b'{"path": null}',
        b'{"id": []}',
        b'{"v": 1, "prefix": []}',
        b'{"v": 1, "prefix": {"bins": {"hit": -1}}}',
        b'{"v": 1, "prefix": {"bins": {"hit": 1e300}}}',
        b'{"v": 1, "prefix": {"bins": {"hit": 10}, "reported": 24}}',
        b"[]",
        b"\xff",
    ],
)
def test_a_line_of_odd_values_is_none(line: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        sources.line(line)


@pytest.mark.parametrize(
    "line",
    [
        b'{"input_length": -5, "hash_ids": []}',
        b'{"input_length": 10000000000000, "hash_ids": []}',
        b'{"input_length": 1.5, "hash_ids": []}',
        b'{"input_length": 1, "hash_ids": [null]}',
        b'{"input_length": 1}',
        b'{"hash_ids": []}',
    ],
)
def test_a_line_of_a_trace_has_a_length_and_ids(line: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        sources.blocks(line)
    assert sources.blocks(b'{"input_length": 0, "hash_ids": [-1, 0]}').hash_ids == [-1, 0]


def test_a_proxy_s_answer_is_what_it_said() -> None:
    assert sources.answer(json.dumps(ANSWER).encode()) == ANSWER


@pytest.mark.parametrize("name", sorted(ANSWER["totals"]))
@pytest.mark.parametrize("odd", [None, "9", [], -1e9], ids=str)
def test_totals_of_odd_values_are_no_answer_or_can_be_put_in_words(name: str, odd: object) -> None:
    body = json.dumps({**ANSWER, "breakers": [], "totals": {**ANSWER["totals"], name: odd}}).encode()
    try:
        report = sources.answer(body)
    except msgspec.DecodeError:
        return
    assert odd is None
    assert headline(report)


@pytest.mark.parametrize("odd", [-1.0, 1e12, "today", []], ids=str)
def test_an_answer_since_a_moment_that_no_clock_shows_is_none(odd: object) -> None:
    with pytest.raises(msgspec.DecodeError):
        sources.answer(json.dumps({**ANSWER, "since": odd}).encode())


def numbers(tree: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """The paths to all of them."""
    if isinstance(tree, dict | list):
        for key in tree if isinstance(tree, dict) else range(len(tree)):
            yield from numbers(tree[key], *path, key)
    elif isinstance(tree, int | float):
        yield path


def with_(value: object, *path: Any) -> bytes:
    found = deepcopy(ANSWER)
    part: Any = found
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    return json.dumps(found).encode()


@pytest.mark.parametrize("path", [path for path in numbers(ANSWER) if path[-1] != "sampled"], ids=str)
@pytest.mark.parametrize(
    "odd", [-1, -0.5, 1e300, 10**400, float("nan"), float("inf"), "7", []], ids=lambda odd: f"{odd!s:.5}"
)
def test_a_number_that_cannot_be_is_in_no_answer(path: tuple[Any, ...], odd: object) -> None:
    with pytest.raises(msgspec.DecodeError):
        sources.answer(with_(odd, *path))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("engines", 0, "bins", "hit"), 11),
        (("engines", 0, "prompt_tokens"), 69),
        (("totals", "bins", "hit"), 9),
        (("totals", "prompt_tokens"), 71),
        (("totals", "known_requests"), 10),
        (("totals", "sized_requests"), 10),
        (("families", 0, "reuse"), 71),
    ],
    ids=str,
)
def test_parts_that_are_more_or_less_than_the_whole_are_in_no_answer(path: tuple[Any, ...], value: int) -> None:
    with pytest.raises(msgspec.DecodeError):
        sources.answer(with_(value, *path))


def test_the_report_of_another_audit_is_no_answer() -> None:
    for other in ({**ANSWER, "vllm_rule_infinite": "x"}, {**ANSWER, "totals": {"reuse": None}}):
        with pytest.raises(msgspec.DecodeError):
            sources.answer(json.dumps(other).encode())


@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 10_000)), max_size=3))
def test_whatever_a_proxy_answers_can_be_put_in_words_or_is_no_answer(changes: list[tuple[int, int]]) -> None:
    body = json.dumps(changed(ANSWER, changes)).encode("utf-8", "surrogatepass")
    try:
        report = sources.answer(body)
    except msgspec.DecodeError:
        return
    for rate in (None, 1e-9, 1e9):
        assert headline(report, rate)
        assert table(report, rate).replace("\n", "").isprintable()
