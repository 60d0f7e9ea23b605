import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefixes.ledger import BINS, Books, Ledger, Sight, contradicted, split
from proxy.prefixes.wording import headline
from proxy.records import PrefixVerdict

counts = st.integers(0, 2_000)
sights = st.builds(Sight, counts, counts, counts, counts, counts, counts)


@given(sights, st.none() | counts)
def test_every_token_is_in_exactly_one_bin(sight, reported):
    bins = dict(split(sight, reported))
    assert tuple(bins) == BINS
    assert sum(bins.values()) == sight.tokens
    assert min(bins.values()) >= 0
    if reported is not None:
        assert bins["hit"] == min(reported, sight.tokens)


@pytest.mark.parametrize(
    ("sight", "reported", "expected"),
    [
        (Sight(100, 96, 96, 96, 0, 0), 96, {"hit": 96, "structural": 4}),
        (Sight(100, 96, 96, 96, 0, 0), None, {"hit": 96, "structural": 4}),
        (Sight(570, 560, 560, 560, 0, 0), 0, {"engine_gap": 560, "structural": 10}),
        (Sight(100, 96, 32, 64, 0, 0), 32, {"hit": 32, "capacity": 32, "structural": 4, "compulsory": 32}),
        (Sight(1032, 1024, 0, 0, 1024, 0), 0, {"other_replica": 1024, "structural": 8}),
        (Sight(100, 96, 16, 16, 0, 50), 16, {"hit": 16, "text_break": 50, "structural": 4, "compulsory": 30}),
        (Sight(100, 96, 0, 0, 0, 0), 0, {"structural": 4, "compulsory": 96}),
        (Sight(100, 99, 0, 0, 0, 0), 99, {"hit": 99, "structural": 1}),
    ],
    ids=["hit", "unknown", "gap", "evicted", "elsewhere", "broken", "new", "more-than-expected"],
)
def test_tokens_fall_into_their_bins(sight, reported, expected):
    assert {name: count for name, count in split(sight, reported) if count} == expected


def verdict(sight, reported, attainable=None):
    bins = split(sight, reported)
    return PrefixVerdict(16, sight.tokens, sight.resident, attainable, sight.infinite, bins, reported=reported)


def ledger(*rows):
    found = Ledger()
    for sight, reported in rows:
        found.add(verdict(sight, reported))
    return found


def test_requests_whose_engine_says_nothing_are_counted_apart():
    found = ledger((Sight(100, 96, 96, 96, 0, 0), None), (Sight(50, 48, 0, 0, 0, 0), 0))
    assert (found.requests, found.known, found.known_tokens, found.reported, found.tokens) == (2, 1, 50, 0, 150)
    assert found.bins["hit"] == 96
    row = found.row()
    assert (row["ideal"], row["attainable"], row["delivered"]) == (0.64, None, 0.0)
    assert sum(row["bins"].values()) == row["prompt_tokens"] == 150


HALF = Sight(100, 96, 48, 48, 0, 0)


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], "unknown"),
        ([(HALF, None)], "unknown"),
        ([(Sight(100, 96, 0, 0, 0, 0), 0)] * 50, "unknown"),
        ([(Sight(20, 16, 0, 0, 0, 0), 1)] * 50, "unknown"),
        ([(HALF, 0)] * 9, "unknown"),
        ([(HALF, 0)] * 10, "no_effect"),
        ([*[(HALF, 0)] * 10, (Sight(20, 16, 0, 0, 0, 0), 16)], "healthy"),
        ([(HALF, 48)], "healthy"),
        ([(HALF, 48), *[(Sight(100, 96, 0, 0, 0, 0), 0)] * 50], "healthy"),
        ([(Sight(100, 96, 0, 0, 0, 0), 96), *[(Sight(100, 96, 96, 96, 0, 0), 96)] * 8], "unknown"),
        ([(Sight(100, 96, 0, 0, 0, 0), 96), *[(Sight(100, 96, 96, 96, 0, 0), 96)] * 9], "healthy"),
        ([(Sight(1_000, 992, 0, 0, 0, 0), 320)] * 10, "contradicted"),
    ],
    ids=[
        *("no-request", "silent", "nothing-shared", "nothing-shared-and-yet-reused", "too-few", "without-effect"),
        *("one-reused", "healthy", "healthy-among-others", "warm-before-us", "warm-before-us-and-seen", "contradicted"),
    ],
)
def test_an_engine_gets_its_verdict(rows, expected):
    assert ledger(*rows).verdict == expected


