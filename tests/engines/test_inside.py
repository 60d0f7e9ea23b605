import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.engines.gauges import Gauges
from proxy.engines.inside import (
    CALM,
    LOADED_LIMIT,
    LOADS,
    OLD_LOADS,
    PROPS,
    PS,
    READERS,
    SLOTS,
    STIRRING,
    Inside,
    Loaded,
    of_metrics,
    read,
)

GOLDEN = Path(__file__).parent / "golden"
SECRET = "planted secret 4711"

RANK = {
    "timestamp": 3.5,
    "dp_rank": 0,
    "num_running_reqs": 5,
    "num_waiting_reqs": 2,
    "num_used_tokens": 900,
    "num_total_tokens": 1000,
    "max_total_num_tokens": 3600,
    "max_running_requests": 48,
    "token_usage": 0.25,
    "gen_throughput": 99.5,
}
"""One rank, with the names of SGLang 0.5.8 to 0.5.23."""
OLD_RANK = {"dp_rank": 0, "num_reqs": 7, "num_waiting_reqs": 2, "num_tokens": 900}
"""One rank as 0.5.3 says it."""


def said(target: str, page: Any) -> Inside:
    return read(target, json.dumps(page).encode())


def golden(target: str, name: str) -> Inside:
    return read(target, (GOLDEN / f"{name}.json").read_bytes())


# --- llama.cpp ---


def test_real_llama_cpp_says_what_it_was_started_with() -> None:
    assert golden(PROPS, "llamacpp_props") == Inside(slots=2, context=4096, model="smollm2-135m", sleeping=False)


def test_real_slots_say_who_works_and_how_full_they_are() -> None:
    idle = Inside(running=0, kv_usage=0.0, slots=2, context=4096)
    assert golden(SLOTS, "llamacpp_slots_fresh") == golden(SLOTS, "llamacpp_slots_idle") == idle
    assert golden(SLOTS, "llamacpp_slots_busy") == Inside(running=2, kv_usage=70 / 4096, slots=2, context=4096)


@pytest.mark.parametrize(
    ("page", "model"),
    [
        ({"model_alias": "a", "model_path": "/m/b.gguf"}, "a"),
        ({"model_path": "/m/b.gguf"}, "b.gguf"),
        ({"model_path": "C:\\m\\b.gguf", "model_alias": ""}, "b.gguf"),
        ({"model_path": "b.gguf"}, "b.gguf"),
        ({"model_path": "/m/"}, None),
        ({"model_alias": 7}, None),
    ],
)
def test_a_model_is_called_by_its_alias_or_its_file(page: dict[str, Any], model: str | None) -> None:
    assert said(PROPS, page).model == model


@pytest.mark.parametrize(("value", "sleeping"), [(True, True), (False, False), (1, None), (None, None)])
def test_a_build_that_cannot_sleep_does_not_say(value: object, sleeping: bool | None) -> None:
    assert said(PROPS, {"is_sleeping": value}).sleeping is sleeping


def busy(window: object = 1000, **counts: object) -> dict[str, Any]:
    numbers = {"n_prompt_tokens_cache": 100, "n_prompt_tokens_processed": 50, "n_decoded": 10, **counts}
    decoded = {"n_decoded": numbers.pop("n_decoded")}
    return {"n_ctx": window, "is_processing": True, "next_token": [decoded], **numbers}


def test_the_fullest_slot_that_works_counts() -> None:
    idle = {**busy(n_prompt_tokens_cache=900), "is_processing": False}
    assert said(SLOTS, [busy(), busy(n_decoded=260), idle]).kv_usage == 0.41
    assert said(SLOTS, [busy(n_prompt_tokens_cache=2000)]).kv_usage == 1.0


def test_the_answer_of_an_older_build_is_no_list() -> None:
    assert said(SLOTS, [{**busy(), "next_token": {"n_decoded": 10}}]).kv_usage == 0.16


@pytest.mark.parametrize(
    "slot",
    [busy(window=0), busy(n_decoded=None), busy(n_prompt_tokens_cache=-1), {"is_processing": True, "n_ctx": 9}],
    ids=["no window", "no decoded", "below zero", "a build of 2025"],
)
def test_a_slot_that_does_not_say_all_its_tokens_says_no_share(slot: dict[str, Any]) -> None:
    assert (said(SLOTS, [slot]).running, said(SLOTS, [slot]).kv_usage) == (1, None)


def test_slots_of_2024_have_a_state() -> None:
    slots = [{"id": 0, "n_ctx": 512, "state": 1, "prompt": SECRET}, {"id": 1, "n_ctx": 512, "state": 0}]
    assert said(SLOTS, slots) == Inside(running=1, slots=2, context=512)


