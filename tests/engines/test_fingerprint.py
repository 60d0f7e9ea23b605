import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.engines.fingerprint import (
    PROBES,
    SIGNS,
    Answers,
    Fingerprint,
    Reply,
    identify,
    own_options,
    resident,
    told,
    weights,
)
from proxy.messages import EngineState, Pulse
from proxy.office.channel import encode

GONE = (404, [], b"404 page not found")
LOADING = b'{"error":{"message":"Loading model","type":"unavailable_error","code":503}}'


def ok(body: object, *headers: tuple[bytes, bytes]) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    return 200, list(headers), body.encode() if isinstance(body, str) else json.dumps(body).encode()


def models(owner: str, *names: str, **more: object) -> dict[str, object]:
    return {"object": "list", "data": [{"id": name, "owned_by": owner, **more} for name in names]}


DIGEST = "765525e6017ab6ad369d812befc610782d2c43da14435f795b5922a44187b6aa"
TAGGED = {"name": "smollm2:135m", "digest": DIGEST, "details": {"family": "llama", "context_length": 8192}}
OLLAMA: Answers = {
    "/": ok("Ollama is running"),
    "/api/version": ok({"version": "0.33.0-rc2"}),
    "/version": GONE,
    "/v1/models": ok(models("library", "smollm2:135m")),
    "/props": GONE,
    "/get_server_info": GONE,
    "/api/tags": ok({"models": [TAGGED, {"name": "other:1b", "digest": "", "details": []}]}),
    "/api/ps": ok({"models": [{"name": "smollm2:135m", "digest": DIGEST, "context_length": 4096}]}),
}
VLLM: Answers = {
    "/": GONE,
    "/version": ok({"version": "0.32.0"}),
    "/v1/models": ok(models("vllm", "m", "lora", max_model_len=4096)),
}
LLAMACPP: Answers = {
    "/": (404, [(b"Server", b"llama.cpp")], b"{}"),
    "/v1/models": ok(models("llamacpp", "smollm2-135m"), (b"server", b"llama.cpp")),
    "/props": ok({"total_slots": 2, "build_info": "b10434-0c1e", "default_generation_settings": {"n_ctx": 2048}}),
}
SGLANG: Answers = {
    "/": ok("SGLang is running"),
    "/api/version": ok({"version": "0.12"}),
    "/v1/models": ok(models("sglang", "m", max_model_len=8192)),
    "/get_server_info": ok({"model_path": "m", "version": "0.5.23"}),
}


def test_ollama() -> None:
    assert identify(OLLAMA) == Fingerprint(
        kind="ollama",
        version="0.33.0-rc2",
        models=("smollm2:135m", "other:1b"),
        windows=(("smollm2:135m", 4096),),
        trained=(("smollm2:135m", 8192),),
        digests=(("smollm2:135m", DIGEST),),
        answers=True,
        lists=True,
    )


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(ok(models("organization-owner", "m")), id="a list"),
        pytest.param(ok({"data": [{"id": "m"}]}), id="a list that says no more"),
        pytest.param(ok({"object": "list", "data": []}), id="an empty list"),
        pytest.param((401, [], b'{"error": "Unauthorized"}'), id="vLLM and SGLang without a key"),
        pytest.param((403, [], b'{"error": {"message": "no"}}'), id="a gateway without a key"),
    ],
)
def test_what_engines_have_as_their_list_tells_them_from_any_web_server(page: Reply) -> None:
    assert identify({"/": GONE, "/v1/models": page}).is_engine


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(GONE, id="nothing"),
        pytest.param(ok("<html>an application of one page</html>"), id="a page"),
        pytest.param(ok({"data": [{"name": "golf"}, {"name": "up"}]}), id="a list of other things"),
        pytest.param(ok({"data": []}), id="an empty list of anything"),
        pytest.param(ok([{"id": "m"}]), id="a list without an object"),
        pytest.param((401, [], b"<html>log in</html>"), id="a page to log in"),
        pytest.param((403, [], b'{"detail": "Not authenticated"}'), id="an application that wants a login"),
        pytest.param((404, [], b'{"error": "Not Found"}'), id="an application's error"),
    ],
)
def test_what_a_web_server_has_in_its_place_does_not(page: Reply) -> None:
    found = identify({"/": ok("<html></html>"), "/version": ok({"version": "1"}), "/v1/models": page})
    assert (found.answers, found.is_engine) == (True, False)


@pytest.mark.parametrize("kind", SIGNS)
def test_an_engine_of_a_kind_that_is_told_apart_needs_no_list(kind: str) -> None:
    assert Fingerprint(kind).is_engine


def test_what_a_gateway_says_for_a_busy_engine_is_not_told_by_it() -> None:
    busy = {"/version": (502, (), b""), "/v1/models": (429, (), b"{}"), "/props": (401, (), b"")}
    answers = {**VLLM, **busy}
    assert (set(told(answers)), identify(answers).barred, identify(VLLM).barred) == ({"/", "/props"}, True, False)


def test_ollama_gives_no_window_beyond_what_a_model_was_trained_for() -> None:
    found = identify(OLLAMA)
    assert [found.longest(name) for name in ("smollm2:135m", "other:1b", None)] == [8192, None, None]


def test_vllm() -> None:
    found = identify(VLLM)
    assert (found.kind, found.version, found.models) == ("vllm", "0.32.0", ("m", "lora"))
    assert (found.window("m"), found.window("x"), found.window(None)) == (4096, None, None)


def test_llamacpp() -> None:
    found = identify(LLAMACPP)
    assert (found.kind, found.version, found.slots) == ("llamacpp", "b10434-0c1e", 2)
    assert (found.window("anything"), found.window(None)) == (2048, 2048)


