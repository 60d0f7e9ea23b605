import json
from random import Random

import pytest

from proxy.prefixes import search as room
from proxy.prefixes.pace import Pace
from proxy.prefixes.search import KEPT, LONGEST, STRAYS, WAITING, Search
from proxy.records import Prompt
from tests.prefixes.breakers.apps import rules
from tests.prefixes.prompts import chat, raw


def letters(text):
    return [ord(letter) for letter in text]


@pytest.fixture
def search():
    return Search(letters, b"key")


SECRET = "planted secret 4711"
RULES = rules("search", 20) + f" The word is {SECRET}."


def prompt(number, head=""):
    now = f"Now: {number:06}, {number * 7919 % 99991:05}"
    text = rules(head, 20) if head else RULES
    return chat(("system", f"{now}\n{text}"), ("user", f"q{number} {SECRET}"))


def offer(search, requests, head="", every_s=1.0, engine="e"):
    return [search.offer(f"{head}{k}", every_s * k, engine, "m", prompt(k, head), SECRET) for k in range(requests)]


def test_a_breaker_is_found_and_priced_by_the_hour_that_was_observed(search):
    assert all(offer(search, 20, every_s=360.0))
    assert search.step()
    assert not search.step()
    (breaker,) = search.report()["breakers"]
    assert (breaker["engine"], breaker["model"], breaker["role"], breaker["message"]) == ("e", "m", "system", 0)
    assert breaker["tokens_per_hour"] == round(breaker["tokens_saved"] / 1.9)
    assert breaker["requests_per_hour"] == pytest.approx(20 / 1.9, rel=0.01)


def test_of_a_minute_it_is_said_what_a_minute_cost(search):
    offer(search, 20, every_s=3.0)
    search.step()
    (breaker,) = search.report({"e": 1_000.0})["breakers"]
    assert (breaker["observed_s"], breaker["tokens_observed"]) == (57.0, breaker["tokens_saved"])
    assert breaker["seconds_observed"] == round(breaker["tokens_saved"] / 1_000, 1)
    assert breaker["tokens_per_hour"] == round(breaker["tokens_saved"] * 3600 / 57)


def test_the_time_that_was_observed_begins_with_the_first_prompt_of_all_and_ends_with_the_last(search):
    search.offer("first", 0.0, "e", "m", prompt(0, "another application"), None)
    for number in range(20):
        search.offer(f"r{number}", 1_800.0 + number, "e", "m", prompt(number), None)
    search.offer("last", 7_200.0, "e", "m", prompt(1, "another application"), None)
    search.step()
    (breaker,) = search.report()["breakers"]
    assert (breaker["observed_s"], breaker["requests_per_hour"]) == (7_200.0, 10.0)


def test_where_the_first_prompts_of_a_family_are_gone_it_begins_with_those_that_are_kept(search):
    offer(search, KEPT + 10, every_s=30.0)
    search.step()
    (breaker,) = search.report()["breakers"]
    assert breaker["observed_s"] == 30.0 * (KEPT - 1)


HEADS = ("Service", "Another house", "A third one", "The next", "And the last")


def sampled(search, arrivals, every_s=4.0):
    """Offers those of the prompts that are taken, given by moment and application, and steps. The families' names."""
    pace, names, step_s = Pace(), {}, 0.0
    for number, (at_s, head) in enumerate(sorted(arrivals)):
        while step_s <= at_s:
            search.step()
            step_s += every_s
        if stands_for := pace.take(at_s):
            family = search.offer(f"r{number}", at_s, "e", "m", prompt(number, head), None, stands_for)
            names[family] = head
    return names


@pytest.mark.parametrize("in_turn", [False, True], ids=["at random", "in turn"])
@pytest.mark.parametrize("a_minute", [60, 600, 6_000])
@pytest.mark.parametrize("families", [1, 5])
def test_what_was_not_sampled_costs_as_much(search, a_minute, families, in_turn):
    draw = Random(1)
    heads = [HEADS[k % families if in_turn else draw.randrange(families)] for k in range(5 * a_minute)]
    sampled(search, [(60.0 * k / a_minute, head) for k, head in enumerate(heads)])
    while search.step():
        pass
    report = search.report()
    assert len(report["breakers"]) == families
    for breaker in report["breakers"]:
        assert breaker["requests_per_hour"] == pytest.approx(60 * a_minute / families, rel=0.3)
        saved = breaker["tokens_saved"] / breaker["requests"]
        assert breaker["tokens_per_hour"] == pytest.approx(saved * breaker["requests_per_hour"], rel=0.01)
    assert report["offered"] == pytest.approx(5 * a_minute, rel=0.2)


