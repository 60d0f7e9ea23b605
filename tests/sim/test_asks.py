import pytest

from proxy.sim.asks import END, OWN_LENGTH, Ask, count_of
from proxy.sim.jobs import Token
from proxy.sim.words import number


def ask(**more: object) -> Ask:
    return Ask(**{"id": "chatcmpl-x-1", "kind": "chat", "model": "m", "prompts": ((1, 2),), **more})  # type: ignore[arg-type]


def test_with_a_limit_an_answer_is_as_long_as_that() -> None:
    limited = ask(limit=7)
    assert (len(limited.answers[0]), limited.finish) == (7, "length")


def test_without_a_limit_an_answer_ends_by_itself_with_a_mark_that_has_no_text() -> None:
    free = ask()
    assert (len(free.answers[0]), free.answers[0][-1], free.finish) == (OWN_LENGTH, END, "stop")
    assert free.text(Token("chatcmpl-x-1.9-0", OWN_LENGTH - 1, last=True)) == ""
    assert END not in free.whole(0)


def test_there_is_a_job_for_each_choice_of_each_prompt() -> None:
    many = ask(prompts=((1,), (2,)), n=2, limit=3, salt="s", runner="r")
    jobs = many.jobs(serial=5)
    assert [job.id for job in jobs] == [f"chatcmpl-x-1.5-{index}" for index in range(4)]
    assert [job.prompt for job in jobs] == [(1,), (1,), (2,), (2,)]
    assert {(job.salt, job.model, job.finish) for job in jobs} == {("s", "r", "length")}
    assert [many.choice(job.id) for job in jobs] == [0, 1, 2, 3]
    assert jobs[0].answer == tuple(map(number, many.answers[0]))


@pytest.mark.parametrize(
    ("value", "count"), [(5, 5), (0, None), (-1, None), (True, None), ("5", None), (None, None), (2.0, None)]
)
def test_a_count_is_a_positive_integer(value: object, count: int | None) -> None:
    assert count_of(value) == count
