"""Values of untrusted JSON. One of an odd type or out of any sane range is unknown: None, or empty."""

from typing import Any

_LARGEST = 2**53
"""Above this JSON numbers are not exact everywhere (RFC 8259, 6); no count or duration in nanoseconds needs more."""

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000


def count(value: object) -> int | None:
    """A whole number of things: an int that is not negative. True and 3.0 are none."""
    return value if type(value) is int and 0 <= value <= _LARGEST else None


def number(value: object) -> float | None:
    """A finite number of a sane size; True is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if -_LARGEST < value < _LARGEST else None


def duration_ns(value: object, unit_ns: int) -> int | None:
    """A duration of `value` units in nanoseconds; None unless finite and not negative."""
    if type(value) is int and 0 <= value <= _LARGEST:
        ns = value * unit_ns
    else:
        amount = number(value)
        if amount is None or amount < 0:
            return None
        ns = round(amount * unit_ns)
    return ns if ns <= _LARGEST else None


def between_ns(start: object, end: object) -> int | None:
    """From one stamp of an engine to another of the same clock, both in seconds."""
    first, last = number(start), number(end)
    return None if first is None or last is None else duration_ns(last - first, NS_PER_S)


def string(value: object) -> str | None:
    """A string, or None."""
    return value if isinstance(value, str) else None


def text(value: object) -> str:
    """A string, or the empty one."""
    return value if isinstance(value, str) else ""


def flag(value: object) -> bool | None:
    """True or False; None for everything else."""
    return value if isinstance(value, bool) else None


def mapping(value: object) -> dict[str, Any]:
    """An object, or the empty one."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    """An array, or the empty one."""
    return value if isinstance(value, list) else []


def objects(value: object) -> list[dict[str, Any]]:
    """The objects of an array."""
    return [each for each in items(value) if isinstance(each, dict)]


def output_limit(*stated: object) -> int | None:
    """The largest of the output limits that a body states, for engines differ in which one they heed; None where none
    is stated, or one is less than a token: engines take -1 for no limit, and Ollama's own runner 0 too. `999.0` and
    `"999"` are numbers to them."""
    amounts = [amount for amount in map(_amount, stated) if amount is not None]
    if not amounts or min(amounts) < 1:
        return None
    return int(min(max(amounts), _LARGEST))


def _amount(value: object) -> float | None:
    """A number as lenient engines read it; infinity is one."""
    try:
        amount = float(value) if isinstance(value, str) else value
    except ValueError:
        return None
    if isinstance(amount, bool) or not isinstance(amount, int | float) or amount != amount:
        return None
    return amount


def first_given(asked: dict[str, Any], *names: str) -> Any:
    """The first of these members that is there and not empty."""
    return next(filter(None, map(asked.get, names)), None)


def choice_count(asked: object) -> int:
    """Choices asked for: at least one."""
    return count(asked) or 1
