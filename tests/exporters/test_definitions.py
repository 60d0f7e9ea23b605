from itertools import pairwise

from proxy.exporters.definitions import COUNT_ERROR, COUNTERS, EDGES_NS, ERROR_EDGES, LAG_EDGES_NS, TIMES


def test_edges_rise_from_a_millisecond_to_ten_minutes_and_are_sixteen_at_most() -> None:
    assert list(EDGES_NS) == sorted(set(EDGES_NS))
    assert (EDGES_NS[0], EDGES_NS[-1]) == (1_000_000, 600_000_000_000)
    assert len(EDGES_NS) <= 16
    assert list(ERROR_EDGES) == sorted(set(ERROR_EDGES))
    assert list(LAG_EDGES_NS) == sorted(set(LAG_EDGES_NS))


def test_all_times_of_requests_share_one_list_and_no_bucket_is_wider_than_five_times_its_start() -> None:
    """A quantile is read off between two edges: from 120 s to 600 s one of 300 s would be shown as 585."""
    assert {name for name, it in TIMES.items() if it.edges != EDGES_NS} == {"loop_lag"}
    seconds = [edge / 1e9 for edge in EDGES_NS]
    assert all(high <= 5 * low for low, high in pairwise(seconds))
    assert {0.002, 0.005} <= {edge / 1e9 for edge in LAG_EDGES_NS}
    assert 300 in seconds


def test_a_model_is_a_label_of_four_distributions_and_of_counters_alone() -> None:
    assert {name for name, it in TIMES.items() if "model" in it.labels} == {"ttft", "itl", "tpot", "request_duration"}


def test_every_metric_says_what_it_is() -> None:
    for it in (*TIMES.values(), *COUNTERS.values(), COUNT_ERROR):
        assert it.help.endswith(".")
        assert it.help[0].isupper()
