"""From settings to rules and tenants: the admission room's plain values."""

from ipaddress import ip_network
from pathlib import Path

import msgspec

from proxy.admission.keyring import BadKeyFile, Keyring, loads
from proxy.admission.rules import LIMITS, Rule
from proxy.admission.tenants import Tenants
from proxy.config import ConfigError, Settings
from proxy.loading import contents
from proxy.plain import fault
from proxy.wire.routes import KINDS


def rules(settings: Settings) -> tuple[Rule, ...]:
    """The limits. Raises ConfigError."""
    made = []
    for limit in settings.limit:
        try:
            made.append(Rule(**msgspec.structs.asdict(limit)))
        except ValueError as error:
            raise ConfigError(f"limit.{error} (limit {limit.name!r})") from None
    return tuple(made)


def purposeful(settings: Settings) -> None:
    """Raises ConfigError for a limit that could never have a say."""
    known = settings.tenants.keys_file or settings.tenants.header
    for limit in settings.limit:
        if not limit.within_window and all(getattr(limit, name) is None for name in LIMITS):
            raise ConfigError(
                f"limit {limit.name!r}: limits nothing; give it one of {', '.join(LIMITS)}, within_window"
            )
        if unknown := set(limit.kinds) - set(KINDS):
            raise ConfigError(f"limit.kinds: {min(unknown)!r} is none of {', '.join(KINDS)} (limit {limit.name!r})")
        if limit.tenants and not known:
            raise ConfigError(
                f"limit.tenants: nobody is a tenant without tenants.keys_file or tenants.header (limit {limit.name!r})"
            )


def reloaded(settings: Settings, anew: Settings) -> Settings:
    """The settings in force once these were read anew: limits and keys are taken, the rest needs a restart."""
    return msgspec.structs.replace(settings, limit=anew.limit, tenants=anew.tenants)


def tenants(settings: Settings) -> Tenants:
    """How tenants are told apart. Raises ConfigError."""
    told = settings.tenants
    try:
        networks = tuple(ip_network(network) for network in told.networks)
    except ValueError as error:
        raise ConfigError(f"tenants.networks: {error}") from None
    if told.header and not networks:
        raise ConfigError(
            "tenants.networks: empty, so nobody would be believed; name the networks that may set the header"
        )
    return Tenants(_keyring(told.keys_file), told.header.lower().encode("latin-1", "replace"), networks)


def _keyring(file: str) -> Keyring | None:
    if not file:
        return None
    try:
        return loads(contents(Path(file)))
    except OSError as error:
        raise ConfigError(f"tenants.keys_file: {file}: {fault(error)}") from None
    except ValueError as error:
        raise ConfigError(f"tenants.keys_file: {file}: {error}") from None
    except BadKeyFile as error:
        raise ConfigError(f"tenants.keys_file: {file}: {error}") from None
