import pytest

from proxy.prefixes.breakers.documents import Document, parting
from proxy.prefixes.breakers.orders import (
    LINE,
    PARAGRAPH,
    AsSeen,
    ItemsInOrder,
    line_at,
    lines_as_seen,
    name_of,
    objects,
    objects_as_seen,
    other_order,
    paragraph_at,
    permuted,
    same_objects,
    words_as_seen,
)
from proxy.prefixes.canon import render
from tests.prefixes.prompts import chat

ITEMS = [f"Input: the {word} of the house\nOutput: {word}" for word in ("roof", "door", "wall", "cellar", "stair")]


def document(text="", tools=()):
    return Document("1", 0.0, 1, render(chat(("system", text or "x"), tools=tools)))


def text_in(found, role="system"):
    return next(found.content(role))[1].text


def between(one, other):
    return other_order(parting(one, other))


def test_tools_in_another_order_are_known_and_put_in_the_first_one():
    tools = [f'{{"name": "tool_{k}", "text": "does a thing"}}' for k in range(4)]
    one, other = document(tools=tuple(tools)), document(tools=tuple(reversed(tools)))
    kind, repair = between(other, one)
    assert kind == "tool_order"
    assert repair.carries(one)
    assert len({text_in(found, "tools") for found in repair.mend([one, other])}) == 1


def test_keys_in_another_order_are_known_and_put_in_the_first_one():
    one, other = (document(f"Config: {text} and more") for text in ('{"a": 1, "b": [2]}', '{"b": [2], "a": 1}'))
    kind, repair = between(other, one)
    assert (kind, repair) == ("json_key_order", AsSeen("system", objects_as_seen))
    assert repair.carries(one)
    assert [text_in(found) for found in repair.mend([one, other])] == [text_in(one)] * 2


def test_examples_in_another_order_are_known_and_put_in_the_first_one():
    one, other = document("\n\n".join(["Label:", *ITEMS])), document("\n\n".join(["Label:", *reversed(ITEMS)]))
    kind, repair = between(other, one)
    assert (kind, repair) == ("fewshot_order", ItemsInOrder("system", PARAGRAPH))
    assert [text_in(found) for found in repair.mend([one, other])] == [text_in(one)] * 2


@pytest.mark.parametrize("line", ["\n\n", "\n---\n", "\n\n###\n", "\n\n\n", "\r\n\r\n", "\n  ***  \n"])
def test_examples_are_parted_by_empty_lines_and_by_drawn_ones(line):
    """A rule drawn between two examples belongs to neither: the first example has none."""
    one, other = (document(f"Label:\n\n{line.join(found)}\n\nInput:") for found in (ITEMS, [*ITEMS[2:], *ITEMS[:2]]))
    assert between(other, one) == ("fewshot_order", ItemsInOrder("system", PARAGRAPH))
    assert [text_in(found) for found in ItemsInOrder("system", PARAGRAPH).mend([one, one, other])] == [text_in(one)] * 3


@pytest.mark.parametrize(
    "values", [("Now: 10:01", "Now: 10:02"), ("Asked at 10:01 o'clock, sharp", "Asked at 10:02 o'clock, sharp")]
)
def test_a_value_before_a_list_in_another_order_is_no_part_of_it(values):
    rules = ["Rules of this house that stay the same", "Examples of what is asked and of what is said"]
    one, other = (
        document("\n\n".join([value, *rules, *items]))
        for value, items in zip(values, (ITEMS, ITEMS[::-1]), strict=True)
    )
    assert between(other, one) is None


def test_numbers_stay_at_their_places():
    numbered = [f"Example {k}: {item}" for k, item in enumerate(ITEMS, 1)]
    turned = [f"Example {k}: {item}" for k, item in enumerate(reversed(ITEMS), 1)]
    mended = ItemsInOrder("system", PARAGRAPH).mend([document("\n\n".join(text)) for text in (numbered, turned)])
    assert [text_in(found) for found in mended] == ["\n\n".join(numbered)] * 2


def test_other_text_is_no_other_order():
    one, other = (
        document("\n\n".join(ITEMS)),
        document("\n\n".join([ITEMS[0], "Something else that stands alone here"])),
    )
    assert between(other, one) is None
    assert not permuted("a\n\nb", "b\n\na", 0, PARAGRAPH)
    assert not permuted("\n\n".join(ITEMS), "\n\n".join(ITEMS), 0, PARAGRAPH)


def test_a_few_common_items_in_much_other_text_are_no_order():
    other_text = [f"Another thing number {k} that nobody else has said" for k in range(20)]
    assert not permuted("\n\n".join(ITEMS + other_text), "\n\n".join(reversed(ITEMS)), 0, PARAGRAPH)


