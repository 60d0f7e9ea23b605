from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from proxy.tokens.hf import LocalTokenizer
from proxy.tokens.shapes import Ruler


@pytest.fixture
def file(tmp_path: Path) -> str:
    made = Tokenizer(WordLevel({"say": 0, "hi": 1, "?": 2, "<": 3, "s": 4, ">": 5}, unk_token="?"))
    made.pre_tokenizer = Whitespace()
    made.add_special_tokens(["<s>"])
    made.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 6)])
    made.enable_truncation(3)
    path = tmp_path / "tokenizer.json"
    made.save(str(path))
    return str(path)


def test_a_models_own_file_counts_text_alone(file: str) -> None:
    local = LocalTokenizer(file)
    assert local.encode_ordinary("say hi say hi") == [0, 1, 0, 1]
    assert local.n_vocab == 6


def test_text_that_spells_a_special_token_is_plain_text(file: str) -> None:
    assert LocalTokenizer(file).encode_ordinary("<s>") == [3, 4, 5]


def test_it_measures_like_any_encoder(file: str) -> None:
    text = "say \ud800"
    assert Ruler(LocalTokenizer(file)).measure(text, text.encode("utf-8", "surrogatepass")).tokens == 2
