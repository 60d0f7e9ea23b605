import json
import random

import pytest

from proxy.events import Said
from proxy.prefixes.audit import OPEN, Audit
from proxy.prefixes.caches import MODELS, Blocks, Slots, cache_of
from proxy.prefixes.chains import LONGEST, pack
from proxy.prefixes.ledger import Books
from proxy.prefixes.shadow import common
from proxy.prefixes.spelt import Spelt
from proxy.prefixes.texts import Texts
from proxy.records import Message, Part, PrefixVerdict, Prompt, RequestFacts, Usage
from tests.prefixes.prompts import chat, raw


def letters(text):
    return [ord(letter) for letter in text]


def facts(prompt, model="m", route="inference"):
    return RequestFacts("openai", "chat", route, model=model, prompt=prompt)


def ids(*numbers):
    return facts(Prompt(ids=(tuple(numbers),)))


@pytest.fixture
def texts():
    return Texts(letters, b"a key of this install")


@pytest.fixture
def audit(texts):
    return Audit(texts, Blocks(texts))


def usage(prompt, cached=None):
    return Usage(prompt_tokens=prompt, output_tokens=1, cached_tokens=cached)


def play(audit, id, asked, said="", used=None):
    """One exchange from look-up to end: the verdict at dispatch and the settled one."""
    first = audit.predict(id, asked, 0)
    assert audit.dispatched(id, asked, 1) == first
    return first, audit.ended(id, Said(said), used)


def test_a_prompt_that_continues_another_one_can_take_its_whole_blocks(audit):
    play(audit, "1", ids(*range(1_000, 1_040)), used=usage(40, 0))
    first, settled = play(audit, "2", ids(*range(1_000, 1_045)), used=usage(45, 32))
    assert (first.expected, first.infinite, first.attainable, first.block) == (32, 32, None, 16)
    assert dict(settled.bins) == {**dict.fromkeys(dict(settled.bins), 0), "hit": 32, "structural": 13}


def test_an_engine_that_reuses_nothing_leaves_a_gap(audit):
    tokens = [k * 7_919 % 50_000 for k in range(561)]
    play(audit, "a", ids(*tokens), used=usage(561, 0))
    first, settled = play(audit, "b", ids(*tokens, *range(9)), used=usage(570, 0))
    assert first.expected == 560
    assert {name: count for name, count in settled.bins if count} == {"engine_gap": 560, "structural": 10}


def test_a_prefix_on_another_replica_is_no_break_of_text(texts):
    caches = [Blocks(texts) for _ in range(3)]
    audits = [Audit(texts, cache, caches) for cache in caches]
    shared = range(1_000, 2_024)
    for number in range(6):
        asked = ids(*shared, *range(3_000 + 8 * number, 3_008 + 8 * number))
        first, settled = play(audits[number % 3], str(number), asked, used=usage(1_032))
        assert first.expected == (0 if number < 3 else 1_024)
        assert dict(settled.bins)["other_replica"] == (1_024 if number in (1, 2) else 0)


def test_a_request_that_never_went_to_the_engine_changes_nothing(audit):
    assert audit.predict("1", ids(*range(40)), 0) is not None
    assert audit.ended("1", Said(), None) is None
    assert audit.predict("2", ids(*range(40)), 0).expected == 0


def test_a_text_that_never_went_to_the_engine_breaks_nothing(audit):
    rules = "\n".join(f"rule number {k} of the house" for k in range(20))
    audit.predict("1", facts(chat(("system", "10:01\n" + rules))), 0)
    audit.ended("1", Said(), None)
    _, settled = play(audit, "2", facts(chat(("system", "10:02\n" + rules))))
    assert dict(settled.bins)["text_break"] == 0


def test_what_the_engine_refused_is_neither_in_its_cache_nor_seen(texts):
    rules = "\n".join(f"rule number {k} of the house" for k in range(20))
    for kind in ("vllm", "llamacpp"):
        audit, asked = Audit(texts, cache_of(kind, texts, None, None, 2)), facts(chat(("system", rules)), model=kind)
        for number in range(3):
            assert audit.predict(str(number), asked, 0).expected == 0
            audit.dispatched(str(number), asked, 1)
            audit.unread(str(number))
            assert audit.ended(str(number), Said(), None) is None
        _, settled = play(audit, "4", asked)
        assert dict(settled.bins)["text_break"] == dict(settled.bins)["hit"] == 0
        assert audit.predict("5", asked, 0).expected > 500
        audit.unread("5")
        audit.unread("6")


