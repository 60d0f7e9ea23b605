from datetime import datetime

import pytest

from proxy.prefixes.breakers.finder import LEAST_REQUESTS, Breaker
from proxy.prefixes.ledger import BINS
from proxy.prefixes.wording import FIXES, KINDS, TELLING, headline, table
from tests.support.hostile import ESCAPE, is_plain

BREAKER = {
    "family": "F1",
    **Breaker("timestamp", "move", ("1", "2"), 0, "system", 38, 9, 50, 1_000, 0.31, 0.7, ("dd:dd",)).row(),
    "tokens_per_hour": 82_000,
}


def sentence(breaker, prefill_rate=None):
    """Of a report that has no other breaker."""
    return headline({**OFFLINE, "breakers": [breaker]}, prefill_rate)


OFFLINE = {
    "totals": {"reuse": {"inf": {"rate": 0.71}, "1000": {"rate": 0.64}}},
    "families": [{"family": f"F{k}", "requests": 2, "prompt_tokens": 100 - k, "reuse": 50} for k in range(23)],
    "breakers": [BREAKER],
    "curve": [{"capacity_tokens": 1_000, "rate": 0.64, "sampled": 1}],
}


def test_the_headline_says_what_is_lost_and_why():
    assert headline(OFFLINE, prefill_rate=2_000) == (
        "ideal 71.0 %, attainable with 1,000 tokens of KV memory 64.0 %: the system text of family F1 changes at"
        " character 38 (a time stamp); moving it to the end saves 41.0 prefill seconds an hour"
        " (31.0 % of its prompt tokens)"
    )


def test_an_audit_of_an_engine_says_what_was_delivered():
    totals = {"ideal": 0.71, "attainable": 0.64, "delivered": 0.12}
    assert headline({"totals": totals}) == "ideal 71.0 %, attainable 64.0 %, delivered 12.0 %"
    assert headline({"totals": {**totals, "attainable": None}}) == "ideal 71.0 %, delivered 12.0 %"


def family(requests, tokens):
    return {"family": "F", "requests": requests, "prompt_tokens": tokens, "reuse": 0}


def test_no_all_clear_is_given_where_text_breaks_prefixes():
    for broken, said in (
        (99, "nothing breaks the prefixes"),
        (314, "what breaks the prefixes of 31.4 % was not found ("),
    ):
        totals = {"ideal": 0.1, "prompt_tokens": 1_000, "bins": {"text_break": broken}}
        families = [family(LEAST_REQUESTS, TELLING)]
        assert said in headline({"totals": totals, "families": families, "breakers": []})


def test_where_some_engines_say_nothing_it_is_said_of_how_many_requests_the_rest_speaks():
    totals = {"ideal": 0.2, "delivered": 0.1, "requests": 47, "known_requests": 29}
    assert headline({"totals": totals}).endswith("delivered 10.0 %, as engines say of 29 of 47 requests")
    assert headline({"totals": {**totals, "known_requests": 47}}).endswith("delivered 10.0 %")


def test_where_some_caches_have_no_known_size_the_attainable_is_that_of_the_rest():
    totals = {"ideal": 0.7, "attainable": 0.6, "delivered": 0.5, "requests": 4, "known_requests": 4}
    for sized, where in ((4, ""), (3, " where the cache's size is known")):
        said = f"ideal 70.0 %, attainable 60.0 %{where}, delivered 50.0 %"
        assert headline({"totals": {**totals, "sized_requests": sized}}) == said


@pytest.mark.parametrize(
    ("families", "told"),
    [
        ([], False),
        ([family(LEAST_REQUESTS, TELLING)], True),
        ([family(LEAST_REQUESTS - 1, 10 * TELLING)], False),
        ([family(10 * LEAST_REQUESTS, TELLING - 1)], False),
        ([family(1, TELLING)] * LEAST_REQUESTS, True),
        ([family(1, 9)] * LEAST_REQUESTS, False),
    ],
    ids=["none", "enough", "few requests", "few tokens", "strays together", "few tokens of strays"],
)
def test_no_all_clear_is_given_for_fewer_prompts_than_the_search_needs(families, told):
    said = headline({"totals": {"ideal": 0.1}, "families": families, "breakers": []})
    assert said.endswith("; nothing breaks the prefixes") is told
    assert ("; too few to tell" in said) is not told


def test_an_audit_without_prompts_says_so():
    assert headline({"totals": {"requests": 0, "ideal": None}, "breakers": []}) == "no prompts yet"


