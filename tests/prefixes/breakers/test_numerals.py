import pytest

from proxy.prefixes.breakers.numerals import (
    changes_daily,
    columns,
    counts_turns,
    new_each_day,
    one_number,
    one_way,
    tells_day,
    tells_time,
    tells_turn,
)

MINUTE, HOUR, DAY = 60.0, 3_600.0, 86_400.0


def numbers(*found):
    return list(enumerate(found))


def test_numbers_that_vary_stand_in_columns():
    assert columns(["2 of 12", "3 of 12"]) == [numbers(2, 3)]
    assert columns(["10:15", "11:16"]) == [numbers(10, 11), numbers(15, 16)]
    assert columns(["10:15", "eleven", "10:16"]) == []
    assert columns(["none", "either"]) == []


def test_one_number_varies_and_the_rest_stays():
    assert one_number(["case 00017", "case 00020"]) == numbers(17, 20)
    assert one_number(["case 1", "step 2"]) is None
    assert one_number(["1 of 2", "2 of 3"]) is None


@pytest.mark.parametrize(
    ("found", "keys", "counts"),
    [
        ((1, 2, 3), (0, 0, 0), True),
        ((1, 1, 2, 2), (1, 2, 1, 2), True),
        ((900, 850, 790), (0, 0, 0), True),
        ((1, 5_000, 9_999), (0, 0, 0), False),
        ((5, 1, 7, 2), (0, 0, 0, 0), False),
        ((1, 1), (1, 2), False),
        ((2, 1), (0, 0), False),
    ],
    ids=["rises", "in-each-talk", "falls", "leaps", "both-ways", "stays", "fell-once"],
)
def test_a_counter_goes_one_way_by_small_steps(found, keys, counts):
    assert one_way(numbers(*found), keys) == counts


def test_small_numbers_from_one_on_count_turns():
    assert counts_turns(numbers(1, 1, 2, 1, 3, 2, 4, 3))
    assert not counts_turns(numbers(1, 2, 3, 3, 2, 1))
    assert not counts_turns(numbers(1, 2, 4, 5, 1, 2))
    assert not counts_turns(numbers(1, 4, 4, 3, 2, 4, 3))


def test_a_value_that_goes_with_the_turn_of_its_conversation_tells_it():
    talks = [k // 4 for k in range(16)]
    assert tells_turn(["first", "second", "third", "fourth"] * 4, talks)
    assert not tells_turn(["first", "second", "third", "third"] * 4, talks)
    assert not tells_turn(["first", "second", "third", "fourth"] * 4, list(range(16)))
    assert not tells_turn([f"{k}" for k in range(16)], talks)
    assert not tells_turn(["first", "second", "third", "fourth"], [0] * 4)


def test_a_number_that_goes_with_the_clock_tells_time():
    times = [MINUTE * 13 * k for k in range(40)]
    minutes = numbers(*(int(at // 60 + 30) % 60 for at in times))
    assert tells_time(minutes, times)
    assert tells_time(
        numbers(*(int(at // HOUR + 5) % 24 for at in [HOUR * k for k in range(40)])), [HOUR * k for k in range(40)]
    )
    assert not tells_time(numbers(*(k * 7 % 60 for k in range(40))), times)
    assert not tells_time(numbers(1, 2, 3, 4, 5, 6), [HOUR * k for k in range(6)])


def test_a_number_that_goes_with_the_day_tells_it():
    times = [DAY * k / 3 for k in range(12)]
    assert tells_day(numbers(*(60 + int(at // DAY) for at in times)), times)
    assert tells_day(numbers(*(60 + int((at + 5 * HOUR) // DAY) for at in times)), times)
    assert not tells_day(numbers(*range(12)), times)
    assert not tells_day(numbers(1, 1, 2, 2), [HOUR * k for k in range(4)])


def test_a_value_stays_for_a_day():
    times = [DAY * k / 3 for k in range(9)]
    assert changes_daily("aaabbbccc", times)
    assert not changes_daily("abcabcabc", times)
    assert not changes_daily("ab", [0.0, 5 * DAY])


def test_each_day_brings_its_own_or_not():
    times = [DAY * k / 3 for k in range(9)]
    assert new_each_day("aaabbbccc", times)
    assert not new_each_day("aaabbbbbb", times)
    assert not new_each_day("aaabbbaaa", times)