def test_what_the_engine_refused_in_its_own_tokens_is_not_in_its_cache(texts):
    audit, asked = Audit(texts, Spelt(texts)), facts(chat(("user", "q" * 40)))
    audit.predict("1", asked, 0, range(1_000, 1_040))
    audit.dispatched("1", asked, 1)
    audit.unread("1")
    assert audit.predict("2", asked, 0, range(1_000, 1_040)).expected == 0
    assert audit.predict("3", asked, 0).expected == 0


def test_asked_again_it_sees_what_others_left_meanwhile(audit):
    rules = "\n".join(f"rule number {k} of the house" for k in range(20))
    assert audit.predict("2", facts(chat(("system", rules))), 0).expected == 0
    play(audit, "1", facts(chat(("system", rules))))
    again = audit.predict("2", facts(chat(("system", rules))), 2)
    assert again.expected > 500
    assert audit.dispatched("2", facts(chat(("system", rules))), 3) == again
    assert dict(audit.ended("2", Said(), None).bins)["text_break"] == 0


def test_dispatch_needs_no_prediction_and_counts_once(audit):
    asked = ids(*range(40))
    assert audit.dispatched("1", asked, 0) == audit.dispatched("1", asked, 0)
    assert audit.ended("1", Said(), usage(40)) is not None
    assert audit.ended("1", Said(), usage(40)) is None


@pytest.mark.parametrize("asked", [facts(None), facts(raw("x"), route="manage")], ids=["no-prompt", "no-inference"])
def test_what_holds_no_prompt_has_no_verdict(audit, asked):
    assert audit.predict("1", asked, 0) is None
    assert audit.dispatched("1", asked, 0) is None


def test_an_answer_is_part_of_the_next_prompt(audit):
    play(audit, "1", facts(chat(("user", "q" * 30))), "a" * 30)
    first = audit.predict("2", facts(chat(("user", "q" * 30), ("assistant", "a" * 30), ("user", "more"))), 0)
    assert first.expected == 64


def test_text_seen_under_another_beginning_is_a_break(audit):
    rules = "\n".join(f"rule number {k} of the house" for k in range(20))
    play(audit, "1", facts(chat(("system", "10:01\n" + rules), ("user", "x"))))
    _, settled = play(audit, "2", facts(chat(("system", "10:02\n" + rules), ("user", "x"))))
    bins = dict(settled.bins)
    assert bins["text_break"] > 0.9 * settled.tokens - 32
    assert sum(bins.values()) == settled.tokens


def test_a_restarted_engine_has_nothing(audit):
    play(audit, "1", ids(*range(40)))
    audit.restarted()
    assert audit.predict("2", ids(*range(40)), 0).expected == 0


def test_verdicts_are_in_the_tokens_of_the_engine(audit):
    head = "s" * 200
    for number in range(20):
        _, settled = play(audit, str(number), facts(chat(("system", head), ("user", f"{number:04}"))), used=usage(300))
        assert settled.tokens == 300
    first = audit.predict("x", facts(chat(("system", head), ("user", "9999"))), 0)
    assert first.tokens == 300
    assert first.expected % 16 == 0
    assert 256 <= first.expected <= 288


def test_a_prompt_of_another_length_than_ours_tells_nothing_of_others(audit):
    for read in (7, 5_000):
        _, settled = play(audit, "1", facts(raw("x" * 100)), used=usage(read, 4))
        assert settled == PrefixVerdict(16, read, reported=4)
    assert audit.predict("2", facts(raw("y" * 100)), 0).tokens == 100


DEFAULT = "_system\nYou are the model of this house, and helpful._\n"
"""What this engine's template writes where nobody sent a system message."""


def engine(slots):
    """An engine with slots and that template, beside an audit that sees its answers: plays a chat and answers with what
    both say."""
    held = {}

    def ask(audit, id, *pairs):
        said = "".join(f"_{role}\n{text}_\n" for role, text in pairs) + "_assistant\n"
        whole = said if pairs[0][0] == "system" else DEFAULT + said
        cached = max((common(pack(letters(whole[:-1])), pack(letters(one))) for one in held.values()), default=0)
        held[len(held) % slots] = whole + "ok"
        return play(audit, id, facts(chat(*pairs)), "ok", usage(len(whole), cached))

    return ask


