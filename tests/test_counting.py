"""Desks of all engines: vocabularies by name or file."""

import asyncio
import sys
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from proxy.config import Tokens
from proxy.counting import Desks, NoDesk
from proxy.flaws import ConfigError
from proxy.records import Message, Part, Prompt, RequestFacts, TokenCount, Usage
from proxy.tokens.desk import Desk
from proxy.tokens.exact import Question
from proxy.tokens.vocabularies import load
from tests.support.desks import nobody

TEXT = "How many tokens are there? いくつありますか。"


def asking(model: str) -> RequestFacts:
    prompt = Prompt(messages=(Message("user", (Part("text", TEXT),)),))
    return RequestFacts("openai", "chat", "inference", model=model, prompt=prompt)


def counted(desk: Desk | NoDesk, model: str) -> TokenCount:
    count = asyncio.run(desk.count(asking(model), b"{}"))
    assert count is not None
    return count


def test_a_prompt_is_counted_with_the_vocabulary_of_its_model() -> None:
    desk = Desks(Tokens(vocabulary="cl100k_base", models={"new": "o200k_base"})).desk(nobody)
    old, new = (len(load(name).encode_ordinary(TEXT)) for name in ("cl100k_base", "o200k_base"))
    assert old != new
    assert (counted(desk, "any").text_tokens, counted(desk, "new").text_tokens) == (old, new)


def test_what_one_engine_says_of_a_model_tells_nothing_of_anothers() -> None:
    desks = Desks(Tokens())
    one, other = desks.desk(nobody), desks.desk(nobody)
    for _ in range(20):
        one.learn(asking("m"), counted(one, "m"), Usage(prompt_tokens=90, output_tokens=1))
    assert counted(one, "m").how == "calibrated"
    assert counted(other, "m").how == "estimated"


def test_the_default_vocabulary_encodes_any_text() -> None:
    assert Desks(Tokens()).encode(TEXT + "<|endoftext|>")[:3] == load("cl100k_base").encode_ordinary(TEXT)[:3]


def test_a_models_own_file_counts_it(tmp_path: Path) -> None:
    made = Tokenizer(WordLevel({"How": 0, "?": 1}, unk_token="?"))
    made.pre_tokenizer = Whitespace()
    made.save(str(tmp_path / "tokenizer.json"))
    desk = Desks(Tokens(models={"m": str(tmp_path / "tokenizer.json")})).desk(nobody)
    assert counted(desk, "m").text_tokens == len(made.encode(TEXT).ids)


def test_a_file_that_is_no_tokenizer_is_named(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_text("{}", "utf-8")
    with pytest.raises(ConfigError, match=r"^tokens\.models: cannot read .*tokenizer\.json"):
        Desks(Tokens(models={"m": str(file)}))


def test_without_the_extra_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "proxy.tokens.hf", None)
    with pytest.raises(ConfigError, match=r"needs the extra `hf`"):
        Desks(Tokens(models={"m": "tokenizer.json"}))


def test_an_engine_is_asked_only_where_that_is_set() -> None:
    asked: list[str] = []

    async def ask(question: Question) -> bytes | None:
        asked.append(question.target)
        return None

    for on in (False, True):
        desk = Desks(Tokens(ask_engine=on)).desk(ask)
        desk.serves("vllm")
        counted(desk, "m")
    assert asked == ["/tokenize"]


def test_vllm_is_asked_where_prompts_are_to_be_spelt() -> None:
    asked: list[str] = []

    async def ask(question: Question) -> bytes | None:
        asked.append(question.target)
        return None

    desk = Desks(Tokens(), spells=True).desk(ask)
    for kind in ("llamacpp", "vllm"):
        desk.serves(kind)
        counted(desk, "m")
    assert asked == ["/tokenize"]


def test_without_counting_nothing_is_counted_learnt_or_kept() -> None:
    desk = Desks(Tokens(count=False)).desk(nobody)
    desk.serves("vllm")
    assert desk.restore({"new": 5}) == 0
    assert asyncio.run(desk.count(asking("new"), b"{}")) is None
    desk.learn(asking("new"), None, Usage(prompt_tokens=3))
    assert (desk.snapshot(), desk.to_dict()) == ({}, {})
