from collections import defaultdict
from random import Random
from uuid import UUID

import pytest

from proxy.prefixes.breakers import finder as room
from proxy.prefixes.breakers.counterfactual import Replay
from proxy.prefixes.breakers.documents import Document
from proxy.prefixes.breakers.families import Families
from proxy.prefixes.breakers.finder import LEAST_REQUESTS, Finder, gain
from proxy.prefixes.canon import render
from proxy.tokens.vocabularies import load
from tests.prefixes.breakers.apps import BROKEN, CLEAN, rules
from tests.prefixes.prompts import chat

ANOTHER_TRUTH = {"two_versions", "five_versions", "docs_and_talk"}
"""Here the mended client of the application leaves out what the repair moves to the end."""

NAMES = ["Anna", "Bruno", "Carla", "Dario", "Elena", "Fabio", "Gina", "Hugo", "Irene", "Jonas", "Karla", "Luca"]


@pytest.fixture(scope="module")
def encode():
    return load("cl100k_base").encode_ordinary


@pytest.fixture(scope="module")
def finder(encode):
    return Finder(encode)


@pytest.fixture(scope="module")
def replay(encode):
    return Replay(encode, 16)


def found_in(finder, documents):
    """All breakers of an application, its small families searched together."""
    families, members = Families(b"key"), defaultdict(list)
    for document in documents:
        members[families.assign(document.root, document.segments).name].append(document)
    large = [group for group in members.values() if len(group) >= LEAST_REQUESTS]
    strays = sorted(
        (one for group in members.values() if group not in large for one in group), key=lambda one: one.at_s
    )
    return [breaker for group in [*large, strays] for breaker in finder.breakers(group)]


@pytest.mark.parametrize("app", BROKEN, ids=lambda app: app.name)
def test_what_breaks_an_application_is_found_named_and_priced(app, finder, replay):
    documents = app.documents(mended=False)
    found = found_in(finder, documents)
    assert found
    assert {breaker.kind for breaker in found} <= set(app.kinds)
    if app.name not in ANOTHER_TRUTH:
        before, after = replay.run(documents), replay.run(app.documents(mended=True))
        truth = gain(found[0].fix, before, after)
        assert sum(breaker.tokens_saved for breaker in found) == pytest.approx(truth, rel=0.13)


def several(front, behind, values, line):
    """Prompts whose text is in one of two forms or behind one of many documents, and has a value further behind."""
    lines = rules("several", 24).split("\n")
    texts = [
        f"{front(k)}\n{chr(10).join([*lines[:line], behind(value), *lines[line:]])}" for k, value in enumerate(values)
    ]
    texts = [
        text.replace("\n", " \n") if (k % 12 < 5) != (k % 13 == 9) and not front(k) else text
        for k, text in enumerate(texts)
    ]
    return [
        Document(str(k), 60.0 * k, 1, render(chat(("system", text), ("user", f"Question {k}?"))))
        for k, text in enumerate(texts)
    ]


def test_what_stands_first_is_mended_first(finder):
    """A value in a text of two forms has two places until the text has one form."""
    names = [
        f"{first} {last}" for first in ("Anna", "Bruno", "Carla", "Dora") for last in ("Keller", "Okafor", "Nyman")
    ]
    documents = several(lambda _: "", "The client is {}.".format, [names[k % 12] for k in range(84)], line=2)
    assert [breaker.kind for breaker in finder.breakers(documents)] == ["trailing_space", "user_name"]


def uuid_of(number):
    return str(UUID(int=Random(str(number)).getrandbits(128)))


def neighbours(second, first="request: {}\n"):
    """Prompts with a request id and, in the next line, what `second` says for the number of the prompt."""
    behind = rules("neighbours", 30)
    texts = [f"You help.\n{first.format(uuid_of(k))}{second(k)}\n{behind}" for k in range(24)]
    return [Document(str(k), 600.0 * k, 1, render(chat(("system", text)))) for k, text in enumerate(texts)]


def test_a_value_right_beside_another_one_is_a_breaker_of_its_own(finder, replay):
    documents = neighbours(lambda k: f"Customer: {NAMES[k // 2]}")
    first, second = finder.breakers(documents)
    assert (first.kind, second.kind) == ("uuid", "user_name")
    bare = [
        one.edited(2, one.segments[2].text.replace(f"request: {uuid_of(k)}\n", "")) for k, one in enumerate(documents)
    ]
    assert first.tokens_saved == gain("move", replay.run(documents), replay.run(bare))
    assert first.share == first.tokens_saved / sum(replay.run(documents).tokens)


def test_two_breakers_of_one_kind_are_two(finder):
    lines = rules("two of a kind", 30).split("\n")
    ids = [[f"Request: {uuid_of(k)}", *lines[:15], f"Trace: {uuid_of(-k)}", *lines[15:]] for k in range(1, 25)]
    documents = [Document(str(k), 600.0 * k, 1, render(chat(("system", "\n".join(one))))) for k, one in enumerate(ids)]
    first, second = finder.breakers(documents)
    assert (first.kind, second.kind) == ("uuid", "uuid")
    assert len(first.ids) == len(second.ids) == len(documents)