def test_an_application_is_told_at_its_own_pace_beside_a_busy_hour_of_another(search):
    """What all prompts had in common, a part of them in the sample, was neither's: of 100 prompts a second that were
    over, a twentieth was told, and of one in 20 s twenty times as many."""
    busy = [(600.0 + k / 50, HEADS[0]) for k in range(15_000)]
    quiet = [(20.0 * k, HEADS[1]) for k in range(90)]
    names = sampled(search, busy + quiet)
    told = {names[one["family"]]: one for one in search.report()["breakers"]}
    assert told[HEADS[1]]["requests_per_hour"] == pytest.approx(180, rel=0.3)
    # Those that are kept are of the busy hour's last seconds.
    seen_s = 900.0 - (1_780.0 - told[HEADS[0]]["observed_s"])
    observed = told[HEADS[0]]["requests_per_hour"] * told[HEADS[0]]["observed_s"] / 3_600
    assert observed == pytest.approx(50 * seen_s, rel=0.3)


def test_prompts_of_one_id_stand_each_for_its_own(search):
    """A client may call all its requests the same: they were told as if each stood for as many as the last."""
    for number in range(20):
        search.offer("same", 360.0 * number, "e", "m", prompt(number), None, 5.0 if number % 2 else 1.0)
    search.step()
    (breaker,) = search.report()["breakers"]
    assert breaker["requests_per_hour"] == pytest.approx(60 / 1.9, rel=0.01)


def test_a_rate_stands_while_new_prompts_wait_for_the_search(search):
    offer(search, KEPT, every_s=10.0)
    search.step()
    before = search.report()["breakers"][0]["requests_per_hour"]
    for number in range(KEPT, 2 * KEPT):
        search.offer(f"b{number}", 10.0 * number, "e", "m", prompt(number), None)
    search.file()
    assert search.report()["breakers"][0]["requests_per_hour"] == pytest.approx(before, rel=0.05)


def test_a_family_that_was_forgotten_is_known_from_then_on(search):
    for number in range(30):
        search.offer(f"a{number}", 60.0 * number, "e", "m", prompt(number), None)
    for number in range(700):
        crowd = raw(f"{number} " + " ".join(chr(97 + (number * 7 + k * 3) % 26) * 9 for k in range(40)))
        search.offer(f"c{number}", 3_600.0 + 60 * number, "e", "m", crowd._replace(salt=str(number)), None)
        search.file()
    for number in range(20):
        search.offer(f"b{number}", 46_000.0 + 10 * number, "e", "m", prompt(number), None)
    while search.step():
        pass
    told = [one for one in search.report()["breakers"] if one["requests"] == 20]
    # None came for 400 s after the last one was forgotten.
    assert [one["requests_per_hour"] for one in told] == [pytest.approx(120, rel=0.1)]


def test_costs_are_told_in_seconds_where_the_engine_s_pace_is_known(search):
    offer(search, 20, every_s=360.0)
    search.step()
    (unknown,), (known,) = search.report()["breakers"], search.report({"e": 1_000.0})["breakers"]
    assert unknown["seconds_per_hour"] is None
    assert known["seconds_per_hour"] == pytest.approx(known["tokens_per_hour"] / 1_000, abs=0.1)


def test_no_text_of_a_prompt_leaves(search):
    offer(search, 20)
    while search.step():
        pass
    said = json.dumps(search.report())
    assert not [word for word in SECRET.split() if word in said]
    assert "Service" not in said


def test_text_leaves_when_it_may():
    search = Search(letters, b"key", capture_text=True)
    offer(search, 20)
    search.step()
    assert "000000" in json.dumps(search.report()["breakers"][0]["excerpts"])


@pytest.mark.parametrize("asked", [raw("x" * (LONGEST + 1)), Prompt(ids=((1, 2),))], ids=["long", "ids"])
def test_what_is_too_long_or_no_text_is_not_taken(search, asked):
    assert search.offer("1", 0.0, "e", "m", asked, None) is None


def test_a_prompt_that_is_taken_has_the_name_of_its_family_at_once(search):
    first, second = set(offer(search, 10, head="first application")), set(offer(search, 20, head="second application"))
    assert len(first | second) == 2
    assert not search._filed
    search.file()
    found = {name: filed.family.requests for name, filed in search._filed.items()}
    assert found == {**dict.fromkeys(first, 10), **dict.fromkeys(second, 20)}


