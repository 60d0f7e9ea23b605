"""What the commands say on stderr: each complaint is one line, whatever is quoted in it."""

import sys
from typing import NoReturn

import click

from proxy.cli import USAGE
from proxy.plain import printable


def tell(text: str) -> None:
    """One line on stderr."""
    click.echo(printable(text), err=True)


def stop(why: str, code: int = USAGE) -> NoReturn:
    """Ends the command, and says why."""
    tell(f"phasegate: {why}")
    sys.exit(code)