def test_the_lines_of_a_record_are_one_breaker(finder):
    cities = ["Tartu", "Cork", "Graz", "Lugo", "Faro"]
    (found,) = finder.breakers(neighbours(lambda k: f"Name: {NAMES[k % 12]}\nCity: {cities[k * k % 5]}", first=""))
    assert found.kind == "user_name"


def test_lines_that_change_together_are_one_breaker(finder):
    (found,) = finder.breakers(neighbours(lambda k: f"Ticket: {4_100 + k}"))
    assert found.kind == "counter"


def test_documents_move_behind_all_the_constant_text_be_there_a_value_in_it(finder):
    draw = Random("documents")
    words = [" ".join(draw.choices(rules("documents").split(), k=90)) for _ in range(40)]
    documents = several(lambda k: f"Found:\n[1] {words[k]}\n", "Ticket {} is open.".format, range(4100, 4140), line=12)
    first, second = finder.breakers(documents)
    assert (first.kind, second.kind) == ("docs_before_instructions", "counter")
    assert len(second.ids) == len(documents)
    assert second.tokens_saved > 4_000


def test_a_time_before_documents_is_a_breaker_of_its_own(finder):
    """The most wanted document comes first, so that prompts agree in it once the time is gone."""
    draw = Random("time before documents")
    words = [" ".join(draw.choices(rules("documents").split(), k=60)) for _ in range(40)]
    documents = several(
        lambda k: f"Time: {k % 24:02}:{k * 7 % 60:02}\nFound:\n[1] {words[k % 3]}\n[2] {words[k]}\n",
        "Rule {} is old.".format,
        [7] * 40,
        line=12,
    )
    first, second = finder.breakers(documents)
    assert (first.kind, second.kind) == ("timestamp", "docs_before_instructions")


@pytest.mark.parametrize("app", CLEAN, ids=lambda app: app.name)
def test_there_is_no_false_alarm(app, finder):
    assert found_in(finder, app.documents(mended=False)) == []


@pytest.mark.parametrize("name", ["iso_time", "tool_order", "documents_user", "stripped", "line_ends", "two"])
def test_a_mended_application_is_left_alone(name, finder):
    assert found_in(finder, app_of(name).documents(mended=True)) == []


def app_of(name):
    return next(app for app in BROKEN if app.name == name)


def test_excerpts_show_the_form_and_not_the_text(finder, encode):
    documents = app_of("iso_date").documents(mended=False)
    (masked,) = finder.breakers(documents)
    (shown,) = Finder(encode, capture_text=True).breakers(documents)
    assert masked.excerpts == ("dddd-dd-dd",)
    assert shown.excerpts[0] == "2026-03-02"


def test_a_breaker_says_where_it_stands(finder):
    (breaker,) = finder.breakers(app_of("request_uuid").documents(mended=False))
    row = breaker.row()
    assert (row["message"], row["role"], row["fix"], row["requests"]) == (0, "system", "move", 44)
    assert row["position_chars"] < row["char"] + len("<|im_start|>system\n")
    assert row["position_tokens"] > 10
    assert row["hit_rate_then"] > 0.8


@pytest.mark.parametrize("every", [1, 2, 6], ids=["all", "half", "few without"])
@pytest.mark.parametrize(
    ("before", "said", "behind"),
    [("Now: ", "Now: ", "\n"), ("You help. The time is ", "The time is ", ". ")],
    ids=["line", "sentence"],
)
def test_a_value_is_said_to_stand_where_it_does_though_some_prompts_lack_it(finder, every, before, said, behind):
    draw, text, documents = Random(1), rules("lacking", 20), []
    for number in range(40):
        stamp = f"{draw.randrange(24):02}:{draw.randrange(60):02}:{draw.randrange(60):02}"
        lead = before + stamp + behind if every == 1 or number % every else before.removesuffix(said)
        asked = chat(("system", lead + text), ("user", f"question {number}"))
        documents.append(Document(str(number), 60.0 * number, 1, render(asked), "yes"))
    (breaker,) = finder.breakers(documents)
    assert (breaker.kind, breaker.message, breaker.char) == ("timestamp", 0, len(before))
    assert breaker.excerpts[0].startswith("dd:dd:dd")


def test_the_work_on_a_family_is_bounded(finder, monkeypatch):
    monkeypatch.setattr(room, "STEPS", 0)
    assert list(finder.breakers(app_of("epoch").documents(mended=False))) == []


def test_two_odd_prompts_are_no_family(finder):
    assert list(finder.breakers(app_of("epoch").documents(mended=False)[: LEAST_REQUESTS - 1])) == []
