import pytest

from proxy.events import NOTHING, Event, Frame
from proxy.records import RequestFacts
from proxy.wire.passthrough import Passthrough, Refusals


def test_what_is_passed_through_is_not_read():
    reader = Passthrough(RequestFacts("passthrough", "audio", "inference"), True)
    assert reader.read(Frame(b"not json")) == NOTHING
    assert reader.complete()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(b'{"error":{"message":"m","code":400}}', "m", id="OpenAI"),
        pytest.param(b'{"error":"Unauthorized"}', "Unauthorized", id="a string"),
        pytest.param(b'{"object":"error","message":"m","code":400}', "m", id="flat"),
        pytest.param(b'{"detail":"Not Found"}', "Not Found", id="FastAPI"),
        pytest.param(b'{"detail":[{"msg":"x"}]}', "error", id="FastAPI's list"),
        pytest.param(b'{"type":"error","error":{"type":"not_found_error","message":"m"}}', "m", id="Anthropic"),
        pytest.param(b"404 page not found", "404 page not found", id="text"),
        pytest.param(b"<html>" + b"x" * 500, "<html>" + "x" * 194, id="a page"),
        pytest.param(b"\xff", "\ufffd", id="no text"),
        pytest.param(b" ", "error", id="blank"),
        pytest.param(b"[]", "error", id="no object"),
    ],
)
def test_a_refusal_is_an_error_in_words(body, message):
    reader = Refusals()
    assert reader.read(Frame(body)) == Event(error=message)
    assert reader.complete()
