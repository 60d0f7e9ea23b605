"""What the data process tells the office."""

import dataclasses
from typing import get_args

import pytest

from proxy.messages import EngineState, Hello, Message, Pulse
from tests.support.records import frozen

KINDS = get_args(Message)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_message_is_frozen_and_slotted(kind: type) -> None:
    assert frozen(kind)
    assert "__slots__" in vars(kind)


def test_a_pulse_of_a_fresh_process_claims_nothing() -> None:
    pulse = Pulse(at_s=0.0)
    assert (pulse.in_flight, pulse.engines, pulse.malformed, pulse.frames_lost, pulse.draining) == (0, (), 0, 0, False)
    assert pulse.memory_bytes is None
    assert not EngineState(name="e").answers


def test_hello_holds_defaults_of_the_settings_it_mirrors() -> None:
    hello = Hello(pid=1, version="0")
    assert (hello.admin_host, hello.admin_port, hello.store_days, hello.scrape_s) == ("127.0.0.1", 8801, 30.0, 5.0)
    assert dataclasses.replace(hello, pid=2).pid == 2
