import json
from array import array
from random import Random

import pytest

from proxy.prefixes.lines import CUT, LINE, LONG, PROBED, Lines

WORDS = "order parcel refund invoice customer window garden bicycle ticket station meeting manager policy".split()  # noqa: SIM905
CHINESE = "请把订单号告诉我们，客户可以在三十天内退货。我们会尽快处理您的请求，如果有问题联系服务中心，谢谢。"  # noqa: RUF001
THAI = "กรุณาแจ้งหมายเลขคำสั่งซื้อให้เราทราบลูกค้าสามารถคืนสินค้าได้ภายในสามสิบวันเราจะดำเนินการโดยเร็วที่สุดหากมีปัญหา"


class Told(Lines):
    """Lines of which each text is a prompt of its own."""

    def known(self, *told, **more):
        self.begin()
        return super().known(*told, **more)


@pytest.fixture
def lines():
    return Told()


def english(count=400, seed=1):
    return " ".join(Random(seed).choices(WORDS, k=count))


def records(count=40):
    draw = Random(3)
    return json.dumps([{"key": draw.choice(WORDS), "value": draw.random()} for _ in range(count)])


def shuffled(letters, count):
    return "".join(Random(2).choices(letters, k=count))


def test_a_line_is_known_again_behind_another_beginning(lines):
    line = "a line that is long enough to be remembered"
    assert lines.known(1, f"a beginning, the first one\n{line}") == 0
    assert 0.5 < lines.known(1, f"another of the beginnings\n{line}") < 1
    assert lines.known(1, line) == 1


def test_lines_and_pieces_are_news_again_when_they_are_forgotten(lines):
    news = array("q")
    text = english() + "\na line of its own, and no more"
    assert lines.known(1, text, news=news) == 0
    lines.forget(news)
    assert lines.known(1, text) == 0
    assert lines.known(1, text) == 1


def test_what_one_root_has_seen_is_new_to_another(lines):
    lines.known(1, english())
    assert lines.known(2, english()) == 0


REPEATED = "a line that comes back and back, and says the same"


@pytest.mark.parametrize("joined", ["\n", " ", ""], ids=["lines", "words", "one"])
def test_what_a_prompt_repeats_is_seen_before_from_the_next_prompt_on(joined):
    lines, text = Lines(), joined.join([REPEATED] * 50)
    for before in (0, 1):
        lines.begin()
        assert lines.known(1, text) == before
        assert lines.known(1, text) == before, "another part of the same prompt"


LONG_LINES = {
    "English": english(),
    "JSON": records(),
    "hexadecimal": shuffled("0123456789abcdef", 2_000),
    "base64": shuffled("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", 2_000),
    "Chinese": shuffled(CHINESE, 2_000),
    "Thai": shuffled(THAI, 2_000),
}


@pytest.mark.parametrize("text", LONG_LINES.values(), ids=LONG_LINES)
def test_one_long_line_is_known_again_behind_a_changing_start(lines, text):
    shares = [lines.known(1, f"It is 10:{minute:02}:{7 * minute:02} now. {text}") for minute in range(8)]
    assert shares[0] == 0
    assert min(shares[1:]) > 0.9


def test_what_changes_in_the_middle_spoils_its_own_piece_only(lines):
    lines.known(1, english() + " 10:31 " + english(400, 2))
    assert 0.9 < lines.known(1, english() + " 23:59:59 " + english(400, 2)) < 1


def test_another_long_line_is_not_known(lines):
    draw = Random(5)
    one, other = ("".join(draw.choices("abcdefghijklmnopqrstuvwxyz ", k=3_000)) for _ in range(2))
    assert lines.known(1, one) == lines.known(1, other) == 0


def test_lines_that_are_short_are_not_remembered(lines):
    short = "\n".join("x" * (LINE - 1) for _ in range(5))
    assert lines.known(1, short) == lines.known(1, short) == 0


def test_a_line_that_is_all_cuts_has_no_piece(lines):
    assert lines.known(1, "v" * LONG) == 0
    assert lines.known(1, "v" * LONG + "6") == 0


def test_of_very_many_lines_some_are_looked_at(lines):
    lines.known(1, "\n".join(f"line number {number:06} of a long file" for number in range(4 * PROBED)))
    assert len(lines._seen._young) <= PROBED


@pytest.mark.parametrize("end", ["", "\n"])
def test_of_a_very_long_text_the_beginning_is_cut(lines, end):
    paragraph = english(100, 7)
    text = end.join(f"{number} {paragraph}" for number in range(20 * CUT // len(paragraph)))
    lines.known(1, text)
    assert len(lines._seen._young) < CUT // LINE + PROBED


def test_a_second_sight_of_a_very_long_line_goes_by_its_beginning(lines):
    text = english(8 * CUT // 7)
    lines.known(1, text)
    assert lines.known(1, "Monday. " + text) > 0.9
