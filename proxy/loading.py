"""Where settings come from: flags > environment > TOML file > defaults. Every error names its key and its source.

An environment variable is `PHASEGATE_` and the key's path in capitals, joined with `_`: `timeouts.idle_s` is
`PHASEGATE_TIMEOUTS_IDLE_S`. A list is comma separated, or JSON; `PHASEGATE_UPSTREAM` takes URLs, or JSON tables.
"""

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args, get_origin

from proxy.assembling import assemble, clashes, nearest, schema
from proxy.config import Settings, Upstream, leaves
from proxy.flaws import ConfigError, Flaw

PREFIX = "PHASEGATE_"
FILE_BYTES = 16 * 1024 * 1024
"""Largest file of settings or keys that is read: far more than anybody writes, and less than a device without end."""
DEPTH = 2
"""Tables in which a setting may stand: one of `tokens.models`. What lies deeper is none, and may have no end."""
_SERVICE_LINK = re.compile(rf"{PREFIX}(SERVICE_(HOST|PORT)|PORT($|_[0-9]+_))")
"""What Kubernetes puts into the environment of every pod beside a service of that name; no setting is called so."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings, where each of them came from, and what cannot stand; that is left out of the settings."""

    settings: Settings
    origins: Mapping[str, str]
    """Dotted key -> `default`, `file PATH`, `environment NAME` or `flag`; tables too."""
    flaws: tuple[Flaw, ...] = ()
    whole: bool = True
    """The file was read, or there is none. Without it little can be said of what else there is."""

    def also(self, check: Callable[[Settings], Iterable[Flaw]]) -> "Loaded":
        """The same, with what this check finds; save what may only follow from flaws that are known."""
        found = tuple(self.placed(flaw) for flaw in check(self.settings) if self.whole and not self._follows(flaw))
        return replace(self, flaws=self.flaws + found)

    def good(self) -> "Loaded":
        """The same. Raises ConfigError where anything cannot stand."""
        if self.flaws:
            raise ConfigError(*self.flaws)
        return self

    def placed(self, flaw: Flaw) -> Flaw:
        """The same flaw, with the source of its value."""
        names = (flaw.key, flaw.key.partition(".")[0])
        return flaw._replace(origin=next((self.origins[name] for name in names if name in self.origins), ""))

    def _follows(self, flaw: Flaw) -> bool:
        return any(
            (known.key, known.at) == (flaw.key, flaw.at)
            or {known.key, known.key.partition(".")[0], known.at} & {*flaw.rests_on}
            for known in self.flaws
        )


def load(file: Path | None, environ: Mapping[str, str], flags: Mapping[str, Any]) -> Loaded:
    """Settings from all sources. Raises ConfigError."""
    return gather(file, environ, flags).good()


def gather(file: Path | None, environ: Mapping[str, str], flags: Mapping[str, Any]) -> Loaded:
    """The same with everything that is wrong in it."""
    tree: dict[str, Any] = {}
    origins: dict[str, str] = {}
    unread: list[Flaw] = []
    if file is not None:
        try:
            _merge(tree, origins, _read_toml(file), f"file {file}")
        except ConfigError as error:
            unread += error.flaws
    whole = not unread
    for name, text in sorted(environ.items()):
        try:
            _merge(tree, origins, _variable(name, text), f"environment {name}")
        except ConfigError as error:
            unread += error.flaws
    _merge(tree, origins, {key: value for key, value in flags.items() if value is not None}, "flag")
    settings, wrong = assemble(tree)
    for key, _ in leaves(settings):
        origins.setdefault(key, "default")
    found = Loaded(settings, origins, tuple(unread), whole)
    return replace(found, flaws=(*unread, *map(found.placed, wrong))).also(clashes)


def contents(file: Path) -> str:
    """The text of a file that people write. Raises OSError, ValueError."""
    with file.open("rb") as opened:
        text = opened.read(FILE_BYTES)
    if len(text) == FILE_BYTES:
        raise ValueError(f"has {FILE_BYTES:,} bytes or more, and is not what it should be")
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("is no text in UTF-8") from None


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(contents(file))
    except OSError as error:
        raise ConfigError(Flaw(str(file), error.strerror or str(error))) from None
    except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, a NUL in the name, tables without end
        raise ConfigError(Flaw(str(file), str(error))) from None


def _merge(
    tree: dict[str, Any], origins: dict[str, str], layer: Mapping[str, Any], origin: str, path: str = "", depth: int = 0
) -> None:
    for key, value in layer.items():
        origins[path + key] = origin
        if depth < DEPTH and isinstance(value, Mapping) and isinstance(tree.setdefault(key, {}), dict):
            _merge(tree[key], origins, value, origin, f"{path}{key}.", depth + 1)
        else:
            tree[key] = value


def _variable(name: str, text: str) -> dict[str, Any]:
    """What one variable sets, as the file would have it; nothing where it is not ours. Raises ConfigError."""
    if not name.startswith(PREFIX) or _SERVICE_LINK.match(name):
        return {}
    known = {key.upper().replace(".", "_"): (key, kind) for key, kind in schema(Settings)}
    word = name.removeprefix(PREFIX)
    if word not in known:
        raise ConfigError(Flaw(f"environment {name}", f"unknown setting{nearest(word, known, PREFIX)}"))
    key, kind = known[word]
    return _nest(key, _parse(name, text, kind))


def _parse(name: str, text: str, kind: Any) -> Any:
    """An environment variable's text in the form that TOML would have."""
    if get_origin(kind) not in (tuple, dict):
        return text
    if text.lstrip().startswith(("[", "{")):
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError(Flaw(f"environment {name}", str(error))) from None
    items = [item.strip() for item in text.split(",") if item.strip()]
    return [{"url": item} for item in items] if get_args(kind)[0] is Upstream else items


def _nest(key: str, value: Any) -> dict[str, Any]:
    for part in reversed(key.split(".")):
        value = {part: value}
    return value  # type: ignore[no-any-return]  # a key has one part at least
