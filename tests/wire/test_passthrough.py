import pytest

from proxy.events import NOTHING, Event, Frame
from proxy.records import RequestFacts
from proxy.wire.passthrough import Passthrough, Refusals


def test_what_is_passed_through_is_not_read():
    reader = Passthrough(RequestFacts("passthrough", "audio", "inference"), True)
    assert reader.read(Frame(b"not json")) == NOTHING
    assert reader.complete()


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        pytest.param(b'{"error":{"message":"m","code":400}}', "", id="OpenAI"),
        pytest.param(b'{"error":{"message":"m","type":"BadRequestError"}}', "BadRequestError", id="vLLM"),
        pytest.param(b'{"error":"Unauthorized"}', "", id="a string"),
        pytest.param(b'{"error":"m","error_type":"validation"}', "validation", id="TGI"),
        pytest.param(b'{"object":"error","message":"m","type":"t","code":400}', "t", id="flat"),
        pytest.param(b'{"detail":"Not Found"}', "", id="FastAPI"),
        pytest.param(b'{"detail":[{"msg":"x"}]}', "", id="FastAPI's list"),
        pytest.param(
            b'{"type":"error","error":{"type":"not_found_error","message":"m"}}', "not_found_error", id="Anthropic"
        ),
        pytest.param(b"404 page not found", "", id="text"),
        pytest.param(b"<html>" + b"x" * 500, "", id="a page"),
        pytest.param(b"\xff", "", id="no text"),
        pytest.param(b" ", "", id="blank"),
        pytest.param(b"[]", "", id="no object"),
    ],
)
def test_a_refusal_is_an_error_of_a_kind(body, kind):
    reader = Refusals()
    assert reader.read(Frame(body)) == Event(error=kind)
    assert reader.complete()
