from proxy.prefixes.breakers.documents import Document, parting
from proxy.prefixes.breakers.placements import ImagesLast, TurnsInOrder, image_first, other_turns
from proxy.prefixes.canon import render
from proxy.records import Message, Part, Prompt
from tests.prefixes.prompts import chat

LONG = "Describe the picture in the words of the house. " * 5


def picture(url, text=LONG):
    parts = (Part("image", url), Part("text", text))
    return Document(
        "1", 0.0, 1, render(Prompt(messages=(Message("user", parts), Message("user", (Part("text", "x"),)))))
    )


def test_two_images_before_the_same_text_are_known():
    assert image_first(parting(picture("a"), picture("b"))) == ("image_before_text", ImagesLast())


def test_images_before_other_text_are_data():
    assert image_first(parting(picture("a", "What is this?"), picture("b", "And this?"))) is None
    words = [Document("1", 0.0, 1, render(chat(("user", text)))) for text in "ab"]
    assert image_first(parting(*words)) is None


def test_several_images_before_the_same_text_are_known_too():
    one, other = (Message("user", (Part("image", url), Part("image", url + "2"), Part("text", LONG))) for url in "ab")
    pictures = [Document("1", 0.0, 1, render(Prompt(messages=(message,)))) for message in (one, other)]
    assert image_first(parting(*pictures)) == ("image_before_text", ImagesLast())
    alone = Message("user", (Part("image", "c"), Part("text", LONG)))
    mixed = parting(pictures[0], Document("1", 0.0, 1, render(Prompt(messages=(alone,)))))
    assert image_first(mixed) == ("image_before_text", ImagesLast())


def alone(url, text=LONG):
    """A message that is a picture, then one that is text."""
    messages = (Message("user", (Part("image", url),)), Message("user", (Part("text", text),)))
    return Document("1", 0.0, 1, render(Prompt(messages=messages)))


def test_a_picture_in_a_message_of_its_own_goes_behind_the_text_of_the_next():
    one, other = alone("a"), alone("b")
    assert image_first(parting(one, other)) == ("image_before_text", ImagesLast())
    assert image_first(parting(alone("a", "What is this?"), alone("b", "And this?"))) is None
    mended = [one for one in ImagesLast().mend([one])[0].segments if one.role]
    assert [bool(segment.marker) for segment in mended] == [False, True, False]
    assert mended[0].text == LONG


def test_mended_text_stands_before_images_and_all_else_stays():
    (mended,) = ImagesLast().mend([picture("a")])
    roles = [(bool(segment.marker), segment.role) for segment in mended.segments if segment.role]
    assert roles == [(False, "user"), (True, "user"), (False, "user"), (False, "user")]
    assert sorted(mended.segments) == sorted(picture("a").segments)
    assert ImagesLast().carries(mended)


PAIRS = [(("user", f"question {k}"), ("assistant", f"answer {k}")) for k in range(4)]


def examples(order):
    turns = [turn for k in order for turn in PAIRS[k]]
    return Document("1", 0.0, 1, render(chat(("system", "s"), *turns, ("user", f"mine {order[0]}"))))


def test_examples_that_are_messages_get_the_order_first_seen():
    documents = [examples(order) for order in ([0, 1, 2, 3], [2, 0, 3, 1], [3, 2, 1, 0])]
    kind, repair = other_turns(parting(documents[1], documents[0]))
    assert (kind, repair) == ("fewshot_order", TurnsInOrder())
    said = [[segment.text for _, segment in one.content("assistant")][::-1] for one in repair.mend(documents)]
    assert said == [["answer 0", "answer 1", "answer 2", "answer 3"]] * 3
    assert repair.carries(documents[0])


def test_another_question_is_no_other_place():
    one, other = (Document("1", 0.0, 1, render(chat(("user", text)))) for text in ("a", "b"))
    assert other_turns(parting(one, other)) is None
    assert not TurnsInOrder().carries(one)
