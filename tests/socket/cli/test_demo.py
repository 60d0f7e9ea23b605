"""The whole demo: an engine and phasegate as processes."""

import json

from click.testing import CliRunner

from proxy.cli import GOAL_MISSED
from proxy.cli.demo import demo


def test_the_show_runs_on_a_bare_machine_and_says_what_it_measured() -> None:
    """The real thing, five seconds long: an engine and phasegate as processes, real sockets, no network."""
    result = CliRunner().invoke(demo, ["--seconds", "5", "--json"])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    assert result.exit_code in (0, GOAL_MISSED), result.stderr
    said = json.loads(result.stdout)
    missed = [effect["says"] for effect in said["effects"] if not effect["seen"]]
    assert result.exit_code == (GOAL_MISSED if missed else 0)
    assert result.stderr.splitlines() == [f"not seen this time: {says}" for says in missed]
    # What the engine reuses does not depend on how busy this machine is.
    assert said["clean"]["hit_rate"] > 0.5 > 0.1 > said["stamped"]["hit_rate"]
    assert said["as_they_come"]["streams"] == 8
    assert said["as_they_come"]["true_lost_s"] > 0
