import pytest

from proxy.names import LONGEST, Listed, serves, short, shortest, spellings, takes


@pytest.mark.parametrize(
    ("spelt", "name"),
    [
        ("llama3.2", "llama3.2"),
        ("LLaMA3.2:Latest", "llama3.2"),
        ("library/llama3.2", "llama3.2"),
        ("registry.ollama.ai/library/llama3.2:latest", "llama3.2"),
        ("https://Registry.Ollama.ai/library/llama3.2", "llama3.2"),
        ("registry.ollama.ai/user/m:7b", "user/m:7b"),
        ("llama3.2:1b", "llama3.2:1b"),
        ("Qwen/Qwen3-8B", "qwen/qwen3-8b"),
        ("s3://bucket/m", "s3://bucket/m"),
        ("hf.co/library/m:latest", "hf.co/library/m"),
        (":latest", ""),
        ("", ""),
    ],
)
def test_a_model_has_one_name_however_it_is_spelt(spelt: str, name: str) -> None:
    assert shortest(spelt) == name


def test_a_name_has_all_spellings_that_a_pattern_may_have() -> None:
    assert spellings("m") == [
        "m",
        "m:latest",
        "library/m",
        "library/m:latest",
        "registry.ollama.ai/library/m",
        "registry.ollama.ai/library/m:latest",
    ]
    assert spellings("user/m:7b") == ["user/m:7b", "registry.ollama.ai/user/m:7b"]


def test_every_spelling_leads_back_to_the_name() -> None:
    for name in ("m", "m:7b", "user/m", "user/m:7b"):
        assert {shortest(each) for each in spellings(name)} == {name}


def test_a_name_that_is_not_listed_may_mean_any_model_that_is() -> None:
    assert Listed(lambda: ("A:latest",)).behind("a") == ("A:latest",)
    several = Listed(lambda: ("A:latest", "b"))
    assert [several.behind(name) for name in ("library/A", "b", "c", None)] == [
        (),
        (),
        ("A:latest", "b"),
        ("A:latest", "b"),
    ]
    assert Listed(tuple).behind("a") == ()


def test_a_name_is_found_as_it_is_listed() -> None:
    listed = Listed(lambda: ("Llama3:latest", "llama3", "Qwen/Qwen3"))
    assert [listed.spelt(name) for name in ("LLAMA3", "library/llama3:latest", "qwen/qwen3", "other")] == [
        "Llama3:latest", "Llama3:latest", "Qwen/Qwen3", "other",
    ]  # fmt: skip
    assert [listed.spelt(name) for name in ("Llama3:latest", "llama3")] == [
        "Llama3:latest"
    ] * 2  # one model, listed twice
    assert listed.has("llama3")
    assert not listed.has("llama")
    odd = Listed(lambda: ("m:latest:latest", "m"))
    assert [odd.spelt(name) for name in ("m:latest", "m:latest:LATEST")] == ["m", "m:latest:latest"]


def test_a_name_is_kept_in_bounded_length_and_stands_for_itself_alone() -> None:
    assert short("m" * LONGEST) == "m" * LONGEST
    longer = [short("m" * LONGEST + str(n)) for n in range(100)]
    assert {len(name) for name in longer} == {LONGEST}
    assert len(set(longer)) == 100
    assert all(name.startswith("mmmm") for name in longer)
    assert len(short("\ud800" * 4_096)) == LONGEST


def test_ollamas_short_name_means_latest() -> None:
    assert serves(["m:latest"], "m")
    assert not serves(["m:7b"], "m")
    assert serves(["m"], "m")
    assert takes(["M:latest"], "library/m")
    assert not takes(["m:7b"], "m")