def test_of_short_chats_every_token_is_in_one_bin_and_no_part_is_more_than_the_whole(texts):
    audit, ask = Audit(texts, cache_of("llamacpp", texts, None, None, 1)), engine(1)
    for number, said in enumerate(("Hi", "Hi", "Ho there", "What is two plus two?", "Hi", "ok", "Name one")):
        first, settled = ask(audit, str(number), ("user", said))
        assert sum(count for _, count in settled.bins) == settled.tokens == len(DEFAULT) + 19 + len(said)
        assert dict(settled.bins)["hit"] == settled.reported <= settled.infinite < settled.tokens
        assert settled.expected < settled.tokens
        assert first.tokens < 1.2 * settled.tokens
    assert abs(settled.expected - settled.reported) <= 0.1 * settled.tokens
    _, long = ask(audit, "x", ("system", "s" * 500), ("user", "Hi"))
    first, again = ask(audit, "y", ("system", "s" * 500), ("user", "Ho"))
    assert (long.tokens, again.tokens) == (531, 531)
    assert abs(first.tokens - 531) <= 0.03 * 531
    assert again.infinite == again.reported == 517
    assert abs(again.expected - 517) <= 1


def test_the_templates_words_are_in_what_an_engine_could_take_that_does_not_say(texts):
    audit, ask = Audit(texts, cache_of("ollama", texts, None, None, 1)), engine(1)
    for number in range(9):
        ask(audit, str(number), ("user", "a" * (number * 37 % 50)))
    asked = facts(chat(("user", "brand new")))
    _, settled = play(audit, "x", asked, used=usage(len(DEFAULT) + 28))
    assert dict(settled.bins)["hit"] == settled.infinite
    assert abs(settled.infinite - len(DEFAULT + "_user\n")) <= 3


def test_a_template_that_leaves_tools_out_shifts_what_stands_behind_them(texts):
    audit = Audit(texts, cache_of("llamacpp", texts, None, None, 1))
    for number, said in enumerate(("Hi", "Ho there", "What is two plus two?")):
        play(audit, str(number), facts(chat(("user", said * 9))), used=usage(21 + 9 * len(said)))
    tool = '{"name": "weather of a city, to the hour"}'
    for number, (said, hit) in enumerate((("in Rome, please" * 4, 0), ("in Paris, please" * 4, 9))):
        asked = facts(chat(("user", said), tools=(tool,)))
        _, settled = play(audit, f"t{number}", asked, used=usage(21 + len(said), hit))
    assert (settled.tokens, dict(settled.bins)["hit"]) == (85, 9)
    assert abs(settled.infinite - 9) <= 7


def test_hits_that_a_template_cannot_explain_are_not_explained(audit):
    for number in range(8):
        _, settled = play(audit, str(number), facts(raw(f"{number} " * 500)), used=usage(1_000, 320))
        assert (settled.infinite, settled.reported) == (0, 320)
    for number in range(8):
        _, settled = play(audit, str(number), facts(raw(f"{number}-" * 50)), used=usage(100, 32))
        assert (settled.infinite, settled.reported) == (32, 32)


def test_an_image_is_what_is_left_over(audit):
    drawn = Message("user", (Part("text", "w" * 200), Part("image", "a"), Part("text", "What is it?")))
    asked = facts(Prompt(messages=(drawn,)))
    for number in range(3):
        said = "w" * 200 + "v" * 100 * number
        play(audit, str(number), facts(chat(("user", said))), used=usage(19 + len(said)))
    _, new = play(audit, "new", asked, used=usage(900))
    _, again = play(audit, "again", asked, used=usage(900))
    assert (new.tokens, again.tokens) == (900, 900)
    assert 192 <= new.infinite <= 224
    assert again.infinite >= 864
    assert audit.predict("x", facts(chat(("user", "w" * 100))), 0).tokens < 200


def test_of_several_prompts_nobody_says_what_was_cached_of_all(audit):
    asked = facts(Prompt(texts=("a" * 20, "b" * 60)))
    _, settled = play(audit, "1", asked, used=usage(84, 19))
    assert (settled.tokens, settled.reported, sum(count for _, count in settled.bins)) == (84, None, 84)
    _, first = play(audit, "2", asked, used=usage(20, 19))
    assert first == PrefixVerdict(16, 20)


def test_earlier_turns_as_token_ids_stand_before_what_is_said(texts):
    audit = Audit(texts, cache_of("ollama", texts, None, None, 1))
    asked = facts(Prompt(messages=chat(("user", "more")).messages, ids=(tuple(range(1_000, 1_040)),)))
    _, settled = play(audit, "1", asked, used=usage(70))
    assert {name: count for name, count in settled.bins if count} == {"compulsory": 69, "structural": 1}
    again = asked._replace(prompt=asked.prompt._replace(messages=chat(("user", "less")).messages))
    assert audit.predict("2", again, 0).expected >= 40
    assert play(audit, "3", asked, used=usage(25))[1] == PrefixVerdict(1, 25)
    assert audit.predict("4", again, 0).expected == 0


def test_several_prompts_of_a_request_are_summed(audit):
    asked = facts(Prompt(texts=("a" * 20, "b" * 40)))
    play(audit, "1", asked, "an answer that belongs to nobody", usage(60))
    assert audit.predict("2", asked, 0).expected == 16 + 32


