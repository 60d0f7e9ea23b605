from proxy.engines.inflight import LIMIT, InFlight
from proxy.engines.runners import Runner, Runners
from proxy.records import Evidence, RequestFacts

MS = 1_000_000


def facts(model: str = "a", **options: str) -> RequestFacts:
    return RequestFacts("ollama", "chat", "inference", model=model, options=tuple(options.items()))


def table(slots: int | None = None, kind: str = "ollama") -> InFlight:
    return InFlight(Runners(kind, "1", slots))


def sent(it: InFlight, key: str, at_ms: int, what: RequestFacts | None = None) -> None:
    it.began(key, at_ms * MS, what or facts())
    it.dispatched(key, at_ms * MS)


def test_alone_nothing_is_ahead() -> None:
    it = table(1)
    sent(it, "x", 0)
    it.first_token("x", 5 * MS)
    assert it.ended("x", 9 * MS) == Evidence(kind="ollama", version="1", slots=1)
    assert (len(it), repr(it)) == (0, "<InFlight 0>")


def test_all_slots_are_taken_until_fewer_than_slots_of_those_ahead_are_left() -> None:
    it = table(2)
    for at, key in enumerate("abcx"):
        sent(it, key, at)
    sent(it, "later", 4)
    it.ended("a", 10 * MS)
    it.ended("later", 11 * MS, served=False)
    it.ended("b", 20 * MS)
    it.ended("c", 30 * MS)
    evidence = it.ended("x", 40 * MS)
    assert (evidence.ahead, evidence.contended_ns, evidence.slots) == (3, (20 - 3) * MS, 2)
    assert evidence.busy_ns == (30 - 3) * MS


def test_an_exchange_that_leaves_before_a_slot_is_free_was_contended_all_along() -> None:
    it = table(1)
    sent(it, "a", 0)
    sent(it, "x", 5)
    evidence = it.ended("x", 25 * MS)
    assert (evidence.ahead, evidence.contended_ns) == (1, 20 * MS)


def test_a_free_slot_is_not_contended() -> None:
    it = table(4)
    sent(it, "a", 0)
    sent(it, "x", 5)
    it.ended("a", 10 * MS)
    sent(it, "later", 7)
    evidence = it.ended("x", 20 * MS)
    assert (evidence.ahead, evidence.contended_ns) == (1, 0)
    assert evidence.busy_ns == 5 * MS, "who came later was not ahead"


def test_an_engine_is_busy_with_those_ahead_till_the_end_where_they_stay() -> None:
    it = table(4)
    sent(it, "a", 0)
    sent(it, "x", 5)
    assert it.ended("x", 20 * MS).busy_ns == 15 * MS


def test_other_models_do_not_take_slots() -> None:
    it = table(1)
    sent(it, "a", 0, facts("other"))
    sent(it, "x", 5)
    assert it.rivals("x") == {}
    it.ended("a", 30 * MS)
    assert it.rivals("x") == {Runner("other"): 25 * MS}
    evidence = it.ended("x", 60 * MS)
    assert (evidence.ahead, evidence.others_done_ns, evidence.swapped) == (0, 25 * MS, None)


def test_only_the_last_of_the_others_counts() -> None:
    it = table(1)
    sent(it, "a", 0, facts("other"))
    sent(it, "b", 1, facts("other"))
    sent(it, "x", 5)
    it.ended("b", 30 * MS)
    it.ended("a", 40 * MS)
    assert it.ended("x", 60 * MS).others_done_ns == 35 * MS


def test_later_ones_of_the_model_in_memory_that_are_served_first_are_waited_for_too() -> None:
    it = table(1)
    sent(it, "a", 0)
    sent(it, "cold", 10, facts("b"))
    for at, key in ((20, "c"), (30, "d"), (40, "e")):
        sent(it, key, at)
    it.ended("a", 100 * MS, 2 * MS)
    it.first_token("c", 110 * MS)
    it.ended("c", 200 * MS)
    it.ended("d", 300 * MS)  # no word of when it was begun
    it.ended("e", 350 * MS, served=False)  # it left
    evidence = it.ended("cold", 900 * MS, 500 * MS)
    assert evidence.others_done_ns == 290 * MS


def test_of_several_others_each_is_told_apart() -> None:
    it = table(1)
    sent(it, "b", 0, facts("b"))
    sent(it, "c", 1, facts("c"))
    sent(it, "wide", 2, facts(num_ctx="8192"))
    sent(it, "x", 5)
    for at, key in ((30, "wide"), (40, "c"), (50, "b")):
        it.ended(key, at * MS)
    wide = Runner("a", (("num_ctx", "8192"),))
    assert it.rivals("x") == {wide: 25 * MS, Runner("c"): 35 * MS, Runner("b"): 45 * MS}
    assert it.ended("x", 900 * MS)[-2:] == (45 * MS, None)