def test_no_text_of_a_slot_is_kept() -> None:
    told = {"prompt": SECRET, "generated": SECRET, "params": {"stop": [SECRET], "grammar": SECRET}}
    slot = {**busy(), **told, "next_token": [{"n_decoded": 10, "stopping_word": SECRET}]}
    seen = said(SLOTS, [slot])
    assert seen.running == 1
    assert SECRET not in repr(seen)


# --- SGLang ---


def test_ranks_are_summed_and_the_fullest_pool_counts() -> None:
    page = {"version": "0.5.23", "loads": [RANK, {**RANK, "num_running_reqs": 1, "token_usage": 0.5}]}
    assert said(LOADS, page) == Inside(running=6, waiting=4, kv_usage=0.5, slots=96)


def test_an_older_one_says_running_and_waiting_together() -> None:
    assert said(OLD_LOADS, [OLD_RANK, {**OLD_RANK, "num_reqs": 2}]) == Inside(running=5, waiting=4)


@pytest.mark.parametrize("missing", ["num_running_reqs", "num_waiting_reqs"])
def test_a_sum_that_lacks_a_rank_is_none(missing: str) -> None:
    less = {name: value for name, value in RANK.items() if name != missing}
    seen = said(LOADS, {"loads": [RANK, less]})
    assert getattr(seen, {"num_running_reqs": "running", "num_waiting_reqs": "waiting"}[missing]) is None


def test_more_waiting_than_there_are_is_no_number_below_zero() -> None:
    assert said(OLD_LOADS, [{"num_reqs": 1, "num_waiting_reqs": 2}]).running == 0


# --- Ollama ---


def test_real_ollama_says_what_is_in_memory() -> None:
    (model,) = golden(PS, "ollama_ps").loaded or ()
    assert model == Loaded(
        name="smollm2:135m",
        size=99971235,
        size_vram=99971235,
        context_length=4096,
        expires_at="2026-11-29T16:11:52.590320236Z",
    )
    (older,) = golden(PS, "ollama_0.17_ps").loaded or ()
    assert (older.size, older.size_vram) == (190948608, 0)


def test_no_model_has_no_size() -> None:
    (model,) = said(PS, {"models": [{"name": "m", "size": 0, "size_vram": 0}]}).loaded or ()
    assert (model.size, model.size_vram) == (None, 0)


def test_nothing_in_memory_is_known_too() -> None:
    assert (said(PS, {"models": []}).loaded, said(PS, {"models": None}).loaded, said(PS, {}).loaded) == ((), None, None)


@pytest.mark.parametrize("moment", ["soon", "2026-11-29T16:11:52", "2026-11-29T16:11:52Z\n", "x" * 999, 7, None])
def test_what_is_no_moment_is_left_out(moment: object) -> None:
    (model,) = said(PS, {"models": [{"name": "m", "expires_at": moment}]}).loaded or ()
    assert model == Loaded(name="m")


def test_models_without_a_name_and_beyond_the_bound_are_left_out() -> None:
    assert said(PS, {"models": [{"name": ""}, {"size": 3}]}).loaded == ()
    assert len(said(PS, {"models": [{"name": str(n)} for n in range(999)]}).loaded or ()) == LOADED_LIMIT


# --- all ---


@pytest.mark.parametrize("target", READERS)
@pytest.mark.parametrize(
    "body", [b"", b"no", b"null", b"7", b'"x"', b"[[[]]]", b"[null]", b'{"loads": 3, "models": 3}']
)
def test_a_page_of_something_else_says_nothing(target: str, body: bytes) -> None:
    assert read(target, body) == Inside()


KEYS = st.sampled_from(
    (
        *("n_ctx", "is_processing", "state", "next_token", "n_decoded", "loads", "models", "name", "size"),
        *("expires_at", "num_reqs", "num_waiting_reqs", "token_usage", "total_slots", "model_path"),
        "default_generation_settings",
    )
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(st.sampled_from(sorted(READERS)), JSON)
def test_any_page_can_be_read(target: str, page: Any) -> None:
    said(target, page)


def test_every_page_that_is_asked_has_a_reader() -> None:
    assert {target for targets in (*CALM.values(), *STIRRING.values()) for target in targets} == set(READERS)


def test_metrics_say_the_same_of_work() -> None:
    gauges = Gauges(running=3, waiting=1, kv_usage=0.5, totals={})
    assert of_metrics(gauges) == Inside(running=3, waiting=1, kv_usage=0.5)


def test_what_one_does_not_say_the_other_says() -> None:
    one, other = Inside(running=0, sleeping=False), Inside(running=3, slots=2)
    assert one.over(other) == Inside(running=0, sleeping=False, slots=2)