def test_a_bounded_cache_says_what_is_attainable(texts):
    audit = Audit(texts, cache_of("vllm", texts, 16, 32, None))
    play(audit, "1", ids(*range(100, 140)))
    play(audit, "2", ids(*range(200, 240)))
    first, settled = play(audit, "3", ids(*range(100, 140)))
    assert (first.expected, first.attainable, first.infinite) == (0, 0, 32)
    assert dict(settled.bins)["capacity"] == 32


def test_of_a_prompt_that_the_engine_cut_nobody_knows_what_it_read(audit):
    _, settled = play(audit, "1", facts(raw("x" * 400)), used=usage(100))
    assert settled == PrefixVerdict(16, 100)
    _, settled = play(audit, "2", facts(raw("y" * 400)), used=usage(300))
    assert sum(count for _, count in settled.bins) == settled.tokens == 300


@pytest.mark.parametrize("kind", ["vllm", "ollama"])
@pytest.mark.parametrize(("read", "cut"), [(20, False), (60, True)], ids=["less than half", "as somebody knows"])
def test_a_prompt_that_the_engine_cut_is_not_in_its_cache(texts, kind, read, cut):
    audit = Audit(texts, cache_of(kind, texts, None, None, 1))
    audit.dispatched("1", LONG_TALK, 0)
    assert audit.ended("1", Said("ok"), usage(read), cut=cut) == PrefixVerdict(audit._cache.block, read)
    assert audit.predict("2", LONG_TALK, 0).infinite == 0
    play(audit, "3", LONG_TALK, "ok", usage(95))
    assert audit.predict("4", LONG_TALK, 0).expected >= 80


def test_a_prompt_that_is_cut_in_line_leaves_the_slot_to_who_has_it(texts):
    audit = Audit(texts, cache_of("ollama", texts, None, None, 1))
    for id, asked in (("1", LONG_TALK), ("2", NEWS), ("3", LONG_TALK)):
        audit.dispatched(id, asked, 0)
    audit.ended("2", Said("ok"), usage(20))
    told(audit, "1")
    assert told(audit, "3")["hit"] == audit.predict("x", LONG_TALK, 0).tokens - 1


def test_a_prompt_that_no_engine_had_is_in_no_bin(audit):
    assert audit.predict("1", ids(*range(40)), 0).bins == ()
    assert audit.ended("1", Said(), None) is None


def test_slots_hold_prompts_token_by_token(texts):
    audit = Audit(texts, cache_of("llamacpp", texts, None, None, 2))
    play(audit, "1", facts(chat(("user", "hello"))), "there")
    first, settled = play(audit, "2", facts(chat(("user", "hello"), ("assistant", "there"), ("user", "x"))))
    assert first.block == 1
    assert first.expected == len("_user\nhello_\n_assistant\nthere")
    assert settled.infinite == first.expected
    play(audit, "3", ids(1, 2, 3))
    assert audit.predict("4", ids(1, 2, 3), 0).expected == 2
    audit.restarted()
    assert audit.predict("5", ids(1, 2, 3), 0).expected == 0


@pytest.mark.parametrize(("kind", "kept"), [("llamacpp", False), ("ollama", False), ("vllm", True)])
def test_slots_keep_nothing_of_what_writes_nothing(texts, kind, kept):
    audit = Audit(texts, cache_of(kind, texts, None, None, 2))
    for word in ("embed", "rerank", "score", "classify"):
        asked = ids(*range(40))._replace(kind=word)
        verdicts = play(audit, word, asked)
        assert [verdict is not None for verdict in verdicts] == [kept, kept]
    assert (audit.predict("x", ids(*range(40)), 0).expected > 0) == kept


HELLO = facts(chat(("user", "hello, this is the first one")))
OTHER = facts(chat(("user", "hello, this is another one")))
SHARED = len("_user\nhello, this is ")


def ended(audit, id, loaded_s=None):
    verdict = audit.ended(id, Said("ok"), None, loaded_s=loaded_s)
    bins = dict(verdict.bins)
    assert sum(bins.values()) == verdict.tokens
    return verdict.expected, bins["hit"], bins["capacity"], bins["engine_gap"]


def test_a_load_empties_the_cache_of_its_model_alone(texts):
    audit = Audit(texts, cache_of("ollama", texts, None, None, 1))
    play(audit, "1", HELLO, "ok")
    play(audit, "2", HELLO._replace(model="other"), "ok")
    whole = audit.dispatched("3", HELLO, 0).expected
    assert whole == audit.predict("x", HELLO, 0).tokens - 1
    assert ended(audit, "3", loaded_s=100.0) == (whole, 0, whole, 0)
    audit.dispatched("4", HELLO, 0)
    assert ended(audit, "4") == (whole, whole, 0, 0), "it holds this prompt from then on"
    assert audit.predict("5", OTHER, 0).expected == SHARED
    assert audit.predict("6", HELLO._replace(model="other"), 0).expected == whole