def test_who_ended_when_the_prompt_had_been_begun_was_not_waited_for() -> None:
    it = table(2)
    sent(it, "x", 0)
    sent(it, "b", 1, facts("b"))
    for n in range(3):
        sent(it, f"later{n}", 2)
    for n in range(3):
        it.ended(f"later{n}", (100 + n) * MS, 20 * MS)
    it.ended("b", 200 * MS, 5 * MS)
    evidence = it.ended("x", 900 * MS, 8 * MS)
    assert (evidence.ahead, evidence.contended_ns, evidence.others_done_ns) == (0, 0, None)


def test_overtakers_take_the_slot_that_those_ahead_left() -> None:
    it = table(2)
    for key in ("a", "b", "x"):
        sent(it, key, 0)
    sent(it, "later", 1)
    it.ended("a", 100 * MS, 2 * MS)
    it.ended("later", 300 * MS, 100 * MS)
    evidence = it.ended("x", 900 * MS, 299 * MS)
    assert (evidence.ahead, evidence.contended_ns, evidence.busy_ns) == (3, 300 * MS, 900 * MS)


def test_nobody_is_waited_for_by_one_that_found_nobody() -> None:
    it = table(1)
    sent(it, "x", 0)
    sent(it, "b", 10, facts("b"))
    it.ended("b", 100 * MS, 20 * MS)
    evidence = it.ended("x", 200 * MS, 5 * MS)
    assert (evidence.others_done_ns, evidence.contended_ns) == (None, 0)


def test_later_ones_of_its_own_model_that_are_served_first_take_its_slot() -> None:
    it = table(1)
    sent(it, "a", 0, facts("b"))
    sent(it, "x", 10)
    sent(it, "later", 20)
    it.ended("a", 100 * MS, 2 * MS)
    it.ended("later", 300 * MS, 150 * MS)
    evidence = it.ended("x", 500 * MS, 290 * MS)
    assert (evidence.ahead, evidence.contended_ns, evidence.others_done_ns) == (1, 290 * MS, 90 * MS)


def test_who_leaves_with_those_ahead_still_there_was_contended_all_along_whoever_overtook() -> None:
    it = table(1)
    sent(it, "a", 0)
    sent(it, "x", 10)
    sent(it, "later", 20)
    it.ended("later", 100 * MS, 5 * MS)
    evidence = it.ended("x", 400 * MS, served=False)
    assert (evidence.ahead, evidence.contended_ns, evidence.busy_ns) == (2, 390 * MS, 390 * MS)


def test_who_holds_a_slot_is_not_overtaken_and_where_all_go_in_order_nobody_is() -> None:
    for kind, began in (("ollama", True), ("llamacpp", False)):
        it = table(1, kind)
        sent(it, "x", 0)
        if began:
            it.first_token("x", 5 * MS)
        sent(it, "later", 10)
        it.ended("later", 100 * MS, 5 * MS)
        evidence = it.ended("x", 200 * MS)
        assert (evidence.ahead, evidence.contended_ns) == (0, 0)


def test_who_still_answers_at_our_first_token_had_not_to_go() -> None:
    it = table(1)
    sent(it, "a", 0, facts("other"))
    sent(it, "x", 5)
    sent(it, "b", 6, facts("other"))
    it.first_token("b", 7 * MS)
    it.ended("a", 9 * MS, 2 * MS)
    it.first_token("x", 10 * MS)
    it.ended("b", 50 * MS)
    evidence = it.ended("x", 60 * MS)
    assert (evidence.others_done_ns, evidence.swapped) == (None, None)


def test_other_options_on_the_same_weights_always_have_to_go() -> None:
    it = table(1)
    sent(it, "a", 0, facts(num_ctx="2048"))
    sent(it, "x", 5, facts(num_ctx="4096"))
    it.ended("a", 30 * MS)
    it.first_token("x", 50 * MS)
    evidence = it.ended("x", 60 * MS)
    assert (evidence.ahead, evidence.others_done_ns, evidence.swapped) == (1, 25 * MS, True)


def test_a_retry_counts_from_its_last_dispatch() -> None:
    it = table(1)
    sent(it, "a", 0)
    sent(it, "x", 5)
    it.ended("a", 10 * MS)
    it.dispatched("x", 12 * MS)
    assert it.ended("x", 20 * MS) == Evidence(kind="ollama", version="1", slots=1)


