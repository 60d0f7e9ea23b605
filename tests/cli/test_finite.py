import click
import pytest
from click.testing import CliRunner

from proxy.cli.finite import Finite


@click.command()
@click.option("--rate", type=Finite(0, 10, min_open=True))
def command(rate: float) -> None:
    click.echo(rate)


@pytest.mark.parametrize("text", ["nan", "NaN", "inf", "-inf", "infinity", "1e999", "0", "-1", "11", "x", ""])
def test_what_is_no_number_from_the_range_is_a_usage_error(text: str) -> None:
    result = CliRunner().invoke(command, ["--rate", text])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--rate" in result.stderr


@pytest.mark.parametrize("text", ["10", "1e-9", "2.5"])
def test_a_number_from_the_range_is_taken(text: str) -> None:
    assert float(CliRunner().invoke(command, ["--rate", text]).stdout) == float(text)