def test_those_that_wait_for_one_load_find_what_the_first_of_them_left(texts):
    audit = Audit(texts, cache_of("ollama", texts, None, None, 1))
    play(audit, "0", HELLO, "ok")
    for id, asked in (("1", OTHER), ("2", HELLO), ("3", HELLO)):
        audit.dispatched(id, asked, 0)
    whole = audit.predict("x", HELLO, 0).tokens - 1
    assert ended(audit, "2", loaded_s=100.00) == (whole, 0, whole, 0)
    assert ended(audit, "1", loaded_s=100.01)[1] == SHARED
    assert ended(audit, "3", loaded_s=99.99)[1:] == (SHARED, whole - SHARED, 0)


def test_who_waits_behind_another_load_finds_nothing_of_the_one_before(texts):
    audit = Audit(texts, cache_of("ollama", texts, None, None, 1))
    for id in "123":
        audit.dispatched(id, HELLO, 0)
    assert ended(audit, "1", loaded_s=100.0)[1:] == (0, 0, 0)
    assert ended(audit, "2", loaded_s=105.0)[1] == 0
    assert ended(audit, "3")[1] > SHARED


def test_in_a_slot_of_its_own_nothing_is_found_after_a_load(texts):
    audit = Audit(texts, cache_of("ollama", texts, None, None, 2))
    audit.dispatched("0", OTHER, 0)
    play(audit, "1", HELLO, "ok")
    ended(audit, "0")
    for id, asked in (("2", HELLO), ("3", OTHER)):
        audit.dispatched(id, asked, 0)
    assert ended(audit, "2", loaded_s=100.0)[1] == 0
    assert ended(audit, "3")[1] == 0, "it was sent before anybody knew of the load"


def test_an_engine_of_unknown_kind_that_loads_a_model_has_nothing_in_blocks(audit):
    for id in "12":
        audit.dispatched(id, facts(raw("q" * 40)), 0)
        audit.ended(id, Said("a" * 40), None, loaded_s=100.0 if id == "2" else None)
    assert audit.predict("3", facts(raw("z" * 40)), 0).expected == 0
    for id in "45":
        audit.dispatched(id, facts(raw("q" * 40)), 0)
    assert ended(audit, "4", loaded_s=200.0)[1] == 0
    assert ended(audit, "5", loaded_s=200.0)[1] == 0


LONG_TALK = facts(chat(("user", "a talk of some length, about this and that, and about one thing or the other")))
NEWS = facts(chat(("user", "what has it to do with the news of today, of yesterday, or of the day before?")))


def told(audit, id, said="ok", used=None):
    return {name: count for name, count in audit.ended(id, Said(said), used).bins if count}


def test_a_cache_without_a_limit_has_what_slots_lost(texts, monkeypatch):
    monkeypatch.setattr("proxy.prefixes.shadow.RESTORE", 2.0)  # nothing comes back from host memory
    audit = Audit(texts, cache_of("llamacpp", texts, None, None, 1))
    for id, asked in (("1", LONG_TALK), ("2", NEWS)):
        play(audit, id, asked, "ok")
    whole = audit.dispatched("3", LONG_TALK, 0).tokens
    bins = told(audit, "3")
    assert bins["hit"] == SHARED - len("hello, this is ")
    assert whole - 1 - bins["hit"] - 16 < bins["capacity"] < whole - bins["hit"]
    audit.restarted()
    audit.dispatched("4", LONG_TALK, 0)
    assert "capacity" not in told(audit, "4")


def test_what_was_refused_is_in_no_cache_without_a_limit(texts):
    audit = Audit(texts, cache_of("llamacpp", texts, None, None, 2))
    audit.dispatched("1", LONG_TALK, 0)
    audit.unread("1")
    assert audit.predict("2", LONG_TALK, 0).infinite == 0


def test_who_waits_for_a_slot_finds_what_it_has_when_it_is_free(texts):
    """Prompts at one slot in turn: each finds what the one before has left, its answer with it."""
    audit = Audit(texts, cache_of("ollama", texts, None, None, 1))
    audit.dispatched("1", LONG_TALK, 0)
    audit.dispatched("2", NEWS, 0)
    again = audit.dispatched("3", NEWS, 0)
    assert again.expected == again.tokens - 1, "of those that wait the last one is there before"
    audit.dispatched("4", facts(chat(("user", "a talk of some length"))), 0)
    told(audit, "1")
    assert told(audit, "2")["hit"] == len("_user\n")
    assert told(audit, "3")["hit"] == again.tokens - 1
    assert told(audit, "4")["hit"] == len("_user\na talk of some length_\n"[:-2])


