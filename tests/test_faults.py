"""A fault is one line that names its key, its place and its source."""

from proxy.faults import ConfigError, Fault, Unfit


def test_a_fault_says_where_it_is_as_far_as_it_is_known() -> None:
    fault = Fault("limit.mode", "'x' is none of off, on")
    assert str(fault) == "limit.mode: 'x' is none of off, on"
    assert str(fault._replace(origin="flag")) == "limit.mode: 'x' is none of off, on (flag)"
    assert str(fault._replace(at="limit 'a'", origin="flag")) == "limit.mode: 'x' is none of off, on (limit 'a', flag)"


def test_an_error_tells_all_faults_on_one_line_that_can_be_shown() -> None:
    faults = (Fault("a", "is\x1b[2J\nwrong"), Fault("b", "too", "limit '\x9b'"))
    for error in (ConfigError(*faults), Unfit(*faults)):
        assert error.faults == faults
        assert str(error) == "a: is[2Jwrong; b: too (limit '')"
