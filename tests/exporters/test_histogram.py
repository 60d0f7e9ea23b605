from hypothesis import given
from hypothesis import strategies as st

from proxy.exporters.histogram import Budget, Histograms, Sums


def test_a_value_on_an_edge_is_under_it() -> None:
    times = Histograms(("engine",), (10, 20), Budget(100))
    for value in (0, 10, 11, 20, 21):
        times.observe(("a",), value)
    assert times.at(("a",)).counts == [2, 2, 1]
    assert times.at(("a",)).total == 62


def test_the_newest_exemplar_of_a_bucket_stays() -> None:
    times = Histograms((), (10,), Budget(100))
    times.observe((), 3, ("old", 1.0))
    times.observe((), 4, ("new", 2.0))
    times.observe((), 5)
    assert times.at(()).exemplars == {0: ("new", 4, 2.0)}


def test_many_values_are_as_good_as_one_by_one() -> None:
    times = Histograms((), (10,), Budget(100))
    times.observe_many((), [(5, 3), (15, 2)])
    assert (times.at(()).counts, times.at(()).total) == ([3, 2], 45)


def test_beyond_the_budget_outside_names_become_other_and_ours_stay() -> None:
    sums = Sums(("engine", "outcome"), Budget(1), reserve=1)
    for engine in ("a", "b", "c", "a"):
        sums.add((engine, "completed"))
    sums.add(("d", "shed"))
    assert dict(sums) == {("a", "completed"): 2, ("other", "completed"): 2, ("other", "other"): 1}


def test_beyond_the_budget_models_are_others_of_their_engine() -> None:
    sums = Sums(("engine", "model", "outcome"), Budget(5))
    for engine, model in ("aw", "ax", "ay", "az", "bw", "ax", "a1", "b1", "a2", "ay"):
        sums.add((engine, model, "completed"))
    assert dict(sums) == {
        ("a", "w", "completed"): 1, ("a", "x", "completed"): 2, ("a", "y", "completed"): 2, ("b", "w", "completed"): 1,
        ("a", "other", "completed"): 3, ("other", "other", "completed"): 1,
    }  # fmt: skip


def test_a_model_with_a_better_right_takes_the_series_of_another() -> None:
    families: list[Sums | Histograms] = []

    def yields(model: str) -> bool:
        guests = [labels[1] for family in families for labels in family.sets if labels[1] == "guest"]
        for family in families:
            family.give_back("guest")
        return model == "host" and bool(guests)

    budget = Budget(6, yields)
    sums, times = Sums(("engine", "model"), budget), Histograms(("engine", "model"), (10, 20), budget)
    families += [sums, times]
    for model in ("guest", "host", "stranger"):
        sums.add(("e", model))
        times.observe(("e", model), 15)
    assert dict(sums) == {("e", "host"): 1, ("other", "other"): 2}
    assert {labels: (spread.counts, spread.total) for labels, spread in times} == {
        ("e", "host"): ([0, 1, 0], 15),
        ("other", "other"): ([0, 2, 0], 30),
    }


def test_what_a_model_gives_back_stays_beside_its_engine_where_there_is_room() -> None:
    sums = Sums(("engine", "model"), Budget(4))
    for model in ("guest", "host"):
        sums.add(("e", model))
    sums.give_back("guest")
    assert dict(sums) == {("e", "host"): 1, ("e", "other"): 1}
    sums.give_back("host")
    assert dict(sums) == {("e", "other"): 2}


@given(st.lists(st.tuples(st.integers(0, 9).map(str), st.integers(0, 9).map(str)), max_size=200))
def test_whatever_comes_the_bound_holds_and_nothing_is_uncounted(labels: list[tuple[str, str]]) -> None:
    times = Histograms(("model", "phase"), (1, 2), Budget(23), reserve=3)
    for pair in labels:
        times.observe(pair, 1)
    assert len(times.sets) <= 23 // 5 + 3 + 1
    assert sum(histogram.counts[0] for _, histogram in times) == len(labels)