def test_a_request_that_loads_a_model_and_says_nothing_takes_no_slot_and_counts_for_nothing(texts):
    audit = Audit(texts, cache_of("ollama", texts, None, None, 1))
    play(audit, "1", LONG_TALK, "ok")
    assert play(audit, "2", facts(Prompt()))[1] is None
    assert not audit.predict("3", NEWS, 0).expected > len("_user\n")
    whole = audit.predict("4", LONG_TALK, 0)
    assert whole.expected == whole.tokens - 1
    audit.dispatched("5", facts(Prompt()), 0)
    assert audit.ended("5", Said(), None, loaded_s=100.0) is None
    assert audit.predict("6", LONG_TALK, 0).expected == 0


def test_who_overtakes_those_that_wait_leaves_them_where_they_are(texts):
    audit = Audit(texts, cache_of("ollama", texts, None, None, 1))
    for id, asked in (("1", LONG_TALK), ("2", LONG_TALK), ("3", NEWS)):
        audit.dispatched(id, asked, 0)
    assert told(audit, "3")["hit"] == len("_user\n"), "the engine has more slots, or another order"
    told(audit, "1")
    assert told(audit, "2")["hit"] == audit.predict("x", LONG_TALK, 0).tokens - 1


def test_who_is_forgotten_gives_up_its_slot_and_its_place_in_line(texts):
    audit = Audit(texts, cache_of("llamacpp", texts, None, None, 1))
    for id in "12":
        audit.dispatched(id, LONG_TALK, 0)
    for number in range(OPEN):
        audit.predict(f"later {number}", NEWS, 0)
    play(audit, "3", LONG_TALK, "ok")
    assert audit.predict("4", LONG_TALK, 0).expected > 80
    queue = audit._cache._of(audit._open["4"])
    assert (queue.slots.free, queue.line) == (True, {})


def test_who_was_under_way_at_a_restart_finds_nothing(texts):
    audit = Audit(texts, cache_of("llamacpp", texts, None, None, 1))
    play(audit, "1", LONG_TALK, "ok")
    for id in "23":
        audit.dispatched(id, LONG_TALK, 0)
    audit.restarted()
    assert "hit" not in told(audit, "2")
    assert "hit" in told(audit, "3"), "what the one before has left"


def test_who_leaves_the_line_at_the_engine_has_left_nothing_there(texts):
    audit = Audit(texts, cache_of("ollama", texts, None, None, 1))
    for id, asked in (("1", LONG_TALK), ("2", NEWS), ("3", LONG_TALK)):
        audit.dispatched(id, asked, 0)
    assert audit.ended("2", Said(), None) is None
    assert audit.predict("4", NEWS, 0).infinite == len("_user\n")
    told(audit, "1")
    assert audit.ended("3", Said(), None) is not None, "its turn had come"


def test_who_is_refused_while_it_waits_gets_no_slot(texts):
    audit = Audit(texts, cache_of("ollama", texts, None, None, 1))
    for id, asked in (("1", LONG_TALK), ("2", NEWS), ("3", LONG_TALK)):
        audit.dispatched(id, asked, 0)
    audit.unread("2")
    audit.unread("1")
    assert "hit" not in told(audit, "3"), "and what was refused left it free"
    assert audit.predict("x", LONG_TALK, 0).expected == audit.predict("x", LONG_TALK, 0).tokens - 1


def test_an_answer_without_a_slot_is_let_go(texts):
    slots = Slots(texts, 1)
    audit = Audit(texts, slots)
    audit.predict("1", ids(1, 2, 3), 0)
    slots.end(audit._open["1"], Said("x"))
    assert audit.predict("2", ids(1, 2, 3), 0).expected == 0


def test_kinds_have_caches_of_their_own(texts):
    kinds = [("sglang", None), ("sglang", 1), ("sglang", 32), ("vllm", None), ("ollama", None)]
    caches = [cache_of(kind, texts, block, None, None) for kind, block in kinds]
    assert [(one.block, one.grain) for one in caches] == [(1, 8), (1, 1), (32, 32), (16, 16), (1, 1)]


