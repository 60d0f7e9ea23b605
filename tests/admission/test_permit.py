import pytest

from proxy.admission.hold import Now
from proxy.admission.permit import ADMITTED, Permit, free, spent
from proxy.records import Usage

NOW = Now(10**12, 36_000.0)
SAID = Usage(prompt_tokens=40, output_tokens=10)


def test_a_permit_ends_once() -> None:
    ends: list[tuple[str, Usage | None, int]] = []
    permit = Permit(ADMITTED, None, lambda how, usage, written: ends.append((how, usage, written)))
    permit.first_token()
    permit.ended("success", SAID, 9)
    permit.ended("withdrawn", None)
    assert ends == [("success", SAID, 9)]
    free().ended("success", None)


@pytest.mark.parametrize(
    ("how", "usage", "written", "requests", "prompt", "output"),
    [
        pytest.param("success", SAID, 9, 1, 40, 10, id="the engine's word"),
        pytest.param("success", SAID, 99, 1, 40, 10, id="the engine's word against ours"),
        pytest.param("success", None, 300, 1, 100, 300, id="no word of usage: what was seen"),
        pytest.param("success", Usage(prompt_tokens=40), 300, 1, 40, 300, id="no word of output"),
        pytest.param("ignore", None, 300, 1, 100, 300, id="the client hung up"),
        pytest.param("ignore", Usage(40, 5), 300, 1, 40, 300, id="the client hung up after an early word"),
        pytest.param("dropped", Usage(output_tokens=400), 300, 1, 100, 400, id="broken off after a late word"),
        pytest.param("ignore", None, 0, 1, 100, 0, id="nothing was written"),
        pytest.param("rejected", None, 0, 1, 0, 0, id="the engine refused it"),
        pytest.param("rejected", SAID, 0, 1, 40, 10, id="the engine refused it and says what that cost"),
        pytest.param("withdrawn", SAID, 9, 0, 0, 0, id="it never went there"),
    ],
)
def test_what_is_not_said_is_booked_as_it_was_charged_and_seen(
    how: str, usage: Usage | None, written: int, requests: int, prompt: int, output: int
) -> None:
    assert spent(NOW, 100, how, usage, written) == (NOW, requests, prompt, prompt + output)
