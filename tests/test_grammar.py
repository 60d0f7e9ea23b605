import re

import pytest

from proxy.grammar import is_credential, is_field, is_host, is_text, place, split_address, texts


@pytest.mark.parametrize("text", ["a b", "/tmp/ä b", "\u202ex", "\u3000", ""])
def test_names_and_paths_are_text(text: str) -> None:
    assert is_text(text)


@pytest.mark.parametrize("text", ["a\nb", "\r", "\0", "\x1b[31m", "\x7f", "\x85", "\u2028", "\udcff"])
def test_a_line_end_a_control_character_and_half_a_character_are_none(text: str) -> None:
    assert not is_text(text)


@pytest.mark.parametrize(("text", "good"), [("sk-1", True), ("a b", True), (" a", False), ("a ", False), ("é", False)])
def test_a_key_comes_as_it_was_sent(text: str, good: bool) -> None:
    assert is_credential(text) is good


@pytest.mark.parametrize(("text", "good"), [("x-tenant", True), ("x y", False), ("x:", False), ("", False)])
def test_a_header_s_name_is_a_token(text: str, good: bool) -> None:
    assert is_field(text) is good


@pytest.mark.parametrize("host", ["a", "a.b-c", "x_y", "127.0.0.1", "::1", "fe80::1%eth0", "xn--mnchen-3ya.de", ""])
def test_a_host_s_name(host: str) -> None:
    assert is_host(host)


@pytest.mark.parametrize("host", ["a b", "a..b", "a" * 64, "a/b", "a@b", "münchen.de", "[::1]", "a\\b"])
def test_what_names_no_host(host: str) -> None:
    assert not is_host(host)


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("http://a:1", ("a", "")),
        ("HTTPS://[::1]/", ("::1", "/")),
        ("http://a:1/v1?x", ("a", "/v1?x")),
        ("http://a?x", ("a", "?x")),
        ("http://a:0", ("", "")),
        ("http://a:65536", ("", "")),
        ("http://a:b", ("", "")),
        ("http://[::1", ("", "")),
        ("http://[v1.x]", ("", "")),
        (" http://a", ("", "")),
        ("ftp://a", ("", "")),
        ("http://", ("", "")),
        ("a:1", ("", "")),
    ],
)
def test_the_place_of_an_engine(url: str, found: tuple[str, str]) -> None:
    assert place(url) == found


def test_texts_are_found_in_values_lists_and_tables() -> None:
    assert list(texts("a")) == ["a"]
    assert list(texts(("a", 1, "b"))) == ["a", "b"]
    assert sorted(texts({"a": "b"})) == ["a", "b"]
    assert list(texts(1.0)) == []


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("h:1", ("h", 1)),
        ("[::1]:2", ("::1", 2)),
        (":3", ("0.0.0.0", 3)),
        ("h:0065535", None),
        ("h:65535", ("h", 65535)),
    ],
)
def test_addresses_are_host_and_port(text: str, address: tuple[str, int] | None) -> None:
    if address is None:
        with pytest.raises(ValueError, match="is not HOST:PORT"):
            split_address(text)
    else:
        assert split_address(text) == address


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("99999", "'99999' is not HOST:PORT"),
        ("h:", "'h:' is not HOST:PORT"),
        ("::1:80", "'::1:80' is not HOST:PORT"),
        ("h:70000", "'h:70000' is not HOST:PORT: the last port is 65535"),
        ("a b:1", "'a b:1' names no host"),
    ],
)
def test_what_is_no_address_is_said(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(says)}$"):
        split_address(text)
