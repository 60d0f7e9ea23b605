import inspect
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.tokens.shapes import Ruler, Shape, fewest, total
from proxy.tokens.vocabularies import load


class Letters:
    """A vocabulary of one thousand characters."""

    n_vocab = 1000

    def encode_ordinary(self, text: str) -> list[int]:
        return [ord(char) % 1000 for char in text]


def shape(text: str) -> Shape:
    return Ruler(Letters()).measure(text, text.encode("utf-8", "surrogatepass"))


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
        latin=1,
    )


def test_rare_tokens_are_counted_from_their_share_of_the_vocabulary_on() -> None:
    text = "".join(map(chr, (14, 15, 99, 100, 299, 300, 699, 700, 899, 900)))
    assert shape(text)[1:6] == (1, 7, 5, 3, 1)


def test_scripts_are_told_by_the_byte_that_their_characters_begin_with() -> None:
    assert shape("aéü ńə ωжשم कไა 研ョ한 🎉😀 —ﬁ\ud800")[-6:] == (51, 4, 4, 3, 4, 2)


def test_the_shape_of_nothing_is_empty() -> None:
    assert shape("") == Shape() == total([])


@given(st.lists(st.text(max_size=30), max_size=5))
def test_shapes_add_up(parts: list[str]) -> None:
    whole = total([shape(part) for part in parts])
    assert whole.tokens == sum(map(len, parts))
    assert whole.foreign == sum(len(char.encode()) for part in parts for char in part if ord(char) > 127)


SAMPLES = {
    "English": "The lighthouse keeper finally understood why the bridge was closed before the auditors arrived. " * 9,
    "Latin": "lorem ipsum dolor " * 200,
    "code": inspect.getsource(textwrap),
    "JSON": '{"id": 4711, "name": "garden chair", "price": 19.90, "tags": ["wood", "outdoor"], "stock": null}\n' * 9,
    "blanks": " " * 900 + "\n" * 99 + "\t" * 99,
    "Portuguese": "A reunião foi adiada porque ninguém encontrou a solução; amanhã às três começará outra vez. " * 9,
    "Chinese": "请把订单号告诉我们，客户可以在三十天内退货。我们会尽快处理您的请求，谢谢。" * 9,  # noqa: RUF001
    "Thai": "กรุณาแจ้งหมายเลขคำสั่งซื้อให้เราทราบ ลูกค้าสามารถคืนสินค้าได้ภายในสามสิบวัน" * 9,
    "Hindi": "कृपया हमें अपना ऑर्डर नंबर बताएं, ग्राहक तीस दिनों के भीतर सामान वापस कर सकते हैं। " * 9,
    "Georgian": "გთხოვთ მოგვწეროთ შეკვეთის ნომერი და ჩვენ მალე გიპასუხებთ. " * 9,
    "mixed": "Order 4711: ลูกค้าสามารถคืนสินค้าได้ within thirty days, 谢谢。" * 9,
}


@pytest.mark.parametrize("text", SAMPLES.values(), ids=SAMPLES)
@pytest.mark.parametrize(("ours", "theirs"), [("cl100k_base", "o200k_base"), ("o200k_base", "cl100k_base")])
def test_no_vocabulary_finds_fewer_tokens_than_are_said(ours: str, theirs: str, text: str) -> None:
    found = Ruler(load(ours)).measure(text, text.encode())
    assert fewest(found.tokens, found.foreign) <= len(load(theirs).encode_ordinary(text))


def test_of_plain_text_more_is_said_than_of_other_scripts() -> None:
    assert fewest(100, 0) == 60
    assert fewest(100, 4) == pytest.approx(0.6 * 96 + 0.1 * 4)
    assert fewest(100, 300) == 10
    assert fewest(0, 0) == 0
