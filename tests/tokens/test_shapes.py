from hypothesis import given
from hypothesis import strategies as st

from proxy.tokens.shapes import Shape, measure, total


class Letters:
    """A vocabulary of one thousand characters."""

    n_vocab = 1000

    def encode_ordinary(self, text: str) -> list[int]:
        return [ord(char) % 1000 for char in text]


def shape(text: str) -> Shape:
    return measure(Letters(), text, text.encode("utf-8", "surrogatepass"))


def test_every_number_says_what_its_name_says() -> None:
    assert shape("Ab c9d, x2!?\n\té _'/") == Shape(
        tokens=19,
        common=2,  # the line feed and the tab: ranks below 15
        rare_10=3,  # d, x and é: c is 99
        rare_30=0,
        rare_70=0,
        rare_90=0,
        words=4,
        spaced=2,
        letters=5,
        capitals=1,
        digits=2,
        mixed=1,
        marks=3,
        quotes=1,
        underscores=1,
        slashes=1,
        spaces=4,
        tabs=1,
        lines=1,
        indented=1,
        foreign=2,
    )


def test_rare_tokens_are_counted_from_their_share_of_the_vocabulary_on() -> None:
    text = "".join(map(chr, (14, 15, 99, 100, 299, 300, 699, 700, 899, 900)))
    assert shape(text)[1:6] == (1, 7, 5, 3, 1)


def test_the_shape_of_nothing_is_empty() -> None:
    assert shape("") == Shape() == total([])


@given(st.lists(st.text(max_size=30), max_size=5))
def test_shapes_add_up(parts: list[str]) -> None:
    whole = total([shape(part) for part in parts])
    assert whole.tokens == sum(map(len, parts))
    assert whole.foreign == sum(len(char.encode()) for part in parts for char in part if ord(char) > 127)
