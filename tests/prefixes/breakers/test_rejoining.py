from proxy.prefixes.breakers.documents import Document, parting
from proxy.prefixes.breakers.rejoining import Rejoining, constant_pieces
from proxy.prefixes.canon import render
from tests.prefixes.breakers.apps import rules
from tests.prefixes.prompts import chat

RULES = rules("rejoining", 8)


def document(*pairs, tools=()):
    return Document("1", 0.0, 1, render(chat(*pairs, tools=tools)))


def end(documents):
    return Rejoining(documents).end(parting(documents[-1], documents[0]))


def test_common_text_begins_behind_the_value_and_not_inside_a_word():
    texts = [f"It is {time} now.\n{RULES}" for time in ("10:01:33", "11:02:33")]
    found = end([document(("system", text)) for text in texts])
    assert texts[1][found:].startswith(":33 now.")


def test_a_label_between_two_values_ends_none_of_them():
    records = [
        '{\n "now": "%s",\n "request_id": "%s",\n "user": "%s"\n}',
        ("10:01", "4c21a", "Anna"),
        ("11:02", "99b7f", "Bruno"),
    ]
    texts = [f"{records[0] % values}\n{RULES}" for values in records[1:]]
    found = end([document(("system", text)) for text in texts])
    assert texts[1][found:].lstrip('"').startswith("\n}\nService")


def test_a_sentence_of_few_members_is_nobodys_own():
    same = "Is there anything that I have to pay for this? "
    documents = [document(("user", f"{name} here. {same}")) for name in ("Anna", "Bruno")]
    strangers = [document(("user", f"Question number {k} about something else.")) for k in range(6)]
    assert constant_pieces(documents, "user") == {same.strip()}
    assert constant_pieces([*documents, *strangers], "user") == set()
    assert end([documents[0], *strangers, documents[1]]) is None


def test_a_long_common_end_counts_without_a_sentence_in_it():
    texts = [f"id={value};" + " s" * 200 for value in ("4c21a", "7c21a")]
    found = end([document(("user", text)) for text in texts])
    assert texts[1][found:].startswith(";")


def test_what_stands_at_the_end_of_the_head_breaks_what_follows_it():
    tools = tuple(f'{{"name": "tool_{k}", "text": "{RULES[:80]!r}"}}' for k in range(4))
    documents = [document(("system", f"Now: {time}"), ("user", "x"), tools=tools) for time in ("10:01", "10:02")]
    assert end(documents) == len("Now: 10:02")


def test_a_question_breaks_nothing():
    documents = [document(("system", RULES), ("user", text)) for text in ("How?", "Why?")]
    assert end(documents) is None


def test_pieces_of_roles_that_are_rare_are_counted_among_those_that_have_them():
    documents = [document(("user", "x")), *[document(("system", "A sentence of its own.")) for _ in range(2)]]
    assert constant_pieces(documents, "system") == {"A sentence of its own."}


def test_a_long_end_that_few_members_have_is_nobodys_own():
    canned = "I was told that the delivery would come " * 6
    documents = [document(("user", f"{name} {canned}")) for name in ("Anna", "Bruno")]
    strangers = [document(("user", f"Question {k} " + f"about the {k}th thing " * 12)) for k in range(6)]
    assert end(documents) is not None
    assert end([documents[0], *strangers, documents[1]]) is None


def test_a_message_before_constant_messages_of_the_application_breaks_them():
    documents = [document(("user", f"Found: {text}"), ("user", RULES), ("user", "x")) for text in ("snow", "rain")]
    assert end(documents) == len("Found: rain")


def test_a_value_in_a_worked_example_breaks_the_examples_behind_it():
    lead = "An example that all prompts have. The time is "
    documents = [document(("user", lead + time), ("assistant", RULES), ("user", "x")) for time in ("10:01", "10:02")]
    assert end(documents) == len(lead + "10:02")


def test_the_same_answer_to_another_question_is_no_loss():
    documents = [document(("user", text), ("tool", RULES), ("user", "x")) for text in ("How much?", "Why so?")]
    assert end(documents) is None