def test_an_ideal_cache_gives_at_least_what_was_delivered():
    known = ledger(*[(Sight(100, 96, 48, 48, 0, 0), 50)] * 8).row()
    assert (known["verdict"], known["ideal"], known["delivered"]) == ("healthy", 0.5, 0.5)


def test_the_ideal_of_engines_that_say_and_that_do_not_is_of_both():
    seen = ledger(*[(Sight(100, 96, 40, 40, 0, 0), 44)] * 8, *[(Sight(100, 96, 10, 10, 0, 0), None)] * 8).row()
    assert (seen["ideal"], seen["delivered"]) == (0.27, 0.44)


def test_an_engine_that_is_contradicted_raises_no_ideal():
    counted = ledger(*[(Sight(1_000, 992, 16, 16, 0, 0), 320)] * 10).row()
    assert (counted["verdict"], counted["ideal"], counted["delivered"]) == ("contradicted", 0.016, 0.32)


def test_counters_read_a_moment_apart_do_not_contradict():
    assert not contradicted(hits=1_090, explained=1_000, looked_up=1_000)
    assert contradicted(hits=1_110, explained=1_000, looked_up=1_000)
    assert contradicted(hits=43_000, explained=0, looked_up=135_000)


def test_the_books_say_each_engine_and_all_together():
    books = Books()
    books.add("a", verdict(HALF, 48, attainable=48))
    books.add("b", verdict(HALF, None))
    report = books.report()
    assert [(one["engine"], one["verdict"], one["delivered"]) for one in report["engines"]] == [
        ("a", "healthy", 0.48),
        ("b", "unknown", None),
    ]
    assert (report["totals"]["requests"], report["totals"]["ideal"], report["totals"]["delivered"]) == (2, 0.48, 0.48)
    assert (report["totals"]["attainable"], report["totals"]["sized_requests"]) == (0.48, 1)
    assert report["totals"]["bins"]["hit"] == 96


verdicts = st.builds(verdict, sights, st.none() | counts, st.none() | st.integers(0, 100))


@given(st.lists(st.tuples(st.sampled_from("ab"), verdicts), max_size=12))
def test_every_rate_is_of_the_tokens_of_which_it_is_known(entered):
    books = Books()
    for engine, one in entered:
        books.add(engine, one)
    totals = books.report()["totals"]
    sized = [one for _, one in entered if one.attainable is not None]
    known = [one for _, one in entered if one.reported is not None]
    for name, part, of in (
        ("attainable", sum(one.attainable for one in sized), sized),
        ("delivered", sum(one.reported for one in known), known),
    ):
        whole = sum(one.tokens for one in of)
        assert totals[name] == (round(part / whole, 4) if whole else None)
    assert (totals["sized_requests"], totals["known_requests"]) == (len(sized), len(known))
    if all(one.reported <= (one.infinite or 0) + 0.1 * one.tokens for one in known):  # nobody is contradicted
        assert (totals["known_ideal"] or 0) >= (totals["delivered"] or 0)


def test_an_engine_that_does_not_say_its_size_takes_nothing_from_what_another_attains():
    full = Sight(1_000, 999, 900, 900, 0, 0)
    books = Books()
    books.add("vllm", verdict(full, 900, attainable=900))
    books.add("ollama", verdict(full, None))
    assert headline(books.report()) == (
        "ideal 90.0 %, attainable 90.0 % where the cache's size is known, delivered 90.0 %,"
        " as engines say of 1 of 2 requests (ideal there 90.0 %)"
    )


def test_the_ideal_of_all_is_the_sum_of_what_each_engine_proves():
    books = Books()
    for _ in range(10):
        books.add("template", verdict(Sight(100, 96, 40, 40, 0, 0), 44))
        books.add("small", verdict(Sight(100, 96, 80, 80, 0, 0), 0))
        books.add("contradicted", verdict(Sight(100, 96, 0, 0, 0, 0), 12))
    report = books.report()
    assert [one["ideal"] for one in report["engines"]] == [0.44, 0.8, 0.0]
    assert report["totals"]["ideal"] == round((0.44 + 0.8) / 3, 4)


def test_empty_books_know_no_rate():
    totals = Books().report()["totals"]
    assert (totals["ideal"], totals["attainable"], totals["delivered"]) == (None, None, None)