@pytest.mark.parametrize("requests", [0, 3])
def test_an_audit_of_a_running_proxy_says_since_when_it_counts(requests):
    began = datetime(2026, 11, 30, 23, 5, 55, 900_000).timestamp()
    totals = {"requests": requests, "ideal": 0.71, "delivered": 0.12, "known_requests": requests}
    said = headline({"totals": totals})
    assert headline({"since": began, "totals": totals}) == f"since 2026-11-30 23:05:55: {said}"
    assert not said.startswith("since")


def test_an_engine_that_is_silent_is_said_to_be_so():
    totals = {"requests": 3, "ideal": 0.71, "attainable": None, "delivered": None}
    assert headline({"totals": totals}) == "ideal 71.0 %, delivered unknown: no engine says its cached tokens"


def test_memory_that_gives_no_more_hits_is_left_out():
    points = [(1_000, "a", 0.5), (2_000, "a", 0.7), (4_000, "a", 0.7), (1_000, "b", 0.7), (2_000, "b", 0.7)]
    curve = [{"capacity_tokens": size, "engine": name, "rate": rate} for size, name, rate in points]
    lines = [line.split()[:2] for line in table({"curve": curve}).splitlines()[1:]]
    assert lines == [["1,000", "a"], ["2,000", "a"], ["1,000", "b"]]
    assert not table({"curve": [{"capacity_tokens": 1_000 << k, "engine": "a", "rate": 0.0} for k in range(11)]})


def test_a_price_is_told_in_what_is_known():
    assert sentence(BREAKER).endswith("saves 82,000 of our tokens an hour (31.0 % of its prompt tokens)")
    assert sentence({**BREAKER, "seconds_per_hour": 41.04}).endswith(
        "saves 41.0 prefill seconds an hour (31.0 % of its prompt tokens)"
    )
    assert sentence(BREAKER, 2_000).endswith("saves 41.0 prefill seconds an hour (31.0 % of its prompt tokens)")
    minute = {**BREAKER, "seconds_per_hour": None, "observed_s": 62.04, "tokens_observed": 4_000}
    pace = "in the 62 s observed, {} an hour at that pace (31.0 % of its prompt tokens)"
    assert sentence(minute).endswith("saves 4,000 of our tokens " + pace.format("82,000"))
    assert sentence(minute, 1_000).endswith("saves 4.0 prefill seconds " + pace.format("82.0"))
    assert sentence({**minute, "seconds_observed": 5.5, "seconds_per_hour": 99.5}).endswith(
        "saves 5.5 prefill seconds " + pace.format("99.5")
    )
    assert sentence({**BREAKER, "tokens_per_hour": None}).endswith(
        "saves 1,000 of our tokens (31.0 % of its prompt tokens)"
    )
    assert sentence({**BREAKER, "tokens_per_hour": None, "share_saved": None}).endswith("saves 1,000 of our tokens")


HALF_HOUR = {"tokens_per_hour": 2_000, "observed_s": 1_800.0, "tokens_observed": 1_000}
HOURS = {"tokens_per_hour": 40_000, "observed_s": 7_200.0, "tokens_observed": 80_000}


@pytest.mark.parametrize(
    ("slow", "fast", "rate", "told"),
    [
        ((9.0, 18.0), (0.4, 0.8), None, ["9.0 prefill seconds in", "0.8 prefill seconds an"]),
        ((9.0, 18.0), (None, None), None, ["40,000 of our tokens an", "1,000 of our tokens in"]),
        ((9.0, 18.0), (None, None), 4_000, ["9.0 prefill seconds in", "10.0 prefill seconds an"]),
        ((None, None), (0.4, 0.8), 1_000, ["1.0 prefill seconds in", "0.8 prefill seconds an"]),
        ((None, None), (None, None), None, ["40,000 of our tokens an", "1,000 of our tokens in"]),
        ((None, None), (None, None), 1_000, ["40.0 prefill seconds an", "1.0 prefill seconds in"]),
    ],
    ids=["all in time", "some in time", "the others by the rate", "ours by the rate", "none", "all by the rate"],
)
def test_breakers_are_told_in_the_unit_in_which_they_are_ranked(slow, fast, rate, told):
    breakers = [
        {**BREAKER, **paid, "seconds_observed": took[0], "seconds_per_hour": took[1]}
        for paid, took in ((HALF_HOUR, slow), (HOURS, fast))
    ]
    report = {**OFFLINE, "breakers": breakers}
    lines = table(report, rate).splitlines()
    assert [f"  {words} " in line for words, line in zip(told, lines[1:3], strict=True)] == [True, True]
    assert f" saves {told[0]} " in headline(report, rate)