@pytest.mark.parametrize("asked", [facts(raw("x" * 100_000)), ids(*range(100_000))], ids=["text", "ids"])
def test_a_long_prompt_has_no_key_for_each_token_where_each_is_shared_by_itself(texts, asked):
    audit = Audit(texts, cache_of("sglang", texts, None, 500_000, None))
    first, settled = play(audit, "1", asked, used=usage(100_000, 0))
    assert (first.block, first.attainable, dict(settled.bins)["structural"]) == (1, 0, 1)
    audit.predict("2", asked, 0)
    assert len(audit._open["2"].chains[0].keys) == 12_500
    assert len(audit._cache._shadow) <= 12_500 + 1


def radix(told, tokens):
    """What a tree of all that was told has of a prompt, token by token; SGLang computes the last one always."""
    return min(len(tokens) - 1, max([common(pack(one), pack(tokens)) for one in told], default=0))


@pytest.mark.parametrize("block", [None, 1], ids=["usual", "configured"])
@pytest.mark.parametrize("kind", ["text", "ids"])
def test_what_an_engine_shares_token_by_token_is_what_we_say_it_shares(texts, kind, block):
    draw, books, told = random.Random(7), Books(), []
    audit = Audit(texts, cache_of("sglang", texts, block, None, None))
    for number in range(400):
        text = "".join(draw.choices("ab", k=draw.choice([1, 5, 12]))) + draw.choice("cdefgh") * draw.randrange(60)
        said = draw.choice(["", "no", "yes, that is so"])
        tokens = letters(text)
        hit = radix(told, tokens)
        asked = facts(raw(text)) if kind == "text" else ids(*tokens)
        first = audit.predict(str(number), asked, 0)
        assert hit - 7 <= first.expected <= hit
        assert block is None or first.expected == hit
        audit.dispatched(str(number), asked, 0)
        settled = audit.ended(str(number), Said(said, tuple(letters(said))), usage(len(tokens), hit))
        bins = dict(settled.bins)
        assert sum(bins.values()) == settled.tokens == len(tokens)
        assert (bins["hit"], bins["engine_gap"], bins["structural"]) == (hit, 0, min(1, len(tokens) - hit))
        assert settled.expected <= settled.infinite == hit
        books.add("sglang", settled)
        told.append(letters(text + said)[: len(tokens) + max(0, len(said) - 1)] if said else tokens)
    (row,) = books.report()["engines"]
    assert (row["verdict"], row["ideal"]) == ("healthy", row["delivered"])


def test_models_that_clients_name_are_bounded(texts):
    audit = Audit(texts, cache_of("llamacpp", texts, None, None, 1))
    asked = facts(chat(("user", "hello")), model="kept")
    for number in range(3 * MODELS):
        play(audit, f"a{number}", asked, used=usage(40))
        play(audit, f"b{number}", facts(chat(("user", "hello")), model=str(number)), used=usage(40))
        audit.inferred(str(number), 500, 10**9, 0, 0)
    for kept in (audit._scales, audit._times, audit._cache._models):
        assert len(kept._young) + len(kept._old) <= 2 * MODELS + 4
    assert audit.predict("x", asked, 0).expected == 39
    assert audit.predict("y", facts(chat(("user", "hello")), model="0"), 0).expected == 0


def test_requests_that_never_end_are_forgotten(audit):
    for number in range(OPEN + 5):
        audit.predict(str(number), ids(number), 0)
    assert len(audit._open) == OPEN


def test_long_text_can_be_encoded_elsewhere(audit):
    prompt = chat(("system", "a long text"), ("user", "x"))
    assert "a long text" in audit.strange(prompt)
    audit.learn("a long text", [1, 2, 3])
    assert audit.predict("1", facts(prompt), 0).tokens == len("_system\n___\n_user\nx_\n_assistant\n") + 1


def test_cached_tokens_are_inferred_by_the_times_of_the_same_model(audit):
    cold, warm = 500_000_000, 10_000_000
    for _ in range(8):
        audit.inferred("m", 500, cold, 0, 0)
        audit.inferred("m", 500, warm, 499, 499)
    assert audit.inferred("m", 500, warm, 499, 499).cached == 499
    assert audit.inferred("another", 500, warm, 499, 499) is None


def test_a_prompt_beyond_the_bound_is_still_counted_whole(audit):
    _, settled = play(audit, "1", facts(raw("x" * (LONGEST + 50))))
    assert sum(count for _, count in settled.bins) == LONGEST + 50


