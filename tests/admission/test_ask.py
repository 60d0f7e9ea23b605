import pytest

from proxy.admission.ask import OTHERS, ask
from proxy.names import LONGEST
from proxy.records import Prompt, RequestFacts, TokenCount
from tests.admission.known import Known

FACTS = RequestFacts("openai", "chat", "inference", model="m1", prompts=2, max_output=9)


def test_a_request_weighs_what_its_count_says() -> None:
    count = TokenCount(n=100, how="estimated", low=80, high=130, text_tokens=90)
    asked = ask(FACTS, count, "team-a", Known(given={"": 4096}))
    assert asked == ("chat", "m1", "team-a", "gpu-1", 80, 100, 2, 9, 4096, False, "", "m1", (), "")


def test_a_prompt_that_was_not_counted_weighs_nothing() -> None:
    assert ask(FACTS, None, None, Known()) == ("chat", "m1", None, "gpu-1", 0, 0, 2, 9, None, False, "", "m1", (), "")


def test_a_prompt_that_cannot_be_read_weighs_by_its_bytes() -> None:
    asked = ask(FACTS._replace(body_bytes=1_600), None, None, Known())
    assert (asked.low, asked.n) == (100, 400)


def test_a_prompt_that_could_be_read_and_is_not_counted_weighs_nothing() -> None:
    asked = ask(FACTS._replace(body_bytes=1_600, prompt=Prompt(texts=("a",))), None, None, Known())
    assert (asked.low, asked.n) == (0, 0)


def test_a_body_that_is_not_read_for_certain_may_mean_any_model() -> None:
    assert not ask(FACTS._replace(body_bytes=9), None, None, Known()).nameless
    asked = ask(FACTS._replace(body_bytes=9, unread="it has `model` twice"), None, None, Known())
    assert (asked.nameless, asked.unread) == (True, "it has `model` twice")


def test_a_body_of_which_the_prompt_alone_is_in_doubt_means_the_model_that_it_names() -> None:
    asked = ask(FACTS._replace(unread_prompt="it brings a template of its own"), None, None, Known())
    assert (asked.nameless, asked.unread, asked.unread_prompt) == (False, "", "it brings a template of its own")


@pytest.mark.parametrize(
    ("dialect", "num_ctx", "window"),
    [("ollama", "8192", 8_192), ("ollama", "1024", 1_024), ("ollama", "true", 4_096), ("openai", "8192", 4_096)],
)
def test_ollama_takes_the_window_that_a_request_asks_for(dialect: str, num_ctx: str, window: int) -> None:
    asks = FACTS._replace(dialect=dialect, options=(("num_ctx", num_ctx),))
    assert ask(asks, None, None, Known(given={"": 4_096})).window == window


@pytest.mark.parametrize(("num_ctx", "window"), [("1000000", 8_192), ("8193", 8_192), ("1024", 1_024), ("", 4_096)])
def test_no_window_is_longer_than_the_engine_gives(num_ctx: str, window: int) -> None:
    asks = FACTS._replace(dialect="ollama", options=(("num_ctx", num_ctx),))
    assert ask(asks, None, None, Known(given={"": 4_096}, longest=8_192)).window == window


def test_a_body_that_passes_unread_may_mean_any_model() -> None:
    assert ask(RequestFacts("passthrough", "audio", "inference"), None, None, Known()).nameless


def test_models_that_are_not_listed_are_counted_as_one_and_long_names_by_a_short_one() -> None:
    def counted(model: str | None) -> str:
        return ask(FACTS._replace(model=model), None, None, Known(models=("M1", "m" * 4_096))).counted

    assert [counted("Library/M1:latest"), counted("made-up"), counted(None)] == ["m1", OTHERS, ""]
    assert len(counted("m" * 4_096)) == LONGEST


def test_the_model_that_will_answer_stands_beside_the_name_that_is_asked_for() -> None:
    asked = ask(FACTS, None, None, Known(models=("Smol:latest",), any_name=True))
    assert (asked.model, asked.served, asked.counted) == ("m1", ("smol",), "smol")
    several = ask(FACTS, None, None, Known(models=("Smol:latest", "b"), any_name=True))
    assert (several.model, several.served, several.counted) == ("m1", ("smol", "b"), OTHERS)


def test_a_limit_that_the_engine_does_not_heed_is_none() -> None:
    assert ask(FACTS, None, None, Known(heeding=False)).max_output is None
