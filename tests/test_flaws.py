"""A flaw is one line that names its key, its place and its source."""

from proxy.flaws import ConfigError, Flaw, Unfit


def test_a_fault_says_where_it_is_as_far_as_it_is_known() -> None:
    flaw = Flaw("limit.mode", "'x' is none of off, on")
    assert str(flaw) == "limit.mode: 'x' is none of off, on"
    assert str(flaw._replace(origin="flag")) == "limit.mode: 'x' is none of off, on (flag)"
    assert str(flaw._replace(at="limit 'a'", origin="flag")) == "limit.mode: 'x' is none of off, on (limit 'a', flag)"


def test_an_error_tells_all_faults_on_one_line_that_can_be_shown() -> None:
    flaws = (Flaw("a", "is\x1b[2J\nwrong"), Flaw("b", "too", "limit '\x9b'"))
    for error in (ConfigError(*flaws), Unfit(*flaws)):
        assert error.flaws == flaws
        assert str(error) == "a: is[2Jwrong; b: too (limit '')"
