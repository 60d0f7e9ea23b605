import json

import pytest

from proxy import errors
from proxy.wire.dialects import DIALECTS
from proxy.wire.errors import render, status_of
from proxy.wire.reports import complaint


def leaves(kind: type[errors.ProxyError]) -> list[type[errors.ProxyError]]:
    return [kind, *(leaf for below in kind.__subclasses__() for leaf in leaves(below))]


def made(kind: type[errors.ProxyError]) -> errors.ProxyError:
    if issubclass(kind, errors.Shed):
        return kind("later", reason="queue_full", rule="r", retry_after_s=2.25, status=503)
    return kind("no")


ALL = leaves(errors.ProxyError)


@pytest.mark.parametrize("dialect", [*DIALECTS, "nobody"])
@pytest.mark.parametrize("kind", ALL, ids=[kind.__name__ for kind in ALL])
def test_every_error_is_rendered_in_every_dialect(kind, dialect):
    error = made(kind)
    status, headers, body = render(dialect, error)
    said = json.loads(body)
    assert status == status_of(error)
    assert 400 <= status < 600
    assert dict(headers)[b"content-type"] == b"application/json"
    assert dict(headers)[b"content-length"] == str(len(body)).encode()
    assert json.dumps(str(error)) in json.dumps(said)


def test_the_shapes_are_those_of_the_engines():
    error = errors.PromptTooLong("too long")
    bodies = {dialect: json.loads(render(dialect, error)[2]) for dialect in DIALECTS}
    openai = {
        "error": {
            "message": "too long",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        }
    }
    assert bodies == {
        "openai": openai,
        "responses": openai,
        "passthrough": openai,
        "ollama": {"error": "too long"},
        "anthropic": {"type": "error", "error": {"type": "invalid_request_error", "message": "too long"}},
        "llamacpp": {"error": {"code": 400, "message": "too long", "type": "exceed_context_size_error"}},
        "sglang": {
            "object": "error",
            "message": "too long",
            "type": "invalid_request_error",
            "param": "messages",
            "code": 400,
        },
    }


@pytest.mark.parametrize(
    ("error", "anthropic", "llamacpp"),
    [
        (errors.BadKey("x"), "authentication_error", "authentication_error"),
        (errors.Forbidden("x"), "permission_error", "permission_error"),
        (errors.UnknownModel("x"), "not_found_error", "not_found_error"),
        (errors.BodyTooLarge("x"), "request_too_large", "invalid_request_error"),
        (errors.UpgradeRefused("x"), "api_error", "not_supported_error"),
        (made(errors.Shed), "overloaded_error", "unavailable_error"),
        (errors.EngineTimeout("x"), "timeout_error", "server_error"),
        (errors.Fault("x"), "api_error", "server_error"),
    ],
)
def test_types_follow_the_status(error, anthropic, llamacpp):
    assert json.loads(render("anthropic", error)[2])["error"]["type"] == anthropic
    assert json.loads(render("llamacpp", error)[2])["error"]["type"] == llamacpp


@pytest.mark.parametrize(
    ("wait", "seconds", "milliseconds"),
    [(2.25, b"3", b"2250"), (2, b"2", b"2000"), (0, b"1", b"1"), (-4, b"1", b"1"), (300.5, b"301", b"300500")],
)
def test_a_shed_request_is_told_when_to_come_back(wait, seconds, milliseconds):
    error = errors.Shed("later", reason="rate_requests", rule="r", retry_after_s=wait)
    status, headers, _ = render("openai", error)
    assert status == 429
    assert dict(headers)[b"retry-after"] == seconds
    assert dict(headers)[b"retry-after-ms"] == milliseconds


@pytest.mark.parametrize("wait", [None, float("nan"), float("inf")])
def test_a_wait_that_nobody_knows_is_not_told(wait):
    error = errors.Shed("later", reason="queue_full", rule="r", retry_after_s=wait)
    assert b"retry-after" not in dict(render("openai", error)[1])


def test_a_message_that_is_no_unicode_is_rendered():
    assert json.loads(render("ollama", errors.BadRequest("a\ud800"))[2]) == {"error": "a?"}


@pytest.mark.parametrize(
    ("stated", "kind"),
    [
        ({"message": "m", "type": "BadRequestError", "code": 400}, "BadRequestError"),
        ({"error": {"message": "m", "type": "exceed_context_size_error"}}, "exceed_context_size_error"),
        ({"type": "error", "error": {"type": "overloaded_error"}}, "overloaded_error"),
        ({"detail": {"code": "x.1"}}, "x.1"),
        ({"type": "abort", "err_type": "ValueError"}, "ValueError"),
        ({"type": "words of the prompt", "code": "c"}, "c"),
        ({"type": "t" * 65}, ""),
        ({"type": "t\n"}, ""),
        ({"message": "m", "code": 400}, ""),
        ({"error": "secret"}, ""),
        ({"error": {"error": {"type": "deep"}}}, ""),
        ("secret", ""),
        (5, ""),
        (None, ""),
    ],
)
def test_an_engines_complaint_is_its_kind_and_never_its_message(stated, kind):
    assert complaint(stated) == kind
