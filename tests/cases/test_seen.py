"""What a client and an engine saw, put together."""

from tests.cases.case import Step
from tests.cases.seen import Exchange, forward_delay_ms, seen
from tests.support.client import Answer, Request
from tests.support.script import Call

MS = 1_000_000


def exchange(sent: list[tuple[int, bytes]], came: list[tuple[int, bytes]]) -> Exchange:
    answer = Answer(0, 0, status=200, headers=[("a", "1"), ("a", "2")], head_ns=3 * MS, chunks=came, end="complete")
    call = Call("e:1", "POST", "/x", [("h", "v")], b"body", 0, sent=sent, closed_ns=9 * MS)
    return Exchange("id", Step(0, {"client": {}}, None), 0, Request(pieces=((0, b"body"),)), [answer], [call])


def test_the_delay_is_that_of_the_slowest_byte() -> None:
    sent = [(1 * MS, b"ab"), (5 * MS, b"cd")]
    assert forward_delay_ms(exchange(sent, [(2 * MS, b"ab"), (7 * MS, b"cd")])) == 2
    assert forward_delay_ms(exchange(sent, [(7 * MS, b"abcd")])) == 6
    assert forward_delay_ms(exchange(sent, [(2 * MS, b"a"), (4 * MS, b"b")])) == 3
    assert forward_delay_ms(exchange(sent, [])) is None


def test_bytes_that_were_taken_out_delay_nothing() -> None:
    sent = [(1 * MS, b"ab"), (3 * MS, b"x"), (4 * MS, b"yc"), (9 * MS, b"d")]
    assert forward_delay_ms(exchange(sent, [(1 * MS, b"ab"), (6 * MS, b"c"), (9 * MS, b"d")])) == 2
    assert forward_delay_ms(exchange(sent, [(2 * MS, b"ab")])) == 1


def test_what_is_sent_to_a_client_that_left_is_not_missed_in_the_body() -> None:
    one = exchange([(1 * MS, b"ab"), (5 * MS, b"cd"), (6 * MS, b"ef")], [(1 * MS, b"ab"), (5 * MS, b"cd")])
    assert seen(one)["bytes_identical"] is False
    one.answers[0].left_ns = 5 * MS
    assert seen(one)["bytes_identical"] is True


def test_statuses_are_of_answers_that_came() -> None:
    one = exchange([(1 * MS, b"ab")], [(2 * MS, b"ab")])
    one.answers.append(Answer(0, 0))
    values = seen(one)
    assert (values["status"], values["statuses"]) == (None, [200])


def test_all_sides_are_named_in_the_words_of_checks() -> None:
    values = seen(exchange([(1 * MS, b"ab")], [(2 * MS, b"ab")]))
    assert (values["head_ms"], values["engine_closed_ms"], values["engine_requests"]) == (3, 9, 1)
    assert values["headers"] == {"a": ["1", "2"]}
    assert values["engine_request"]["body_identical"] is True
    assert values["bytes_identical"] is True
    assert "outcome" not in values