def test_the_table_has_breakers_families_and_the_curve():
    lines = table(OFFLINE).splitlines()
    assert lines[1].split()[:2] == ["timestamp", "F1"]
    assert "  82,000 of our tokens an hour (31.0 %)  " in lines[1]
    minute = {**OFFLINE, "breakers": [{**OFFLINE["breakers"][0], "observed_s": 60.0, "tokens_observed": 9}]}
    assert "  9 of our tokens in the 60 s observed (31.0 %)  " in table(minute)
    assert next(line for line in lines if line.startswith("other ")).split() == ["other", "6", "237", "63.3", "%"]
    assert lines[-1].split() == ["1,000", "all", "as", "one", "64.0", "%"]


@pytest.mark.parametrize(
    ("given", "head"), [({"block": 16}, "reusable in blocks of 16"), ({"block": 1}, "reusable"), ({}, "reusable")]
)
def test_a_share_of_whole_blocks_is_called_so(given, head):
    lines = table({**OFFLINE, **given}).splitlines()
    assert next(line for line in lines if line.startswith("family ")).endswith(f"prompt tokens  {head}")


def test_engines_have_their_tokens_by_bin():
    bins = {name: 10 * (name == "hit") for name in BINS}
    engine = {"engine": "one", "verdict": "healthy", "requests": 3, "prompt_tokens": 20, "bins": bins}
    lines = table({"engines": [engine]}).splitlines()
    assert lines[0].split()[-7:] == list(BINS)
    assert lines[1].split()[:6] == ["one", "healthy", "3", "20", "50.0", "%"]


@pytest.mark.parametrize(("known", "shown"), [(3, "50.0 %"), (2, "~50.0 %"), (0, "~50.0 %")])
def test_hits_that_are_expected_where_an_engine_does_not_say_are_marked(known, shown):
    bins = {name: 10 * (name == "hit") for name in BINS}
    sums = {"verdict": "unknown", "requests": 3, "known_requests": known, "prompt_tokens": 20, "bins": bins}
    assert f"20             {shown} " in table({"engines": [{"engine": "one", **sums}]})


@pytest.mark.parametrize("where", ["report", "point"])
def test_the_curve_says_of_which_blocks_it_is(where):
    point, whole = ({"block": 16}, {}) if where == "point" else ({}, {"block": 16})
    shown = table({"curve": [{"capacity_tokens": 1_000, "rate": 0.5, **point}], **whole})
    assert shown.splitlines()[0].endswith("  hits in blocks of 16")


def test_a_trace_has_its_curve():
    report = {"vllm_rule_infinite": 0.5, "vllm_rule_lru": {"1000": 0.25}, "input_tokens": 1_000}
    assert headline(report) == "ideal 50.0 % of 1,000 prompt tokens"
    assert table(report).splitlines()[-1].split() == ["1,000", "25.0", "%"]


@pytest.mark.parametrize("fix", ["move", "reorder", "normalise", "keep"])
def test_every_fix_has_its_words(fix):
    assert FIXES[fix]


def test_every_kind_has_its_words():
    named = (
        "timestamp date uuid session_id nonce counter user_name locale_number tool_order json_key_order fewshot_order"
    )
    more = "whitespace trailing_space bom unicode_norm docs_before_instructions image_before_text think_stripped"
    rest = "history_truncated history_rewritten prompt_version other"
    assert set(KINDS) == set(f"{named} {more} {rest}".split())


def test_names_from_outside_steer_no_terminal_and_forge_no_row():
    engine = {"engine": ESCAPE, "verdict": ESCAPE, "requests": 1, "prompt_tokens": 1, "bins": dict.fromkeys(BINS, 0)}
    breaker = {**BREAKER, "family": ESCAPE, "role": ESCAPE, "excerpts": [ESCAPE + "x" * 999]}
    shown = table({**OFFLINE, "breakers": [breaker], "engines": [engine]})
    assert is_plain(shown)
    assert len(shown.splitlines()) == len(table({**OFFLINE, "engines": [{**engine, "engine": "e"}]}).splitlines())


def test_a_breaker_of_a_kind_that_is_not_known_yet_is_called_by_its_name():
    assert "(moon_phase); tilt saves" in sentence({**BREAKER, "kind": "moon_phase", "fix": "tilt"})
