from proxy.prefixes.breakers.documents import Document
from proxy.prefixes.breakers.talks import Link, conversations, ended, links, turns, without_reasoning
from proxy.prefixes.canon import render
from tests.prefixes.prompts import chat, raw

LONG = "a long answer that nobody else would give in these words"


def document(*pairs, answer=None):
    return Document("1", 0.0, 1, render(chat(*pairs)), answer)


def test_a_prompt_is_cut_into_its_lead_and_its_turns():
    lead, talk = turns(render(chat(("system", "s"), ("developer", "d"), ("user", "u"), ("assistant", "a"))))
    assert [turn.role for turn in lead] == ["system", "developer"]
    assert [(turn.role, turn.text) for turn in talk] == [("user", "u"), ("assistant", "a")]
    assert turns(render(raw("text"))) == ([], [])


def test_an_ended_conversation_has_the_answer_in_it():
    assert [turn.text for turn in ended(document(("user", "u"), answer="a"))] == ["u", "a"]
    assert [turn.text for turn in ended(document(("user", "u")))] == ["u"]


def test_a_conversation_is_known_by_its_answer():
    first = document(("user", "q"), answer=LONG)
    second = document(("user", "q, in other words"), ("assistant", LONG), ("user", "more"))
    assert links([first, second]) == [None, Link(0, 2)]


def test_an_answer_without_its_reasoning_is_the_same_answer():
    first = document(("user", "q"), answer=f"<think>\nhm\n</think>\n\n{LONG}")
    assert links([first, document(("user", "q"), ("assistant", LONG), ("user", "more"))])[1] == Link(0, 2)
    assert without_reasoning("hm</think> yes") == "yes"


def test_of_equal_answers_the_one_with_the_same_turns_counts():
    documents = [document(("user", name), answer="ok") for name in ("a", "b", "c")]
    assert links([*documents, document(("user", "b"), ("assistant", "ok"), ("user", "x"))])[3] == Link(1, 2)


def test_of_conversations_that_differ_in_figures_each_goes_on_with_its_own():
    turns_of_one = (("user", "order 1?"), ("assistant", "yes"), ("user", "is order 1 there?"))
    for answers in ((f"{LONG}, order 1", f"{LONG}, order 2"), (None, None)):
        first, second = document(*turns_of_one, answer=answers[0]), document(("user", "order 2?"), answer=answers[1])
        again = document(("user", "order 1?"), answer=answers[0])
        third = document(("user", "order 2?"), ("assistant", f"{LONG}, order 2"), ("user", "thanks"))
        assert links([first, second, again, third])[3] == Link(1, 2)


def test_a_short_answer_alone_is_no_conversation():
    first = document(("user", "a"), answer="ok")
    assert links([first, document(("user", "b"), ("assistant", "ok"), ("user", "x"))]) == [None, None]


def test_a_conversation_is_known_by_its_questions_where_no_answer_is_known():
    first = document(("user", "[10:01] how?"))
    second = document(("user", "[10:02] how?"), ("assistant", "so"), ("user", "[10:02] why?"))
    third = document(("user", "[10:03] why?"), ("assistant", "hence"), ("user", "[10:03] who?"))
    assert links([first, second, third]) == [None, Link(0, 2), Link(1, 2)]


def test_the_same_question_after_other_ones_is_another_conversation():
    first = document(("user", "a"), ("assistant", "x"), ("user", "b"))
    second = document(("user", "c"), ("assistant", "y"), ("user", "b"), ("assistant", "z"), ("user", "d"))
    assert links([first, second]) == [None, None]


def test_asking_the_same_again_continues_nothing():
    assert links([document(("user", "a")), document(("user", "a"))]) == [None, None]


def test_a_prompt_without_a_question_is_no_conversation():
    found = [document(("assistant", "a")), Document("1", 0.0, 1, render(raw("a")))]
    assert links(found) == [None, None]


def test_requests_of_one_conversation_have_one_number():
    assert conversations([None, Link(0, 2), None, Link(1, 4), Link(2, 2)]) == [0, 0, 2, 0, 2]
