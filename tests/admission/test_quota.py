import pytest

from proxy.admission.quota import Quota, duration, ratelimit_headers


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0s"),
        (1, "1ms"),
        (12_000_000, "12ms"),
        (1_000_000_000, "1s"),
        (8_640_000_000, "8.64s"),
        (59_999_999_999, "1m0s"),
        (360_000_000_000, "6m0s"),
        (3_600_500_000_000, "1h0m0.5s"),
    ],
)
def test_durations_are_written_as_go_does(ns: int, text: str) -> None:
    assert duration(ns) == text


def test_headers_are_openais_and_speak_only_of_what_is_limited() -> None:
    requests, tokens = Quota(60, 59, 1_000_000_000), Quota(150_000, 149_984, 6_000_000)
    assert ratelimit_headers(requests, tokens) == [
        (b"x-ratelimit-limit-requests", b"60"),
        (b"x-ratelimit-remaining-requests", b"59"),
        (b"x-ratelimit-reset-requests", b"1s"),
        (b"x-ratelimit-limit-tokens", b"150000"),
        (b"x-ratelimit-remaining-tokens", b"149984"),
        (b"x-ratelimit-reset-tokens", b"6ms"),
    ]
    assert ratelimit_headers(None, tokens) == ratelimit_headers(requests, tokens)[3:]
    assert ratelimit_headers(None, None) == []
