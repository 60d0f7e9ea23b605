"""`phasegate config keys`: make, list and revoke the keys of clients. A key is shown once and kept as a hash."""

import os
import secrets
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import click

from proxy.admission.keyring import KEY_BYTES, PREFIX, SALT_BYTES, BadKeyFile, Keyring, loads
from proxy.cli import USAGE
from proxy.clock import SystemClock

FILE = click.option(
    "--file",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("phasegate-keys.json"),
    show_default=True,
    help="File of key hashes.",
)


@click.group()
def keys() -> None:
    """Make, list and revoke the keys of clients."""


@keys.command()
@click.argument("tenant")
@FILE
def add(tenant: str, file: Path) -> None:
    """Make a key for TENANT and print it: it is kept nowhere else."""
    key, id = PREFIX + secrets.token_urlsafe(KEY_BYTES), secrets.token_hex(4)
    today = datetime.fromtimestamp(SystemClock().wall_s(), UTC).date().isoformat()
    keyring = _read(file) if file.exists() else Keyring(secrets.token_hex(SALT_BYTES))
    try:
        _write(file, keyring.add(tenant, key, id, today))
    except ValueError as error:
        _stop(str(error))
    click.echo(key)
    click.echo(f"key {id} of {tenant}; it is not shown again", err=True)


@keys.command("list")
@FILE
def show(file: Path) -> None:
    """Show the keys that there are: id, day, tenant."""
    for entry in _read(file).entries:
        click.echo(f"{entry.id}  {entry.added}  {entry.tenant}")


@keys.command()
@click.argument("id")
@FILE
def revoke(id: str, file: Path) -> None:
    """Take the key with this ID away."""
    try:
        _write(file, _read(file).revoke(id))
    except KeyError:
        _stop(f"no key {id} in {file}")
    click.echo(f"key {id} is revoked")


def _read(file: Path) -> Keyring:
    try:
        return loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, BadKeyFile) as error:
        _stop(f"{file}: {error}")


def _write(file: Path, keyring: Keyring) -> None:
    """Whole or not at all, and readable by its owner alone."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=file.parent, delete=False) as made:  # mode 0600
        made.write(keyring.dumps())
        made.flush()
        os.fsync(made.fileno())
    os.replace(made.name, file)


def _stop(why: str) -> NoReturn:
    click.echo(f"phasegate: {why}", err=True)
    sys.exit(USAGE)
