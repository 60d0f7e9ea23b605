import msgspec
import pytest

from proxy.config import Settings
from proxy.declared import CHANGES, answer_headers, request_headers

ENGINE = {"url": "http://x:1"}


def settings(**tree: object) -> Settings:
    return msgspec.convert({"upstream": [ENGINE], **tree}, Settings)


@pytest.mark.parametrize(
    ("tree", "on"),
    [
        ({}, {"usage"}),
        ({"ask_usage": False}, set()),
        ({"limit": [{"name": "a", "max_output_tokens": 9, "cap_output": True}]}, {"usage", "output_cap"}),
        ({"limit": [{"name": "a", "max_output_tokens": 9, "cap_output": True, "mode": "observe"}]}, {"usage"}),
        ({"limit": [{"name": "a", "requests_per_minute": 9}]}, {"usage", "quota"}),
        ({"upstream": [{**ENGINE, "api_key": "k"}]}, {"usage", "key"}),
        ({"tenants": {"keys_file": "keys.json"}}, {"usage", "key"}),
        ({"prefixes": {"exact_ids": True}}, {"usage", "token_ids"}),
        ({"prefixes": {"exact_ids": True, "audit": False}}, {"usage"}),
        ({"ask_meta_info": True}, {"usage", "meta_info"}),
        ({"server_timing": True}, {"usage", "timing"}),
        ({"upstream": [ENGINE, {"url": "http://y:1"}]}, {"usage", "lists"}),
    ],
)
def test_a_change_is_made_where_the_settings_ask_for_it(tree: dict[str, object], on: set[str]):
    made = {name for name, change in CHANGES.items() if change.when(settings(**tree))}
    assert made == on | {"encoding", "hop", "request_id"}


def test_keys_are_the_clients_own_business_unless_we_have_some():
    assert b"authorization" not in request_headers(settings(), inference=True)
    assert b"authorization" in request_headers(settings(upstream=[{**ENGINE, "api_key": "k"}]), inference=True)


def test_encodings_are_asked_for_on_inference_routes_alone():
    assert b"accept-encoding" in request_headers(settings(), inference=True)
    assert b"accept-encoding" not in request_headers(settings(), inference=False)


def test_times_are_told_where_that_is_on():
    assert b"server-timing" not in answer_headers(settings())
    assert b"server-timing" in answer_headers(settings(server_timing=True))


def test_quota_headers_are_told_where_there_is_a_rate():
    assert b"x-ratelimit-remaining-tokens" not in answer_headers(settings())
    assert b"x-ratelimit-remaining-tokens" in answer_headers(settings(limit=[{"name": "a", "tokens_per_minute": 9}]))
