import pytest

from proxy.prefixes.breakers.documents import Document
from proxy.prefixes.breakers.histories import HistoryKept, change_of, changes
from proxy.prefixes.breakers.talks import links
from proxy.prefixes.canon import render, text_of
from tests.prefixes.prompts import chat

HEAD = ("system", "s")
FIRST = (("user", "first question"), ("assistant", "the first answer, long enough to be known"))
SECOND = (("user", "second question"), ("assistant", "the second answer, long enough to be known"))
THIRD = ("user", "third question")


def document(*pairs, answer=None, id="2"):
    return Document(id, 0.0, 1, render(chat(HEAD, *pairs)), answer)


def before(answer=SECOND[1][1]):
    return document(*FIRST, SECOND[0], answer=answer, id="1")


def mended(earlier, later):
    documents = [earlier, later]
    found = links(documents)
    (kind,) = changes(documents, found)
    repair = HistoryKept(kind, tuple(found), frozenset({later.id}))
    assert repair.carries(later)
    assert not repair.carries(earlier)
    return kind, repair.mend(documents)[1]


WHOLE = document(*FIRST, *SECOND, THIRD)


@pytest.mark.parametrize(
    ("kind", "earlier", "later"),
    [
        ("history_truncated", before(), document(*SECOND, THIRD)),
        ("history_rewritten", before(), document(("user", "FIRST"), FIRST[1], *SECOND, THIRD)),
        ("history_rewritten", before(), document(FIRST[0], ("assistant", "other"), *SECOND, THIRD)),
        ("trailing_space", before(), document(FIRST[0], (FIRST[1][0], FIRST[1][1] + " "), *SECOND, THIRD)),
        ("whitespace", before("\n\n" + SECOND[1][1]), document(*FIRST, *SECOND, THIRD)),
    ],
    ids=["dropped", "question", "answer", "blank", "blanks before"],
)
def test_what_was_changed_is_named_and_put_back(kind, earlier, later):
    found, kept = mended(earlier, later)
    assert found == kind
    assert text_of(kept.segments).replace("\n\n", "") == text_of(WHOLE.segments)


@pytest.mark.parametrize(
    ("kind", "was", "is_"),
    [
        ("timestamp", "[2026-03-02 10:15] my question", "[2026-03-02 11:42] my question"),
        ("date", "(2026-03-02) my question", "(2026-03-03) my question"),
        ("counter", "message 2: my question", "message 12: my question"),
        ("history_truncated", "my question\n\nContext:\n" + "what was found " * 9, "my question"),
        ("history_truncated", "what the tool found " * 9, "[removed]"),
        ("history_rewritten", "my question " * 9, "your question " * 8),
        ("history_rewritten", "My 'question'", "MY \u2018QUESTION\u2019"),
        ("json_key_order", 'call {"a": 1, "b": [2]}', 'call {"b": [2], "a": 1}'),
        ("history_rewritten", 'call {"a": 1, "b": [2]}', 'call {"b": [2], "a": 3}'),
    ],
)
def test_a_change_is_named_by_what_became_of_the_words(kind, was, is_):
    assert change_of(was, is_) == kind


def test_a_reminder_that_moves_on_with_the_talk_is_missed_where_it_stood():
    reminder = ("system", "Remember to be kind.")
    earlier = document(reminder, SECOND[0], answer=SECOND[1][1], id="1")
    kind, kept = mended(earlier, document(*SECOND, reminder, THIRD))
    assert kind == "history_truncated"
    assert text_of(kept.segments) == text_of(document(reminder, *SECOND, reminder, THIRD).segments)


def test_reasoning_is_put_back():
    thought = f"<think>\nhm\n</think>\n\n{SECOND[1][1]}"
    kind, kept = mended(before(thought), document(*FIRST, *SECOND, THIRD))
    assert kind == "think_stripped"
    assert thought in text_of(kept.segments)


def test_turns_with_a_summary_in_their_place_are_dropped_and_put_back():
    kind, kept = mended(before(), document(("user", "a summary of all that was said"), *SECOND, THIRD))
    assert kind == "history_truncated"
    assert text_of(kept.segments) == text_of(WHOLE.segments)


def test_a_summary_that_is_written_anew_goes_with_the_turns_that_it_stands_for():
    summary, other = (("user", f"a summary of {what} that was said") for what in ("all", "most"))
    documents = [before(), document(summary, *SECOND, THIRD)]
    anew = [document(summary, SECOND[0], answer=SECOND[1][1], id="3"), document(other, *SECOND, THIRD)]
    assert dict(changes(anew, links(anew))) == {"history_rewritten": [1]}
    documents += anew
    assert dict(changes(documents, links(documents))) == {"history_truncated": [1, 3]}


def test_a_turn_without_its_reasoning_is_no_summary_of_those_before_it():
    thought = f"<think>\nhm\n</think>\n\n{SECOND[1][1]}"
    kind, kept = mended(before(thought), document(SECOND[1], THIRD))
    assert kind == "history_truncated"
    assert "first question" in text_of(kept.segments)
    assert "<think>" not in text_of(kept.segments)


def test_a_history_that_only_grew_is_not_changed():
    documents = [before(), WHOLE]
    assert changes(documents, links(documents)) == {}
    assert change_of("a", "a") is None


def test_turns_that_were_put_in_between_stay():
    later = document(*FIRST, ("user", "by the way"), *SECOND, THIRD)
    documents = [before(), later]
    found = links(documents)
    assert changes(documents, found) == {}
    kept = HistoryKept("history_rewritten", tuple(found), frozenset()).mend(documents)[1]
    assert "by the way" in text_of(kept.segments)
