import pytest

from proxy.prefixes.texts import Texts
from tests.prefixes.readings import ids, letters, reading


@pytest.fixture
def texts():
    return Texts(letters, b"key")


def test_lines_seen_before_are_known_again(texts):
    line = "a line that is long enough to be remembered"
    assert texts.repeated(reading(texts, f"one\n{line}"), 0) == 0
    again = reading(texts, f"two, another\n{line}")
    assert 0.7 * len(line) < texts.repeated(again, 0) <= again.sight.tokens
    assert texts.repeated(again, again.sight.tokens) == 0


def test_what_a_prompt_repeats_of_itself_was_not_seen_before(texts):
    said = "\n".join(["a line that is long enough to be remembered"] * 50)
    assert texts.repeated(reading(texts, said), 0) == 0
    again = reading(texts, f"behind another beginning\n{said}")
    assert 0.9 * again.tokens < texts.repeated(again, 0) <= again.tokens


@pytest.mark.parametrize("between", ["\n", " "], ids=["lines", "one long line"])
def test_what_is_cached_of_a_text_says_nothing_of_the_rest(texts, between):
    def words(beginning, count):
        return between.join(f"the {beginning}{number:02} thing of this house" for number in range(count))

    rules = words("rule", 40)
    first = reading(texts, rules)
    texts.repeated(first, 0)
    behind = len("_user\n") + len(rules)
    new = reading(texts, rules + between + words("news", 40))
    assert texts.repeated(new, behind) < 0.05 * new.tokens
    again = reading(texts, words("lead", 20) + between + words("news", 40))
    assert 0.5 * again.tokens < texts.repeated(again, 0) < 0.75 * again.tokens


@pytest.mark.parametrize("asked", [range(1_000, 1_400), [k * 7_919 % 50_000 for k in range(400)]], ids=["row", "mixed"])
def test_token_ids_seen_behind_another_beginning_are_known_again(texts, asked):
    assert texts.repeated(ids(texts, 5, *asked), 0) == 0
    assert 250 < texts.repeated(ids(texts, 6, *asked), 0) <= 401
    assert texts.repeated(ids(texts, 7, *asked), 401) == 0
    assert texts.repeated(ids(texts, 2**32 - 1, *asked), 0) == 0, "no vocabulary has such an id"


def test_chains_of_one_block_size_are_shared(texts):
    assert texts.chains(16) is texts.chains(16)
    assert texts.chains(16) is not texts.chains(32)