@pytest.mark.parametrize("kind", ["vllm", "sglang", "llamacpp"])
@pytest.mark.parametrize(
    "asked", [facts(raw("x" * (LONGEST + 9_000))), ids(*range(LONGEST + 9_000))], ids=["text", "ids"]
)
def test_what_is_not_followed_is_believed_behind_what_is_and_is_no_end_of_a_block(texts, kind, asked):
    audit, whole = Audit(texts, cache_of(kind, texts, None, None, None)), LONGEST + 9_000
    _, new = play(audit, "1", asked, used=usage(whole, 0))
    assert dict(new.bins)["structural"] <= 16
    all_blocks = (whole - 1) // audit._cache.block * audit._cache.block
    _, again = play(audit, "2", asked, used=usage(whole, all_blocks))
    assert (again.infinite, dict(again.bins)["hit"]) == (all_blocks, all_blocks)
    _, silent = play(audit, "3", asked, used=usage(whole))
    assert dict(silent.bins)["structural"] <= 16


def test_no_text_of_a_prompt_is_in_a_verdict_or_in_what_is_kept(audit):
    secret = "planted-secret-4711"
    first, settled = play(audit, "1", facts(chat(("system", secret), ("user", secret))), secret, usage(50))
    kept = [vars(audit._texts._chains[16]._steps), vars(audit._texts._chains[16]._packed), vars(audit._texts._lines)]
    assert secret not in json.dumps([repr(first), repr(settled), repr(kept)])


def test_one_long_line_behind_a_changing_start_is_a_text_that_breaks_and_not_a_new_one(audit):
    rules = "Answer every question of a customer with care, and never give away what another one has ordered. " * 12
    for minute in range(40):
        asked = chat(("system", f"It is 10:{minute:02}. {rules}"), ("user", f"Where is parcel {minute * 7_919}?"))
        _, settled = play(audit, str(minute), facts(asked))
    bins = dict(settled.bins)
    assert bins["text_break"] > 0.9 * len(rules)
    assert bins["compulsory"] < 0.1 * len(rules)


def settled_at_random(draw, texts, kind):
    """Settled verdicts of exchanges in any order, with what the engine said, and loads between."""
    audit = Audit(texts, cache_of(kind, texts, draw.choice([None, 4]), draw.choice([None, 64]), draw.choice([1, 3])))
    said, running = [" ".join(draw.choices("abcdefgh", k=size)) for size in (3, 20, 90)], []
    for step in range(60):
        if draw.random() < 0.5 or not running:
            asked = facts(
                draw.choice([chat(("system", draw.choice(said)), ("user", draw.choice(said))), raw(draw.choice(said))]),
                draw.choice("mn"),
            )
            expected = audit.predict(str(step), asked, 0)
            assert 0 <= expected.expected <= expected.tokens
            audit.dispatched(str(step), asked, 1)
            running.append((str(step), expected.tokens))
            continue
        id, ours = running.pop(draw.randrange(len(running)))
        whole = max(1, ours + draw.choice([0, draw.randrange(-9, 40), draw.randrange(-200, 900)]))
        used = draw.choice([None, usage(whole), usage(whole, draw.randrange(whole + 1))])
        loaded_s = float(step) if draw.random() < 0.3 else None
        yield used, audit.ended(id, Said(draw.choice(said)), used, (), loaded_s)


@pytest.mark.parametrize("kind", ["ollama", "llamacpp", "vllm", "sglang"])
def test_whatever_comes_every_figure_is_a_part_of_the_prompt_that_the_engine_read(texts, kind):
    kept = 0
    for seed in range(60):
        for used, verdict in settled_at_random(random.Random(seed), texts, kind):
            bins = dict(verdict.bins)
            assert used is None or verdict.tokens == used.prompt_tokens
            if verdict.infinite is None:
                assert (bins, verdict.expected) == ({}, None)
                continue
            kept += 1
            assert min(bins.values()) >= 0
            assert sum(bins.values()) == verdict.tokens
            assert max(verdict.expected, verdict.attainable or 0) <= verdict.infinite <= verdict.tokens
            assert used is None or used.cached_tokens is None or bins["hit"] == used.cached_tokens
    assert kept > 500


@pytest.mark.parametrize("times", [0.2, 4.0], ids=["Arabic for 200 k words", "Korean for 49 k"])
def test_a_script_that_the_engine_cuts_otherwise_is_audited(texts, times):
    """None of these prompts was: they were taken to be cut, or to hold what we do not know of."""
    audit = Audit(texts, cache_of("vllm", texts, None, None, None))
    for number in range(9):
        asked = facts(chat(("system", "مرحبا" * 200), ("user", f"{number}{'عليكم' * 40}")))
        audit.dispatched(str(number), asked, 0)
        whole = round(times * 1_200)
        hit = int(1_000 * times) // 16 * 16 if number else 0
        settled = audit.ended(str(number), Said(), Usage(prompt_tokens=whole, cached_tokens=hit))
        assert sum(count for _, count in settled.bins) == whole
    assert dict(settled.bins)["hit"] == hit
    assert dict(settled.bins)["engine_gap"] < 0.05 * whole
