"""`phasegate config`: look at the settings without starting anything."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from proxy.cli.footing import concerns
from proxy.cli.keys import keys
from proxy.cli.saying import stop, tell
from proxy.config import ConfigError, Settings, leaves, masked
from proxy.declared import CHANGES
from proxy.loading import Loaded, load
from proxy.plain import printable
from proxy.policy import purposeful, rules, tenants

FILE = click.Path(dir_okay=False, path_type=Path)


def read(file: Path | None, flags: Mapping[str, Any]) -> Loaded:
    """Settings from all sources, with the files that they name. Raises ConfigError."""
    result = load(file, os.environ, flags)
    rules(result.settings)
    tenants(result.settings)
    purposeful(result.settings)
    return result


def loaded(file: Path | None, flags: Mapping[str, Any]) -> Loaded:
    """The same; a message and exit code 2 where they cannot stand."""
    try:
        return read(file, flags)
    except ConfigError as error:
        stop(str(error))


def warn(settings: Settings) -> None:
    """Says on stderr what can stand, and is hardly what was meant."""
    for concern in concerns(settings):
        tell(f"phasegate: warning: {concern}")


@click.group()
def config() -> None:
    """Check or print the settings."""


@config.command()
@click.argument("file", type=FILE, required=False)
@click.option("--config", "option", type=FILE, help="TOML file; the same as the argument.")
def check(file: Path | None, option: Path | None) -> None:
    """Say whether the settings can stand (exit code 2 if not)."""
    warn(loaded(file or option, {}).settings)
    click.echo("ok")


@config.command("print")
@click.option("--config", "file", type=FILE, help="TOML file.")
@click.option("--origin", is_flag=True, help="Say where each value comes from.")
def show(file: Path | None, origin: bool) -> None:
    """Print every setting, as TOML; secrets are masked."""
    result = loaded(file, {})
    for key, value in leaves(result.settings):
        text = _toml(masked(value, key.rpartition(".")[2]))
        click.echo(printable(f"{key} = {text}" + (f"  # {result.origins[key]}" if origin else "")))
    click.echo("\n# what is changed on the way, and nothing else")
    for name, change in CHANGES.items():
        click.echo(f"# {name:<10} {'on ' if change.when(result.settings) else 'off'}  {change.what}")


def _toml(value: object) -> str:
    """A value of settings on one line; what is not set stands nowhere."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(k)} = {_toml(v)}" for k, v in value.items() if v is not None) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value)


config.add_command(keys)
