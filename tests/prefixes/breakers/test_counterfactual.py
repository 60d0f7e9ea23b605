from proxy.prefixes.breakers.counterfactual import Outcome, Replay
from proxy.prefixes.breakers.documents import Document
from proxy.prefixes.canon import render
from tests.prefixes.prompts import raw


def letters(text):
    return [ord(letter) for letter in text]


def document(text, answer=None):
    return Document("1", 0.0, 1, render(raw(text)), answer)


def test_documents_are_run_in_order_with_their_answers():
    replay = Replay(letters, 4)
    found = replay.run([document("abcdefgh", "ijkl"), document("abcdefghijklm"), document("abcdefgh"), document("x")])
    assert found == Outcome((8, 13, 8, 1), (0, 12, 4, 0))
    assert found.fresh == 30 - 16


def test_each_run_begins_with_an_empty_cache():
    replay = Replay(letters, 4)
    assert replay.run([document("abcdefgh")]) == replay.run([document("abcdefgh")])


def test_the_tokens_of_a_document_can_be_had():
    assert Replay(letters, 4).packed(document("a")) == (97).to_bytes(4, "little")