def test_sglang_also_where_it_emulates_ollama() -> None:
    found = identify(SGLANG)
    assert (found.kind, found.version, found.models) == ("sglang", "0.5.23", ("m",))


def test_a_gateway_to_engines_of_several_kinds_is_none_of_them() -> None:
    mixed = {"data": [*models("library", "a")["data"], *models("llamacpp", "b")["data"]]}
    found = identify({**LLAMACPP, "/api/version": OLLAMA["/api/version"], "/v1/models": ok(mixed)})
    assert (found.kind, found.version, found.models) == ("openai", None, ("a", "b"))


@pytest.mark.parametrize(
    ("kind", "answers"),
    [
        ("sglang", {"/v1/models": ok(models("sglang", "m"))}),
        ("sglang", {"/get_server_info": ok({"model_path": "m"})}),
        ("llamacpp", {"/v1/models": ok(models("llamacpp", "m"))}),
        ("llamacpp", {"/props": ok({"build_info": "b1"})}),
        ("llamacpp", {"/api/tags": ok({"models": []}, (b"server", b"llama.cpp"))}),
        ("ollama", {"/v1/models": ok(models("library", "m")), "/api/version": ok({"version": "1"})}),
        ("openai", {"/": ok("Ollama is running")}),
        ("openai", {"/version": ok({"version": "1"})}),
        ("openai", {"/v1/models": ok(models("me", "m"))}),
        ("openai", {}),
    ],
)
def test_one_sign_is_enough_where_it_is_its_own(kind: str, answers: Answers) -> None:
    assert identify(answers).kind == kind


@pytest.mark.parametrize(
    ("answers", "alive"),
    [
        ({}, False),
        ({"/": (503, [], b"")}, False),
        ({"/": (502, [], b""), "/props": (401, [], b"")}, True),
        ({"/": GONE}, True),
        ({"/": GONE, "/props": (503, [], LOADING)}, False),
        ({**LLAMACPP, "/version": (503, [], LOADING)}, False),
        ({"/": GONE, "/props": (503, [], b'{"error": "unavailable_error"}')}, True),
    ],
)
def test_any_answer_that_is_no_failing_gateway_is_an_answer(answers: Answers, alive: bool) -> None:
    assert identify(answers).answers is alive


def test_another_version_or_number_of_slots_is_another_engine() -> None:
    one = identify(LLAMACPP)
    assert one.identity == identify({**LLAMACPP, "/v1/models": GONE}).identity
    more = ok({"total_slots": 4, "build_info": "b10434-0c1e"})
    assert one.identity != identify({**LLAMACPP, "/props": more}).identity


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["data", "models", "id", "name", "owned_by", "version", "n_ctx", "total_slots", "digest"]),
            inner,
        )
    ),
    max_leaves=12,
)


@given(
    st.dictionaries(
        st.sampled_from(PROBES),
        st.tuples(
            st.sampled_from([200, 404, 500]),
            st.just([(b"server", b"x")]),
            JSON.map(lambda x: json.dumps(x).encode()) | st.binary(),
        ),
    ),
    st.sampled_from([{}, OLLAMA, VLLM, LLAMACPP, SGLANG]),
)
def test_garbage_says_nothing_and_raises_nothing(garbage: dict[str, object], engine: Answers) -> None:
    found = identify({**engine, **garbage})  # type: ignore[dict-item]
    assert found.kind in {*SIGNS, "openai"}
    assert all(isinstance(name, str) and name for name in found.models)
    assert all(tokens > 0 for _, tokens in found.windows)
    assert found.slots is None or found.slots > 0


def test_deep_nesting_and_huge_numbers_say_nothing() -> None:
    deep = (200, [], b"[" * 100_000)
    huge = ok({"total_slots": 10**30, "build_info": "b", "default_generation_settings": {"n_ctx": True}})
    found = identify({"/": deep, "/api/tags": deep, "/props": huge})
    assert (found.kind, found.slots, found.windows) == ("llamacpp", None, ())


def test_half_of_a_surrogate_pair_in_a_name_keeps_no_pulse_from_the_office() -> None:
    seen = identify({"/v1/models": (200, [], b'{"data": [{"id": "m\\ud800", "owned_by": "vllm"}]}')})
    assert seen.models == ("m?",)
    encode(Pulse(at_s=0.0, engines=(EngineState(name="e", models=seen.models),)))


def test_what_is_in_memory_is_read_by_name() -> None:
    assert resident(json.dumps({"models": [{"name": "a:1"}, {"name": 3}, 4, {"name": "b:2"}]}).encode()) == {
        "a:1",
        "b:2",
    }
    for junk in (b"", b"[]", b'{"models": 3}', b"\xff"):
        assert resident(junk) == frozenset()


def test_a_models_own_options_are_those_that_load_it_anew() -> None:
    said = (
        'num_ctx                        8192\nstop                           "<|im_end|>"\nnum_gpu  0 \n\nnum_batch\n'
    )
    assert own_options(json.dumps({"parameters": said}).encode()) == (("num_ctx", "8192"), ("num_gpu", "0"))
    for junk in (b"", b"[]", b"{}", b'{"parameters": 3}', b'{"parameters": ["num_ctx 3"]}'):
        assert own_options(junk) == ()


def test_weights_are_told_by_the_from_line() -> None:
    head = "# Modelfile generated by\n# FROM smollm2:135m\n\n"
    for path in (f"/models/blobs/sha256-{DIGEST}", f"sha256:{DIGEST}", f"C:\\models\\sha256-{DIGEST}"):
        assert weights(json.dumps({"modelfile": f"{head}FROM {path}\nTEMPLATE x"}).encode()) == DIGEST
    for junk in (b"", b"[]", b'{"modelfile": 3}', b'{"modelfile": "FROM llama3"}'):
        assert weights(junk) is None
