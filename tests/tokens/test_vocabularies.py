import hashlib

import pytest

from proxy.tokens.vocabularies import VOCABULARIES, DamagedVocabulary, load, read_ranks


@pytest.mark.parametrize(
    ("name", "text", "tokens"),
    [
        ("cl100k_base", "Say hi", 2),
        ("cl100k_base", "What is in this picture?", 6),
        ("cl100k_base", "Explain what <|endoftext|> does.", 11),
        ("cl100k_base", " hello" * 36, 36),
        ("cl100k_base", "hello " * 150, 151),
        ("o200k_base", "Say hi", 2),
        ("o200k_base", "tokenização", 2),
    ],
)
def test_counts_are_those_of_the_public_encodings(name: str, text: str, tokens: int) -> None:
    assert len(load(name).encode_ordinary(text)) == tokens


@pytest.mark.parametrize("name", VOCABULARIES)
def test_special_tokens_follow_the_ranks(name: str) -> None:
    encoding = load(name)
    assert encoding.encode("<|endoftext|>", allowed_special="all") == [encoding.eot_token]
    assert encoding.decode(encoding.encode_ordinary("Olá, <|endoftext|> 中文")) == "Olá, <|endoftext|> 中文"


def test_a_name_that_is_not_shipped_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        load("gpt-5")


def test_a_changed_rank_file_is_refused() -> None:
    data = b"IQ== 0\nIg== 1\n"
    assert read_ranks(data, hashlib.sha256(data).hexdigest()) == {b"!": 0, b'"': 1}
    with pytest.raises(DamagedVocabulary, match="sha256"):
        read_ranks(data + b"Iw== 2\n", hashlib.sha256(data).hexdigest())
