"""`phasegate config keys`: make, list and revoke the keys of clients. A key is shown once and kept as a hash."""

import os
import secrets
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import click

from proxy.admission.keyring import KEY_BYTES, PREFIX, SALT_BYTES, BadKeyFile, Keyring, loads
from proxy.cli.saying import stop, tell
from proxy.clock import SystemClock
from proxy.loading import contents
from proxy.plain import fault, printable

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
    keyring = _read(file) if _there(file) else Keyring(secrets.token_hex(SALT_BYTES))
    try:
        keyring = keyring.add(tenant, key, id, today)
    except ValueError as error:
        stop(str(error))
    _write(file, keyring)
    click.echo(key)
    tell(f"key {id} of {tenant}; it is not shown again, its hash is in {file}, which `tenants.keys_file` is to name")


@keys.command("list")
@FILE
def show(file: Path) -> None:
    """Show the keys that there are: id, day, tenant."""
    for entry in _read(file).entries:
        click.echo(printable(f"{entry.id}  {entry.added}  {entry.tenant}"))


@keys.command()
@click.argument("id")
@FILE
def revoke(id: str, file: Path) -> None:
    """Take the key with this ID away."""
    try:
        keyring = _read(file).revoke(id)
    except KeyError:
        stop(f"no key {id} in {file}")
    _write(file, keyring)
    click.echo(f"key {printable(id)} is revoked")


def _there(file: Path) -> bool:
    """What is there and no file must not be replaced by one."""
    try:
        if file.exists() and not file.is_file():
            stop(f"{file}: is no regular file")
        return file.exists()
    except (OSError, ValueError) as error:
        stop(f"{file}: {fault(error)}")


def _read(file: Path) -> Keyring:
    try:
        return loads(contents(file))
    except (OSError, ValueError, BadKeyFile) as error:  # ValueError: no UTF-8, a NUL in the name
        stop(f"{file}: {fault(error)}")


def _write(file: Path, keyring: Keyring) -> None:
    """Whole or not at all, and readable by its owner alone."""
    try:
        handle, part = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")  # mode 0600
    except OSError as error:
        stop(f"cannot write {file}: {error.strerror}")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as made:
            made.write(keyring.dumps())
            made.flush()
            os.fsync(made.fileno())
        os.replace(part, file)
    except OSError as error:
        os.unlink(part)
        stop(f"cannot write {file}: {error.strerror}")
