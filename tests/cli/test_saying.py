import pytest

from proxy.cli.saying import stop, tell
from tests.support.hostile import ESCAPE


def test_a_complaint_is_one_line_whatever_it_quotes(capsys: pytest.CaptureFixture[str]) -> None:
    tell(f"no {ESCAPE}")
    out, err = capsys.readouterr()
    assert (out, err) == ("", "no ]0;owned[2J31mforged\n")


def test_a_command_stops_with_a_reason_and_a_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        stop("it is not there", 3)
    assert ended.value.code == 3
    assert capsys.readouterr().err == "phasegate: it is not there\n"
    with pytest.raises(SystemExit) as ended:
        stop("that is no file")
    assert ended.value.code == 2
