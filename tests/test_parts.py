import inspect
from typing import Any

import pytest

from proxy import parts
from proxy.admission.door import EngineDoor
from proxy.admission.permit import Permit
from proxy.counting import NoDesk
from proxy.prefixes.audit import Audit
from proxy.tokens.desk import Desk


@pytest.mark.parametrize(
    ("part", "real"),
    [
        (parts.Permit, Permit),
        (parts.Door, EngineDoor),
        (parts.Desk, Desk),
        (parts.Desk, NoDesk),
        (parts.Audit, Audit),
    ],
)
def test_what_stands_beside_an_engine_is_what_exchanges_know(part: type, real: type) -> None:
    for name, known in methods(part).items():
        there = methods(real)[name]
        assert inspect.iscoroutinefunction(there) == inspect.iscoroutinefunction(known), name
        assert list(inspect.signature(there).parameters) == list(inspect.signature(known).parameters), name


def methods(owner: type) -> dict[str, Any]:
    return {name: value for name, value in vars(owner).items() if callable(value) and not name.startswith("_")}
