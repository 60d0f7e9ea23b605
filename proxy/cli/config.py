"""`phasegate config`: look at the settings without starting anything."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

import click

from proxy.cli import USAGE
from proxy.cli.footing import concerns, unfounded, unfurnished
from proxy.cli.keys import keys
from proxy.cli.saying import tell
from proxy.config import Settings, leaves, masked
from proxy.declared import CHANGES
from proxy.flaws import Flaw
from proxy.loading import Loaded, gather
from proxy.plain import printable
from proxy.policy import unfit

FILE = click.Path(dir_okay=False, path_type=Path)


def found(file: Path | None, flags: Mapping[str, Any]) -> Loaded:
    """Settings from all sources, with what is wrong in them and in the keys that they name."""
    return gather(file, os.environ, flags).also(unfit)


def read(file: Path | None, flags: Mapping[str, Any]) -> Loaded:
    """The same. Raises ConfigError where anything is wrong."""
    return found(file, flags).good()


def standing(result: Loaded) -> Loaded:
    """The same; a message for everything that is wrong, and exit code 2."""
    if result.flaws:
        refuse(result.flaws)
        sys.exit(USAGE)
    return result


def refuse(flaws: Iterable[Flaw]) -> None:
    """Tells all of them, a line each."""
    for flaw in flaws:
        tell(f"phasegate: {flaw}")


def warn(settings: Settings) -> None:
    """Says on stderr what can stand, and is hardly what was meant."""
    for concern in concerns(settings):
        tell(f"phasegate: warning: {concern}")


@click.group()
def config() -> None:
    """Check or print the settings."""


def _takes_file(command: Callable[..., None]) -> Callable[..., None]:
    """A command that takes one file: as its argument, or as `--config`, as `serve` does."""

    @click.argument("argument", metavar="[FILE]", type=FILE, required=False)
    @click.option("--config", "option", type=FILE, help="TOML file; the same as the argument.")
    @wraps(command)
    def taking(argument: Path | None, option: Path | None, **flags: object) -> None:
        if argument and option:
            raise click.UsageError("give one file")
        command(argument or option, **flags)

    return taking


@config.command()
@_takes_file
def check(file: Path | None) -> None:
    """Say all that is wrong with the settings (exit code 2).

    What `serve` would refuse is refused, save an address that is in use: it may be the running proxy's own.
    """
    warn(standing(found(file, {}).also(unfounded).also(unfurnished)).settings)
    click.echo("ok")


@config.command("print")
@_takes_file
@click.option("--origin", is_flag=True, help="Say where each value comes from.")
def show(file: Path | None, origin: bool) -> None:
    """Print every setting, as TOML; secrets are masked."""
    result = standing(found(file, {}))
    for key, value in leaves(result.settings):
        text = _toml(masked(value, key.rpartition(".")[2]))
        click.echo(printable(f"{key} = {text}" + (f"  # {result.origins[key]}" if origin else "")))
    click.echo("\n# what is changed on the way, and nothing else")
    for name, change in CHANGES.items():
        click.echo(f"# {name:<10} {'on ' if change.when(result.settings) else 'off'}  {change.what}")


def _toml(value: object) -> str:
    """A value of settings on one line; what is not set stands nowhere."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_toml(k)} = {_toml(v)}" for k, v in value.items() if v is not None) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        return f'"{"".join(map(_letter, value))}"'
    return json.dumps(value)


def _letter(char: str) -> str:
    """JSON writes what lies beyond U+FFFF as two escapes, which TOML refuses."""
    return json.dumps(char)[1:-1] if char < "\U00010000" else f"\\U{ord(char):08x}"


config.add_command(keys)
