from proxy.prefixes.breakers.documents import Document, nearest
from proxy.prefixes.breakers.proposals import proposals
from proxy.prefixes.canon import render
from proxy.records import Message, Part, Prompt
from tests.prefixes.breakers.apps import rules
from tests.prefixes.prompts import chat

RULES = rules("proposals", 10)


def documents(*prompts, answer=None):
    return [Document(str(k), 60.0 * k, 1, render(prompt), answer) for k, prompt in enumerate(prompts)]


def found(members):
    return {(one.kind, one.repair.fix): one for one in proposals(members, nearest(members))}


def test_a_form_an_order_and_a_value_are_proposed_each_with_its_repair():
    form = found(documents(*[chat(("system", text + RULES)) for text in ("a\n", "a\r\n")]))
    assert ("whitespace", "normalise") in form
    value = found(documents(*[chat(("system", f"Now: 10:0{k}\n{RULES}")) for k in range(3)]))
    proposal = value["timestamp", "move"]
    assert proposal.carriers == (0, 1, 2)
    assert proposal.first.char == len("Now: 10:0")
    assert proposal.excerpts[0].endswith("10:00")


def test_a_changed_history_is_proposed():
    said = "an answer that is long enough to be known by"
    members = documents(
        chat(("system", RULES), ("user", "[10:01] how?")),
        chat(("system", RULES), ("user", "[10:02] how?"), ("assistant", said), ("user", "why?")),
        answer=said,
    )
    assert found(members)["timestamp", "keep"].carriers == (1,)


def test_a_turn_of_another_speaker_is_no_form_of_the_old_one():
    said = "an answer that is long enough to be known by"
    members = documents(
        chat(("user", "one"), ("assistant", "two"), ("user", "three")),
        chat(("user", "one"), ("user", "zwei"), ("user", "three"), ("assistant", said), ("user", "more")),
        answer=said,
    )
    assert found(members) == {}


def test_images_against_words_and_edits_suggest_nothing():
    picture = Prompt(messages=(Message("user", (Part("image", "u"),)),))
    assert found(documents(chat(("user", "words")), picture)) == {}
    assert found(documents(*[chat(("system", f"{text}\n{RULES}")) for text in ("Never refund", "Always refund")])) == {}
    assert found(documents(chat(("user", "same")), chat(("user", "same")))) == {}
