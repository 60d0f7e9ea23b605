import json
import zlib

import pytest

from proxy.prefixes.breakers.families import FOUNDERS, SIZES, Families, alike, likeness, sketch_of
from proxy.prefixes.canon import render
from tests.prefixes.breakers.apps import BROKEN, WORDS, rules
from tests.prefixes.prompts import chat


def system(text):
    return render(chat(("system", text), ("user", "x")))


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "Now it is 10:15.\n" + text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text,
        lambda text: "\n- ".join(reversed(text.split("\n- "))),
    ],
    ids=["time", "line-ends", "mark", "order"],
)
def test_prompts_of_one_application_are_one_family_though_they_part_early(change):
    families = Families(b"key")
    text = rules("one")
    assert families.assign(1, system(text)) is families.assign(1, system(change(text)))


def test_other_applications_models_and_salts_are_other_families():
    families = Families(b"key")
    one = families.assign(1, system(rules("one")))
    assert families.assign(1, system(rules("other"))) is not one
    assert families.assign(2, system(rules("one"))) is not one


def test_documents_as_long_as_the_instructions_leave_a_family_together():
    families = Families(b"key")
    found = [system(f"{rules(f'documents {k}', 20)}\n{rules('instructions', 20)}") for k in range(4)]
    assert len({families.assign(1, one).name for one in found}) == 1


def test_documents_ten_times_as_long_as_the_instructions_leave_a_family_together():
    families = Families(b"key")
    found = [system(f"{rules(f'documents {k}', 80)}\n{rules('instructions', 8)}") for k in range(24)]
    names = [families.assign(1, one).name for one in found]
    assert len(set(names[FOUNDERS:])) == 1


def test_lines_that_few_applications_share_keep_them_apart():
    """A house style, and each application's own text; prompts of one of them differ in their time."""
    families, house = Families(b"key"), rules("house style", 8)
    found = [
        system(f"It is {minute}.\n{rules(f'application {k}', 20)}\n{house}") for minute in range(9) for k in range(4)
    ]
    assert len({families.assign(1, one).name for one in found}) == 4


def test_the_lines_of_schemas_make_no_family():
    """What every list of tools says is no application's own."""
    families = Families(b"key")
    for k in range(2 * FOUNDERS):
        name = {"type": "string", "minLength": 1, "maxLength": 20, "description": rules(f"tool {k}", 9)}
        schema = {"type": "object", "additionalProperties": False, "required": [], "properties": {"name": name}}
        tools = (json.dumps({"type": "function", "function": {"name": f"f{k}", "parameters": schema}}),)
        prompt = chat(("system", rules(f"application {k}")), ("user", "x"), tools=tools)
        families.assign(1, render(prompt))
    assert len(families._known) == 2 * FOUNDERS


def test_short_rules_in_another_order_leave_a_family_together():
    families = Families(b"key")
    lines = [f"Answer number {k} is {WORDS[k]}." for k in range(40)]
    found = [
        system("\n".join(sorted(lines, key=lambda line: zlib.crc32(f"{line}{turn}".encode())))) for turn in range(4)
    ]
    assert len({families.assign(1, one).name for one in found}) == 1


def test_an_object_with_its_keys_in_another_order_leaves_a_family_together():
    families = Families(b"key")
    items = [(WORDS[k], f"the {k}th thing of all things") for k in range(40)]
    found = [system("Config: " + json.dumps(dict(sorted(items, key=lambda item: item[0][turn])))) for turn in (0, 2)]
    assert len({families.assign(1, one).name for one in found}) == 1


def test_the_same_phrases_with_other_numbers_are_other_families():
    families = Families(b"key")
    phrases = rules("phrases", 40).split(" ")
    found = [system(" ".join(f"{k}{at}" if at % 10 == 9 else word for at, word in enumerate(phrases))) for k in "123"]
    assert len({families.assign(1, one).name for one in found}) == 3


def test_a_name_is_a_keyed_hash():
    found = [Families(key).assign(1, system(rules("one"))).name for key in (b"key", b"key", b"other")]
    assert found[0] == found[1] != found[2]


def test_the_family_asked_for_least_recently_is_forgotten():
    families = Families(b"key", most=2)
    first = families.assign(1, system(rules("a")))
    second = families.assign(1, system(rules("b")))
    assert families.assign(1, system(rules("a"))) is first
    families.assign(1, system(rules("c")))
    assert families.assign(1, system(rules("a"))) is first
    assert families.assign(1, system(rules("b"))) is not second
    families.assign(1, system(rules("d")))
    assert len(families._index) <= 2 * sum(SIZES)


def test_what_two_families_share_stays_known_of_the_one_that_is_left():
    families = Families(b"key", most=1)
    common = rules("common", 8)
    families.assign(1, system(common + rules("a", 20)))
    kept = families.assign(1, system(common + rules("b", 20)))
    assert all(kept.name in names for names in families._index.values())
    assert families.assign(1, system(common + rules("b", 20))) is kept


def test_text_without_words_is_like_nothing():
    assert likeness(frozenset(), frozenset()) == 0.0
    assert alike(sketch_of(system("a b c")), sketch_of(system("a b c"))) > 1.0


@pytest.mark.parametrize("app", [app for app in BROKEN if app.name in ("iso_time", "tool_keys", "user_examples")])
def test_a_broken_application_is_one_family(app):
    families = Families(b"key")
    found = {families.assign(one.root, one.segments).name for one in app.documents(mended=False)}
    assert len(found) == 1