def test_objects_are_found_in_text_and_brackets_are_not():
    text = 'see [this] {"a": {"b": 1}} and [1, 2] {'
    assert [text[begin:end] for begin, end in objects(text)] == ['{"a": {"b": 1}}', "[1, 2]"]


def test_of_very_many_brackets_some_are_tried():
    assert objects("[" * 200_000) == []
    assert len(objects("[1] " * 5_000)) == 1_000


def test_objects_with_other_values_are_not_the_same():
    assert not same_objects('{"a": 1, "b": 2}', '{"a": 1, "b": 3}', 14)
    assert not same_objects("no object", "none here", 3)
    assert same_objects('{"a": 1, "b": 2}', '{"b": 2, "a": 1}', 2)


def test_the_name_of_an_item_is_its_text():
    assert name_of(" 3. the roof ") == "the roof"
    assert name_of("Example 3\nInput: the roof") == "Input: the roof"
    assert name_of("3 windows") == "3 windows"
    assert name_of('{"b": 1, "a": 2}') == name_of('{"a": 2, "b": 1}')


def test_an_item_that_comes_twice_is_in_no_other_order():
    lines = [*ITEMS, ITEMS[1]]
    assert not permuted("\n\n".join(["at 10:01", *lines]), "\n\n".join(["at 10:02", *lines]), 5, PARAGRAPH)


def test_several_values_in_a_row_before_the_same_items_are_no_order():
    lines = [f"Rule number {k} says that nothing is to be done" for k in range(5)]
    values = [[f"The name of the customer is {name}", f"The clock shows {at}, about"] for name, at in ("ab", "cd")]
    one, other = (
        "\n".join([*found, *lines, *swapped]) for found, swapped in zip(values, (ITEMS, ITEMS[::-1]), strict=True)
    )
    assert not permuted(one, other, len("The name of the customer is "), LINE)


LISTS = ["billing, refunds, exports, returns, claims", "exports, billing, claims, returns, refunds"]


def test_a_line_of_the_same_words_in_another_order_is_known_and_mended():
    members = [document(f"Topics: {line}.\nBe brief.") for line in LISTS]
    assert other_order(parting(*reversed(members))) == ("other", AsSeen("system", words_as_seen))
    mended = AsSeen("system", words_as_seen).mend(members)
    assert [text_in(one) for one in mended] == [f"Topics: {LISTS[0]}.\nBe brief."] * 2
    assert AsSeen("system", words_as_seen).carries(members[0])
    assert not AsSeen("user", words_as_seen).carries(members[0])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("It is 10:12.", "It is 12:10."),
        ("Ask Anna, then Bruno.", "Ask Bruno, then Anna."),
        (LISTS[0], LISTS[1].replace("claims", "tolls")),
    ],
    ids=["a time", "two names", "another word"],
)
def test_a_value_or_another_word_is_no_other_order(one, other):
    assert other_order(parting(document(one + "\nBe brief."), document(other + "\nBe brief."))) is None


def test_a_line_is_what_stands_between_line_ends():
    assert [line_at("one\ntwo\nthree", char) for char in (0, 3, 4, 8, 12)] == ["one", "one", "two", "three", "three"]
    assert [paragraph_at("a\nb\n\nc", char) for char in (0, 2, 3, 5)] == ["a\nb", "a\nb", "a\nb", "c"]


def test_a_text_before_a_list_stays_there_whatever_its_version():
    heads = [f"You are the porter of the {day} house." for day in ("sunny", "rainy")]
    texts = ["\n\n".join([head, *items]) for items in (ITEMS, ITEMS[::-1]) for head in heads]
    mended = ItemsInOrder("system", PARAGRAPH).mend([document(text) for text in texts])
    assert [text_in(found).partition("\n\n")[0] for found in mended] == heads * 2
    assert len({text_in(found).partition("\n\n")[2] for found in mended}) == 1


ROWS = ["id,name,count", "100,hinge,7", "101,gutter,12", "102,shutter,3"]
BLOCKS = [
    "hinge:\n  rule: Every hinge is oiled in spring.\n  limit: 3",
    "gutter:\n  rule: Leaves go first, then moss.\n  limit: 7",
]


@pytest.mark.parametrize("items", [ROWS, [*BLOCKS, BLOCKS[0].replace("hinge", "shutter")]], ids=["rows", "blocks"])
def test_a_paragraph_of_the_same_lines_in_another_order_gets_the_one_first_seen(items):
    """Rows may be shorter than items, and lines of settings stay with their key."""
    texts = [
        "\n".join(["You help.", "", *found]) + "\n\nBe brief."
        for found in (items, [items[0], *items[:0:-1]], items[::-1])
    ]
    members = [document(text) for text in texts]
    _, repair = other_order(parting(members[1], members[0]))
    assert repair == AsSeen("system", lines_as_seen)
    assert {text_in(one) for one in repair.mend(members)} == {texts[0]}
