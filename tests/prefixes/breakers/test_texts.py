from proxy.prefixes.breakers.documents import Document
from proxy.prefixes.breakers.slots import Slot
from proxy.prefixes.breakers.texts import OneText, TextBehind, constant_behind, constant_end
from proxy.prefixes.breakers.writing import pieces
from proxy.prefixes.canon import render
from tests.prefixes.breakers.apps import rules
from tests.prefixes.prompts import chat

RULES = rules("slots", 8)


def document(text, at_s=0.0):
    return Document("1", at_s, 1, render(chat(("system", text), ("user", "x"))))


def text_in(found):
    return next(found.content("system"))[1].text


def test_a_text_moves_behind_the_constant_lines_that_follow_it():
    documents = [document(f"Head.\n\nFound:\n{word * 60}\n{RULES}\nQuestion: {word}") for word in ("snow ", "rain ")]
    slot = Slot("system", "Found:\n", "\nService")
    repair = TextBehind(slot, constant_behind(slot, documents))
    first, second = map(text_in, repair.mend(documents))
    assert repair.carries(documents[0])
    assert repair.mend([document("none")]) == [document("none")]
    assert first.startswith(f"Head.\n\n\n{RULES}\n\nFound:\n{'snow ' * 60}\nQuestion: snow")
    assert second.startswith(f"Head.\n\n\n{RULES}\n\nFound:\n{'rain ' * 60}\nQuestion: rain")


def test_text_that_half_of_the_members_go_on_with_is_constant_if_it_is_enough():
    slot = Slot("system", "Found:\n", "\n")
    documents = [document(f"Found:\nwords {k}\n{rest}") for k, rest in enumerate((RULES, f"{RULES}\nmine", "other"))]
    assert constant_behind(slot, documents) == {piece for piece, _ in pieces(RULES)}
    assert constant_behind(slot, [document(f"Found:\nwords {k}\nshort text") for k in range(3)]) == frozenset()


def test_a_value_in_constant_text_is_no_end_of_it_and_a_label_behind_a_question_no_part():
    constant = frozenset({*(piece for piece, _ in pieces(RULES)), "Answer:"})
    text = f"{RULES}\nNow: 10:01\n{RULES}\nHow many litres of rain fell in the north of the country?\nAnswer:"
    assert text[: constant_end(text, 0, constant)] == f"{RULES}\nNow: 10:01\n{RULES}\n"
    assert constant_end(f"x\n{RULES}", 2, constant) == len(RULES) + 2
    assert constant_end("nothing of it", 3, constant) == 3


def test_of_several_versions_there_is_the_usual_one():
    documents = [document(f"Be kind.\n{line}\n{RULES}") for line in ("Be brief.", "Be long.", "Be long.")]
    repair = OneText(Slot("system", "kind.\n", "\nService"))
    assert {text_in(one) for one in repair.mend(documents)} == {text_in(documents[1])}
    assert repair.mend([document("none")]) == [document("none")]
    assert (repair.carries(documents[0]), repair.carries(document("none"))) == (True, False)


def test_of_a_text_that_some_do_not_have_there_is_none():
    documents = [document(f"Be kind.\n{line}{RULES}") for line in ("Be long.\n", "Be long.\n", "")]
    repair = OneText(Slot("system", "kind.\n", RULES[:32]))
    assert {text_in(one) for one in repair.mend(documents)} == {text_in(documents[2])}
