import asyncio

import pytest

from proxy.messages import PromptSeen
from proxy.office import research
from proxy.office.research import WAITING, Research
from proxy.records import Message, Part, Prompt

RULES = "You answer questions about the railway. Be brief, be kind, and never promise a refund. " * 12


def seen(n: int) -> PromptSeen:
    system = f"Request {n * 7919:08d}. {RULES}"
    messages = (Message("system", (Part("text", system),)), Message("user", (Part("text", f"Where is train {n}?"),)))
    return PromptSeen(
        id=f"r{n}", at_s=n * 1.0, engine="e", model="m", prompt=Prompt(messages=messages), answer="There."
    )


def test_without_prompts_nothing_is_loaded_and_nothing_found():
    idle = Research(b"k" * 16, capture_text=False)
    idle.step()
    assert idle.report["breakers"] == []


def test_what_breaks_the_cache_is_found_and_none_of_the_text_is_shown():
    found = Research(b"k" * 16, capture_text=False)
    for n in range(30):
        found.take(seen(n))
    found.step()
    (breaker,) = found.report["breakers"]
    assert breaker["tokens_saved"] > 1_000
    assert found.report["sampled"] == 30
    assert "refund" not in repr(found.report)
    assert "00007919" not in repr(found.report)


def test_prompts_that_nobody_gets_to_are_dropped_oldest_first():
    full = Research(b"k" * 16, capture_text=False)
    for n in range(WAITING + 5):
        full.take(seen(n))
    assert next(one.id for one in full._waiting) == "r5"
    assert len(full._waiting) == WAITING


def test_it_searches_again_and_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(research, "STEP_S", 0.0)
    steps = []

    class Counting(Research):
        def step(self) -> None:
            steps.append(1)
            if len(steps) == 3:
                raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(Counting(b"", capture_text=False).run())
    assert len(steps) == 3
