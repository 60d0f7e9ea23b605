import pytest

from proxy.prefixes.alike import KNOWN, MOST, OTHER, Alike
from proxy.records import PrefixVerdict


def verdict(family, tokens=100, infinite=64):
    return PrefixVerdict(16, tokens, infinite=infinite, bins=(("compulsory", tokens),), family=family)


def test_a_family_is_summed_in_the_figures_of_its_verdicts():
    alike = Alike()
    for infinite in (0, 64, None):
        alike.add("e", "m", verdict("f1", infinite=infinite))
    alike.add("e", "m", verdict(None))
    sums = {"requests": 3, "prompt_tokens": 300, "reuse": 64, "hit_requests": 1}
    assert alike.rows() == [{"family": "f1", "engine": "e", "model": "m", **sums}]
    assert Alike().rows() == []


def test_families_beyond_the_largest_are_one_line():
    alike = Alike()
    for number in range(MOST + 5):
        alike.add("e", "m", verdict(f"f{number}", tokens=100 + number))
    *largest, rest = alike.rows()
    assert [one["family"] for one in largest] == [f"f{MOST + 4 - place}" for place in range(MOST)]
    assert rest == {
        **{"family": OTHER, "families": 5, "requests": 5},
        **{"prompt_tokens": 510, "reuse": 320, "hit_requests": 5},
    }


@pytest.mark.parametrize("more", [0, 1, 2 * KNOWN])
def test_however_many_families_a_bounded_number_is_kept_and_each_request_counted_once(more):
    alike = Alike()
    for number in range(KNOWN + more):
        alike.add("e", "m", verdict("seen all along", tokens=1_000_000))
        alike.add("e", "m", verdict(f"f{number}"))
    rows = alike.rows()
    assert len(alike._known) <= KNOWN
    assert rows[0]["requests"] == KNOWN + more
    assert sum(one["requests"] for one in rows) == 2 * (KNOWN + more)
    assert rows[-1]["families"] == 1 + KNOWN + more - MOST