def test_a_name_is_keyed_and_the_same_for_whoever_has_the_key():
    names = {key: set(offer(Search(letters, key), 3)) for key in (b"key", b"yek")}
    assert names[b"key"] == set(offer(Search(letters, b"key"), 3))
    assert not names[b"key"] & names[b"yek"]


def test_prompts_that_nobody_files_are_dropped_oldest_first(search):
    for number in range(WAITING + 5):
        search.offer(f"r{number}", number * 60.0, "e", "m", prompt(number), None)
    search.file()
    assert search.report()["sampled"] == WAITING
    (filed,) = search._filed.values()
    assert filed.documents[-1].id == f"r{WAITING + 4}"


def test_a_family_that_was_forgotten_and_came_again_is_still_counted_once(search):
    (name,) = set(offer(search, 3))
    search.file()
    search._families._known.clear()
    search._families._index.clear()
    assert set(offer(search, 4)) == {name}
    search.file()
    (filed,) = search._filed.values()
    assert (filed.family.name, filed.family.requests) == (name, 7)


def test_families_are_searched_one_at_a_time_that_with_most_new_prompts_first(search):
    offer(search, 10, head="first application")
    offer(search, 20, head="second application")
    assert search.step()
    searched = {one.family.requests: bool(one.breakers) for one in search._filed.values()}
    assert searched == {10: False, 20: True}
    assert search.step()
    assert not search.step()


def test_only_the_latest_prompts_of_a_family_are_kept(search):
    offer(search, KEPT + 10, every_s=1.0)
    search.file()
    (filed,) = search._filed.values()
    assert len(filed.documents) == KEPT
    assert search._memory == sum(document.size for document in filed.documents)


def test_memory_is_bounded(search, monkeypatch):
    monkeypatch.setattr(room, "MEMORY", 20_000)
    for number in range(20):
        words = " ".join(f"w{number}x{k}" for k in range(200))
        search.offer(str(number), 0.0, "e", "m", raw(words), None)
        search.file()
        assert search._memory <= 20_000
    assert 0 < len(search._filed) < 20


def test_small_families_of_one_model_are_searched_together(search):
    for number in range(10):
        words = rules(f"document {number}", 80)
        asked = chat(("user", f"{words}\n{rules('strays', 20)}"), ("user", "x"))
        search.offer(str(number), 60.0 * number, "e", "m", asked, "yes")
    assert search.step()
    assert not search.step()
    (breaker,) = search.report()["breakers"]
    assert (breaker["family"], breaker["kind"]) == ("other", "docs_before_instructions")


def test_small_families_hold_no_prompt_once_searched_and_the_latest_few_are_told_of(search):
    """A salt of its own for each handful of prompts keeps them from all others."""
    held = []
    for group in range(STRAYS + 3):
        for number in range(10):
            words = rules(f"document {group} {number}", 80)
            asked = chat(("user", f"{words}\n{rules('strays', 20)}"), ("user", "x"))
            at_s = 600.0 * group + 60 * number
            search.offer(f"{group}-{number}", at_s, "e", "m", asked._replace(salt=f"s{group}"), "yes")
        assert search.step()
        held.append(sum(len(filed.documents) for filed in search._stray.values()))
    assert set(held) == {0}
    found = search.report()["breakers"]
    assert [breaker["family"] for breaker in found] == ["other"] * STRAYS


def test_the_curve_of_each_engine_is_told(search):
    offer(search, 3, engine="a")
    offer(search, 3, engine="b")
    search.file()
    points = search.report()["curve"]
    assert {point["engine"] for point in points} == {"a", "b"}
    assert points[0]["capacity_tokens"] == 16_384


def test_no_curve_is_told_of_an_engine_most_of_whose_prompts_nobody_saw(search):
    """Of conversations at 20 turns a second a cache of any size gave 57 %, told from a part of the turns: 97 %."""
    for number in range(10):
        search.offer(f"a{number}", number, "a", "m", prompt(number), None, 1.1)
        search.offer(f"b{number}", number, "b", "m", prompt(number), None, 1.3)
    search.file()
    assert {point["engine"] for point in search.report()["curve"]} == {"a"}


def test_an_empty_search_reports_nothing(search):
    assert not search.step()
    assert search.report() == {"offered": 0, "sampled": 0, "curve": [], "breakers": []}
