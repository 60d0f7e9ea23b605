from proxy.sim.jobs import Job
from proxy.sim.progress import Progress


def test_tokens_run_on_from_the_prompt_into_the_answer() -> None:
    progress = Progress(Job("a", (1, 2, 3), (7, 8, 9)), 0, 0)
    assert [progress.tokens(0, 2), progress.tokens(2, 3), progress.tokens(4, 2)] == [(1, 2), (3, 7, 8), (8, 9)]


def test_it_lacks_its_newest_token_only_while_it_decodes() -> None:
    progress = Progress(Job("a", (1, 2, 3), (7, 8)), 0, 0)
    assert (progress.lacks, progress.decoding) == (3, False)
    progress.computed = 3
    first = progress.emit(50)
    assert (first.index, first.last, progress.lacks, progress.decoding) == (0, False, 1, True)
    progress.computed = 0
    assert (progress.lacks, progress.decoding) == (4, False)


def test_the_last_token_says_so_and_the_truth_has_both_moments() -> None:
    progress = Progress(Job("a", (1,), (7, 8), finish="stop"), 5, 6)
    progress.emit(10)
    assert progress.emit(20).last
    truth = progress.truth()
    assert (truth.first_token_ns, truth.last_token_ns, truth.finish, truth.decode_ns) == (10, 20, "stop", 10)
    assert progress.truth(aborted=True).finish == "abort"
