"""Defaults are filled in, series written out, placeholders replaced."""

import json
from typing import Any

from tests.cases.case import DEFAULT_BODY, MS, Step, case_of
from tests.support.script import OK, Read


def step(split: int | None = None, **source: Any) -> Step:
    return Step(0, source, split)


def test_the_default_request_is_a_streamed_chat() -> None:
    request = step(client={}).request(0, "p", "id")
    assert (request.method, request.target) == ("POST", "/v1/chat/completions")
    assert json.loads(request.body) == DEFAULT_BODY
    assert b" " not in request.body.replace(b"Say hi", b"")
    headers = dict(request.headers)
    assert headers.pop("content-length") == str(len(request.body))
    assert headers == {"host": "p", "content-type": "application/json", "x-request-id": "id"}


def test_a_get_has_no_body_and_no_framing() -> None:
    request = step(client={"method": "GET"}).request(0, "p", "id")
    assert (request.pieces, dict(request.headers)) == ((), {"host": "p", "x-request-id": "id"})


def test_a_body_goes_in_pieces_at_their_times() -> None:
    request = step(client={"body_raw": "abcde", "split": 2, "every_ms": 5}).request(0, "p", "id")
    assert request.pieces == ((0, b"ab"), (5 * MS, b"cd"), (10 * MS, b"e"))


def test_the_number_of_the_repetition_is_filled_in() -> None:
    client = {"path": "/{i}", "body_raw": "{i}", "headers": {"a": "{i}", "b": {"py": "'x'*i"}}}
    request = step(client=client, repeat=3).request(2, "p", "id")
    assert (request.target, request.body) == ("/2", b"2")
    assert ("a", "2") in request.headers
    assert ("b", "xx") in request.headers


def test_a_lone_surrogate_goes_as_its_escape() -> None:
    assert step(client={"body": {"a": "\ud800"}}).request(0, "p", "id").body == b'{"a":"\\ud800"}'


def test_series_of_reads_are_written_out_and_cut() -> None:
    reads = [{"t_ms": 10, "text": "a{i}", "every_ms": 5, "times": 2}, {"t_ms": 20, "hex": "00", "when": "usage_asked"}]
    script = step(client={}, engine={"reads": reads, "split": 1}).script(0, 7)
    assert script.reads == (
        Read(10 * MS, b"a"),
        Read(10 * MS, b"7"),
        Read(15 * MS, b"a"),
        Read(15 * MS, b"7"),
        Read(20 * MS, b"\0", when_usage_asked=True),
    )


def test_the_nth_request_gets_the_nth_script_and_the_last_holds_on() -> None:
    listed = step(client={}, engine=[{"status": 500}, {"status": 404}])
    assert [listed.script(number, 0).status for number in range(3)] == [500, 404, 404]
    assert step(client={}).script(0, 0) == OK


def test_splitting_from_outside_cuts_every_read() -> None:
    case = case_of({"id": "FC-900", "steps": [{"client": {}}]}, split=100)
    assert len(case.steps[0].script(0, 0).reads) == -(-len(OK.reads[0].data) // 100)
