import pytest

from proxy.records import TokenCount
from proxy.tokens.truncation import truncated


def count(n: int, low: int) -> TokenCount:
    return TokenCount(n=n, how="estimated", low=low, high=2 * n - low, text_tokens=n)


@pytest.mark.parametrize(
    ("counted", "prompt_tokens", "cut"),
    [
        pytest.param(count(30_000, 27_000), 8_194, True, id="half of the window is left"),
        pytest.param(count(9_000, 8_000), 2_050, True, id="an eighth"),
        pytest.param(count(9_000, 8_000), 7_100, False, id="the count's error explains it"),
        pytest.param(count(9_000, 8_000), 6_999, True, id="more than twice the error"),
        pytest.param(count(9_000, 4_500), 4_400, True, id="a wide band, and half is missing"),
        pytest.param(count(9_000, 3_000), 3_100, False, id="a band that reaches beyond half"),
        pytest.param(count(9_000, 8_000), 12_000, False, id="the engine found more"),
        pytest.param(count(100, 100), 97, False, id="an exact count, a few tokens off"),
        pytest.param(count(100, 100), 94, True, id="an exact count, far off"),
        pytest.param(count(0, 0), 0, False, id="nothing sent"),
        pytest.param(count(9_000, 8_000), None, False, id="the engine says nothing"),
        pytest.param(None, 2_050, False, id="nothing counted"),
    ],
)
def test_a_cut_shows_where_the_engine_read_far_fewer_tokens(
    counted: TokenCount | None, prompt_tokens: int | None, cut: bool
) -> None:
    assert truncated(counted, prompt_tokens) is cut
