"""What the data process tells the office."""

from typing import get_args

import pytest

from proxy.cli.service import hello
from proxy.config import Settings
from proxy.messages import EngineState, Hello, Message, Pulse
from tests.support.records import frozen

KINDS = get_args(Message)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_message_is_frozen_and_slotted(kind: type) -> None:
    assert frozen(kind)
    assert "__slots__" in vars(kind)


def test_a_pulse_of_a_fresh_process_claims_nothing() -> None:
    pulse = Pulse(at_s=0.0)
    assert (pulse.in_flight, pulse.engines, pulse.malformed, pulse.records_lost, pulse.draining) == (0, (), 0, 0, False)
    assert pulse.memory_bytes is None
    assert not EngineState(name="e").answers


def test_hello_holds_defaults_of_the_settings_it_mirrors() -> None:
    told = hello(Settings(), audit_key=b"")
    assert told == Hello(pid=told.pid, version=told.version, config=told.config)
