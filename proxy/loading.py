"""Where settings come from: flags > environment > TOML file > defaults. Every error names its key and its source.

An environment variable is `PHASEGATE_` and the key's path in capitals, joined with `_`: `timeouts.idle_s` is
`PHASEGATE_TIMEOUTS_IDLE_S`. A list is comma separated, or JSON; `PHASEGATE_UPSTREAM` takes URLs, or JSON tables.
"""

import difflib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_origin

import msgspec

from proxy.config import ConfigError, Section, Settings, Upstream, leaves

PREFIX = "PHASEGATE_"
PLAIN = {
    **{"int": "a whole number", "float": "a number", "str": "text", "bool": "true or false", "null": "nothing"},
    **{"array": "a list", "object": "a table"},
}
"""Types, as msgspec names them and as people do."""
FILE_BYTES = 16 * 1024 * 1024
"""Largest file of settings or keys that is read: far more than anybody writes, and less than a device without end."""
_SERVICE_LINK = re.compile(rf"{PREFIX}(SERVICE_(HOST|PORT)|PORT($|_[0-9]+_))")
"""What Kubernetes puts into the environment of every pod beside a service of that name; no setting is called so."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings and where each of them came from."""

    settings: Settings
    origins: Mapping[str, str]
    """Dotted key -> `default`, `file PATH`, `environment NAME` or `flag`."""


def load(file: Path | None, environ: Mapping[str, str], flags: Mapping[str, Any]) -> Loaded:
    """Settings from all sources. Raises ConfigError."""
    tree: dict[str, Any] = {}
    origins: dict[str, str] = {}
    if file is not None:
        _merge(tree, origins, _read_toml(file), f"file {file}")
    for name, key, value in _environment(environ):
        _merge(tree, origins, _nest(key, value), f"environment {name}")
    _merge(tree, origins, {key: value for key, value in flags.items() if value is not None}, "flag")
    try:
        settings = msgspec.convert(tree, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(_explain(str(error), origins)) from None
    except UnicodeEncodeError as error:  # of flags and environment, which are bytes
        raise ConfigError(f"{error.object!r} is no UTF-8") from None
    return Loaded(settings, {key: origins.get(key, "default") for key, _ in leaves(settings)})


def contents(file: Path) -> str:
    """The text of a file that people write. Raises OSError, ValueError."""
    with file.open("rb") as opened:
        text = opened.read(FILE_BYTES)
    if len(text) == FILE_BYTES:
        raise ValueError(f"has {FILE_BYTES:,} bytes or more, and is not what it should be")
    return text.decode("utf-8")


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(contents(file))
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, a NUL in the name, tables without end
        raise ConfigError(f"{file}: {error}") from None


def _merge(
    tree: dict[str, Any], origins: dict[str, str], layer: Mapping[str, Any], origin: str, path: str = ""
) -> None:
    for key, value in layer.items():
        if isinstance(value, Mapping) and isinstance(tree.setdefault(key, {}), dict):
            _merge(tree[key], origins, value, origin, f"{path}{key}.")
        else:
            tree[key] = value
            origins[path + key] = origin


def _environment(environ: Mapping[str, str]) -> Iterator[tuple[str, str, Any]]:
    known = {PREFIX + key.upper().replace(".", "_"): (key, kind) for key, kind in _schema(Settings)}
    for name in sorted(environ):
        if name.startswith(PREFIX) and not _SERVICE_LINK.match(name):
            if name not in known:
                raise ConfigError(f"environment {name}: unknown setting{_nearest(name, list(known))}")
            key, kind = known[name]
            yield name, key, _parse(name, environ[name], kind)


def _schema(section: type[Section], path: str = "") -> Iterator[tuple[str, Any]]:
    for field in msgspec.structs.fields(section):
        if isinstance(field.type, type) and issubclass(field.type, Section):
            yield from _schema(field.type, f"{path}{field.name}.")
        else:
            yield f"{path}{field.name}", field.type


def _parse(name: str, text: str, kind: Any) -> Any:
    """An environment variable's text in the form that TOML would have."""
    if get_origin(kind) not in (tuple, dict):
        return text
    if text.lstrip().startswith(("[", "{")):
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"environment {name}: {error}") from None
    items = [item.strip() for item in text.split(",") if item.strip()]
    return [{"url": item} for item in items] if get_args(kind)[0] is Upstream else items


def _nest(key: str, value: Any) -> dict[str, Any]:
    for part in reversed(key.split(".")):
        value = {part: value}
    return value  # type: ignore[no-any-return]  # a key has one part at least


def _explain(message: str, origins: Mapping[str, str]) -> str:
    """msgspec's message, turned round: key first, then what is wrong with it, then where it came from."""
    what, _, where = message.partition(" - at `$.")
    path = re.sub(r"\[(\d+|\.\.\.)\]", "", where.rstrip("`"))
    if what.startswith("Invalid enum value"):
        what = f"{what.removeprefix('Invalid enum value ')} is none of {', '.join(_choices(path))}"
    if missing := re.match(r"Object missing required field `(.+)`", what):
        return f"{path}.{missing[1]}: is missing{_from(path, origins)}"
    if wanted := re.match(r"Expected `(.+)`, got `(.+)`", what):
        what = f"{_plain(wanted[1])} is expected, and this is {_plain(wanted[2])}"
    inner = re.match(r"(?:Object contains unknown field `(.+)`|(\w+): (.*))", what, re.DOTALL)
    if inner is None:
        return f"{path}: {what}{_from(path, origins)}"
    key = f"{path}.{inner[1] or inner[2]}".lstrip(".")
    wrong = inner[3] or f"unknown setting{_nearest(key, [*dict(_known(Settings))])}"
    return f"{key}: {wrong}{_from(key, origins)}"


def _plain(kinds: str) -> str:
    """msgspec's words for types, in words of the file; what may be left out is not written as null."""
    return " or ".join(PLAIN.get(kind, kind) for kind in kinds.split(" | ") if kind != "null" or kinds == "null")


def _known(section: type[Section], path: str = "") -> Iterator[tuple[str, Any]]:
    """Every dotted key and its type, those inside lists of tables too."""
    for key, kind in _schema(section, path):
        item = get_args(kind)[0] if get_origin(kind) is tuple else None
        if isinstance(item, type) and issubclass(item, Section):
            yield from _known(item, f"{key}.")
        else:
            yield key, kind


def _choices(key: str) -> tuple[str, ...]:
    """The words that a setting, or each item of its list, is one of."""
    kind = dict(_known(Settings))[key]
    return get_args(get_args(kind)[0] if get_origin(kind) is tuple else kind)


def _from(key: str, origins: Mapping[str, str]) -> str:
    origin = next((origins[name] for name in (key, key.partition(".")[0]) if name in origins), "")
    return f" ({origin})" if origin else ""


def _nearest(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""
