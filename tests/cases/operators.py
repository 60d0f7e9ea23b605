"""Does a value hold? Every function answers with the reason why it does not, or None."""

import json
import math
from typing import Any

SLACK_MS = 0.5
"""A bare number of ms holds within this."""
_NOISE = 1e-6
"""Floating point noise of nanoseconds written as ms."""


def mismatch(expected: Any, actual: Any, slack: float = 0.0) -> str | None:
    """Why `actual` is not what the check says; None if it is. `slack`: how far a bare number may be off."""
    if isinstance(expected, dict):
        return _operators(expected, actual, slack)
    if _is_number(expected) and _is_number(actual):
        holds = abs(expected - actual) <= slack + _NOISE or math.isclose(expected, actual, rel_tol=1e-9)
    else:
        holds = type(expected) is type(actual) and expected == actual
    return None if holds else f"expected {_short(expected)}, got {_short(actual)}"


def _operators(expected: dict[str, Any], actual: Any, slack: float) -> str | None:
    if "any_of" in expected:
        reasons = [mismatch(option, actual, slack) for option in expected["any_of"]]
        return None if None in reasons else f"expected any of {_short(expected['any_of'])}, got {_short(actual)}"
    if "absent" in expected or "present" in expected:
        holds = (actual is None) == ("absent" in expected)
        return None if holds else f"expected {'no' if 'absent' in expected else 'some'} value, got {_short(actual)}"
    holds = actual is not None and all(_HOLDS[name](expected, actual) for name in expected)
    return None if holds else f"expected {_short(expected)}, got {_short(actual)}"


def _approx(check: dict[str, Any], value: Any) -> bool:
    return _is_number(value) and abs(value - check["approx"]) <= check["tol"] + _NOISE


def _between(check: dict[str, Any], value: Any) -> bool:
    low, high = check["between"]
    return _is_number(value) and low - _NOISE <= value <= high + _NOISE


def _json(check: dict[str, Any], value: Any) -> bool:
    try:
        return _has(json.loads(value), check["json"])
    except (TypeError, ValueError):
        return False


def _has(value: Any, members: Any) -> bool:
    """JSON that has these members; objects may have others, lists have as many items."""
    if isinstance(members, dict):
        return isinstance(value, dict) and all(name in value and _has(value[name], m) for name, m in members.items())
    if isinstance(members, list):
        return isinstance(value, list) and len(value) == len(members) and all(map(_has, value, members))
    return mismatch(members, value) is None


_HOLDS = {
    "approx": _approx,
    "tol": _approx,
    "ge": lambda check, value: _is_number(value) and value >= check["ge"] - _NOISE,
    "le": lambda check, value: _is_number(value) and value <= check["le"] + _NOISE,
    "between": _between,
    "contains": lambda check, value: all(item in value for item in check["contains"]),
    "lacks": lambda check, value: not any(item in value for item in check["lacks"]),
    "starts_with": lambda check, value: isinstance(value, str) and value.startswith(check["starts_with"]),
    "len": lambda check, value: len(value) == check["len"],
    "json": _json,
}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:120]}... ({len(text)} characters)"
