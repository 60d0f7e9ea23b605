"""Options that say nothing beside one another: to give both is a mistake, for one of them would be ignored unsaid."""

from collections.abc import Collection

import click
from click.core import ParameterSource


def given(context: click.Context, names: Collection[str]) -> list[str]:
    """Those of these parameters that stand on the command line, as they are spelt there."""
    return [
        parameter.opts[-1] if isinstance(parameter, click.Option) else parameter.human_readable_name
        for parameter in context.command.params
        if parameter.name in names and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
    ]


def apart(context: click.Context, *names: str) -> None:
    """Raises UsageError where more than one of these parameters stands on the command line."""
    if len(found := given(context, names)) > 1:
        raise click.UsageError(f"give {' or '.join(found)}, not both", context)


def idle(context: click.Context, names: Collection[str], why: str) -> None:
    """Raises UsageError where one of these parameters, which say nothing here, stands on the command line."""
    for name in given(context, names):
        raise click.UsageError(f"{name} says nothing here: {why}", context)
