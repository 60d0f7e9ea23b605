"""From settings to rules and tenants: the admission room's plain values."""

from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path

import msgspec

from proxy.admission.keyring import BadKeyFile, loads
from proxy.admission.rules import LIMITS, Rule
from proxy.admission.tenants import Tenants
from proxy.config import Settings, leaves
from proxy.flaws import ConfigError, Flaw
from proxy.loading import contents
from proxy.plain import fault
from proxy.wire.routes import KINDS

NEEDS = {"cap_output": "max_output_tokens", "queue_length": "max_concurrency"}
"""Settings of a limit, and that without which each has no say."""


def unfit(settings: Settings) -> Iterator[Flaw]:
    """What cannot stand in limits and tenants: keys and networks that cannot be read, limits without a say."""
    yield from _aimless(settings)
    try:
        tenants(settings)
    except ConfigError as error:
        yield from error.flaws


def rules(settings: Settings) -> tuple[Rule, ...]:
    """The limits."""
    return tuple(Rule(**msgspec.structs.asdict(limit)) for limit in settings.limit)


def _aimless(settings: Settings) -> Iterator[Flaw]:
    """Limits that could never have a say."""
    known = settings.tenants.keys_file or settings.tenants.header
    for limit in settings.limit:
        at = f"limit {limit.name!r}"
        if not limit.within_window and all(getattr(limit, name) is None for name in LIMITS):
            idle = f"limits nothing; give it one of {', '.join(LIMITS)}, within_window"
            yield Flaw("limit", idle, at, rests_on=(at,))
        else:
            for name, needed in NEEDS.items():
                if getattr(limit, name) and getattr(limit, needed) is None:
                    yield Flaw(f"limit.{name}", f"says nothing without {needed}", at, rests_on=(at,))
        if unknown := sorted(set(limit.kinds) - set(KINDS)):
            yield Flaw("limit.kinds", f"{unknown[0]!r} is none of {', '.join(KINDS)}", at)
        if limit.tenants and not known:
            nobody = "nobody is a tenant without tenants.keys_file or tenants.header"
            yield Flaw("limit.tenants", nobody, at, rests_on=("tenants",))


def reloaded(settings: Settings, anew: Settings) -> Settings:
    """The settings in force once these were read anew: limits and keys are taken, the rest needs a restart."""
    return msgspec.structs.replace(settings, limit=anew.limit, tenants=anew.tenants)


def deferred(settings: Settings, anew: Settings) -> tuple[str, ...]:
    """The names of those that were read otherwise, and hold from a restart on."""
    held, read = leaves(reloaded(settings, anew)), leaves(anew)
    return tuple(name for (name, value), (_, other) in zip(held, read, strict=True) if value != other)


def tenants(settings: Settings) -> Tenants:
    """How tenants are told apart. Raises ConfigError."""
    told = settings.tenants
    flaws: list[Flaw] = []
    networks = []
    for network in told.networks:
        try:
            networks.append(ip_network(network))
        except ValueError as error:
            flaws.append(Flaw("tenants.networks", str(error)))
    if told.header and not told.networks:
        nobody = "empty, so nobody would be believed; name the networks that may set the header"
        flaws.append(Flaw("tenants.networks", nobody))
    try:
        keyring = loads(contents(Path(told.keys_file))) if told.keys_file else None
    except (OSError, ValueError, BadKeyFile) as error:  # ValueError: no UTF-8, a NUL in the name
        flaws.append(Flaw("tenants.keys_file", f"{told.keys_file}: {fault(error)}"))
    if flaws:
        raise ConfigError(*flaws)
    return Tenants(keyring, told.header.lower().encode("latin-1", "replace"), tuple(networks))
