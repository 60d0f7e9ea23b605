from proxy.records import Call, Message, Part, Prompt
from proxy.tokens.sample import FEATURES, Shapes, Texts, sample, texts
from proxy.tokens.shapes import Shape

ASKED = Prompt(
    messages=(
        Message("system", (Part("text", "Be brief."),)),
        Message("user", (Part("text", "And this?"), Part("image", "data:AAAA"), Part("text", "Say it."))),
        Message("assistant", (), (Call("look", '{"at": 1}'), Call("wait", "{}"))),
    ),
    tools=('{"name": "look"}', '{"name": "wait"}'),
)


def numbers(prompt: Prompt, kind: str = "chat") -> dict[str, int]:
    shapes = Shapes(Shape(tokens=7, words=3), Shape(tokens=5), Shape(tokens=2))
    return {name: number for name, number in zip(FEATURES, sample(prompt, shapes, kind), strict=True) if number}


def test_texts_are_told_apart_by_the_part_they_play() -> None:
    assert texts(ASKED) == Texts(
        content=("Be brief.", "And this?", "Say it."),
        tools=ASKED.tools,
        calls=("look", '{"at": 1}', "wait", "{}"),
    )
    assert texts(Prompt(texts=("a", "b"))).content == ("a", "b")


def test_a_chat_is_numbered() -> None:
    assert numbers(ASKED) == {
        "tokens": 7,
        "words": 3,
        "tool_tokens": 5,
        "tools": 2,
        "has_tools": 1,
        "call_tokens": 2,
        "calls": 2,
        "messages": 3,
        "chat": 1,
    }


def test_a_chat_without_a_system_message_says_so() -> None:
    assert numbers(Prompt(messages=ASKED.messages[1:]))["no_system"] == 1


def test_raw_prompts_and_ollamas_templated_ones_differ() -> None:
    assert numbers(Prompt(texts=("a", "b")), "completion")["raw"] == 2
    assert numbers(Prompt(texts=("a",)), "generate")["generate"] == 1
    assert "raw" not in numbers(Prompt(texts=("a",)), "generate")