def test_one_that_is_sent_again_is_behind_those_who_came_meanwhile() -> None:
    it = table(1)
    sent(it, "again", 0)
    sent(it, "x", 2)
    it.dispatched("again", 4 * MS)
    it.ended("again", 10 * MS, served=False)
    evidence = it.ended("x", 500 * MS)
    assert (evidence.ahead, evidence.contended_ns, evidence.busy_ns) == (1, 2 * MS, 2 * MS)


def test_one_that_is_sent_again_teaches_no_slot() -> None:
    it = table()
    sent(it, "again", 0)
    sent(it, "x", 2)
    it.dispatched("again", 4 * MS)
    assert it.ended("x", 900 * MS, wait_ns=2 * MS).slots == 1, "it was not ahead, and may have waited all along"


def test_one_that_was_never_sent_has_no_evidence_and_is_ahead_of_nobody() -> None:
    it = table(1)
    it.began("a", 0, facts())
    sent(it, "x", 5)
    assert it.ended("a", 9 * MS) == Evidence(kind="ollama", version="1", slots=1)
    assert it.ended("x", 10 * MS).ahead == 0


def test_an_engine_without_slots_is_only_counted() -> None:
    it = table(kind="vllm")
    sent(it, "a", 0)
    sent(it, "x", 5)
    it.first_token("x", 10 * MS)
    assert len(it) == 2
    assert it.ended("x", 90 * MS) == Evidence(kind="vllm", version="1")


def test_reading_a_list_takes_no_slot() -> None:
    it = InFlight(Runners("llamacpp", None, 1))
    sent(it, "list", 0, RequestFacts("passthrough", "other", "read"))
    sent(it, "x", 5)
    assert it.ended("x", 90 * MS).ahead == 0


def test_strangers_change_nothing() -> None:
    it = table()
    it.dispatched("nobody", 1)
    it.first_token("nobody", 1)
    assert it.rivals("nobody") == {}
    assert it.ended("nobody", 1) == Evidence(kind="ollama", version="1")
    assert len(it) == 0


def decoding(it: InFlight, *keys: str) -> None:
    for key in keys:
        sent(it, key, 0)
        it.first_token(key, 10 * MS)


def test_slots_are_as_many_as_decode_at_once_for_long_enough() -> None:
    it = table()
    decoding(it, "a", "b", "c")
    sent(it, "queued", 0)
    evidence = it.ended("a", 200 * MS)
    assert evidence.slots == 3


def test_a_moment_together_teaches_nothing() -> None:
    it = table()
    decoding(it, "a")
    sent(it, "b", 1)
    it.first_token("b", 199 * MS)
    assert it.ended("a", 200 * MS).slots == 1
    assert it.ended("b", 201 * MS).slots == 1


def test_a_stream_that_began_just_now_teaches_one_slot() -> None:
    it = table()
    decoding(it, "a")
    sent(it, "b", 190)
    it.first_token("b", 195 * MS)
    assert it.ended("b", 200 * MS).slots == 1


def test_answers_that_were_written_at_once_teach_their_number_when_they_are_over() -> None:
    it = table()
    for key in ("a", "b", "waits"):
        sent(it, key, 0)
    sent(it, "x", 60)
    assert it.ended("x", 200 * MS, 3 * MS).slots == 1, "a and b may be waiting, as one of those ahead is"
    assert it.ended("a", 300 * MS, 2 * MS).slots == 2
    assert it.ended("b", 400 * MS, 2 * MS).slots == 3
    assert it.ended("waits", 500 * MS, 380 * MS).slots == 3


def test_who_may_be_in_the_front_end_yet_or_waits_for_another_runner_teaches_no_slot() -> None:
    it = table()
    sent(it, "wide", 0, facts(num_ctx="8192"))
    sent(it, "long", 99)
    sent(it, "x", 100)
    assert it.ended("x", 200 * MS, wait_ns=3 * MS).slots == 1


def test_served_after_a_wait_teaches_nothing_of_those_ahead() -> None:
    it = table()
    sent(it, "a", 0)
    sent(it, "x", 1)
    assert it.ended("x", 400 * MS, wait_ns=100 * MS).slots == 1


def test_without_a_start_nothing_is_learnt() -> None:
    it = table()
    sent(it, "x", 0)
    assert it.ended("x", 400 * MS).slots is None


def test_a_missing_end_does_not_fill_memory() -> None:
    it = table(1)
    for n in range(LIMIT + 5):
        it.began(str(n), n, facts())
    assert len(it) == LIMIT
    assert it.rivals("0") == {}
