"""The tree of errors stands as its own docstring draws it."""

import inspect
import re
from collections.abc import Iterator

import pytest

from proxy import errors
from proxy.errors import ProxyError, Shed
from proxy.records import AdmissionVerdict, Outcome


def drawn() -> Iterator[tuple[str, int, str]]:
    """Name, depth and the last column of every line of the drawing."""
    for line in inspect.getdoc(errors).splitlines():  # type: ignore[union-attr]
        found = re.match(r"    ([| ]*)(?:\+- )?(\w+)(?: {2,}.*? {2,}(.*))?$", line)
        if found and found[2] in vars(errors):
            yield found[2], len(found[1]) // 3 + ("+-" in line), found[3] or ""


def classes() -> dict[str, type[ProxyError]]:
    return {
        name: it for name, it in inspect.getmembers(errors, inspect.isclass)
        if issubclass(it, ProxyError)
    }  # fmt: skip


def test_the_drawing_is_the_tree() -> None:
    path: list[str] = []
    parents = {}
    for name, depth, _ in drawn():
        path = [*path[:depth], name]
        parents[name] = path[-2] if depth else "Exception"
    assert parents == {name: it.__bases__[0].__name__ for name, it in classes().items()}


@pytest.mark.parametrize(("name", "told"), [(name, told) for name, _, told in drawn() if re.match(r"\d{3}$", told)])
def test_a_leaf_has_the_status_that_is_drawn(name: str, told: str) -> None:
    assert classes()[name].status == int(told)


@pytest.mark.parametrize("error", classes().values(), ids=classes())
def test_every_error_says_whose_fault_it_was_and_how_it_is_called(error: type[ProxyError]) -> None:
    assert isinstance(error.outcome, Outcome)
    assert error.type
    assert error.__doc__
    assert error.verdict is None


def test_every_outcome_but_the_engines_own_word_has_an_error() -> None:
    said_by_the_answer = {
        Outcome.COMPLETED, Outcome.ENGINE_OVERLOADED, Outcome.ENGINE_REJECTED, Outcome.ENGINE_ERROR,
    }  # fmt: skip
    assert {error.outcome for error in classes().values()} == set(Outcome) - said_by_the_answer


def test_a_refusal_at_the_door_carries_what_the_client_is_told() -> None:
    error = Shed("full", reason="queue_full", rule="r", retry_after_s=1.5, status=503)
    assert (str(error), error.reason, error.rule, error.retry_after_s, error.http_status) == (
        "full", "queue_full", "r", 1.5, 503,
    )  # fmt: skip
    error.verdict = AdmissionVerdict("shed")
    assert Shed("x", reason="r", rule="r", retry_after_s=None).http_status == 429
    assert Shed.verdict is None
