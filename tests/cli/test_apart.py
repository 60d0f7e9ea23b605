import click
import pytest
from click.testing import CliRunner

from proxy.cli.apart import apart, given, idle


@click.command()
@click.argument("file", required=False)
@click.option("--json", "as_json", is_flag=True)
@click.option("--csv", is_flag=True)
@click.option("--size", type=int, default=1)
@click.option("--token", envvar="TOKEN_OF_A_TEST", default="")
@click.pass_context
def command(context: click.Context, **values: object) -> None:
    apart(context, "as_json", "csv")
    apart(context, "file", "csv")
    idle(context, ["size", "token"], "it is small.")
    click.echo(given(context, ["file", "as_json", "csv"]))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--json", "--csv"], "give --json or --csv, not both"),
        (["--csv", "f"], "give FILE or --csv, not both"),
        (["--size", "1"], "--size says nothing here: it is small."),
    ],
    ids=["two forms", "argument and option", "one that says nothing, at its default"],
)
def test_what_would_be_ignored_is_a_mistake(words: list[str], said: str) -> None:
    result = CliRunner().invoke(command, words)
    assert (result.exit_code, said in result.stderr) == (2, True)


def test_what_stands_alone_or_in_the_environment_is_none() -> None:
    result = CliRunner().invoke(command, ["--json", "f"], env={"TOKEN_OF_A_TEST": "t"})
    assert (result.exit_code, result.stdout) == (0, "['FILE', '--json']\n")
