"""What is wrong with settings: each flaw names its key, and they are told together."""

from typing import NamedTuple

from proxy.plain import printable


class Flaw(NamedTuple):
    """One thing that cannot stand."""

    key: str
    """The setting's dotted key; of what is read before any setting is known, its source."""
    what: str
    """What is wrong with it, and what would be right."""
    at: str = ""
    """In which item of a list it is: `limit 'long prompts'`, `upstream 2`."""
    origin: str = ""
    """Where the value comes from: `file PATH`, `environment NAME`, `flag` or `default`; empty: it is not known."""
    rests_on: tuple[str, ...] = ()
    """What else it was judged by: keys, tables of them, items of lists; with one of those wrong it may be no flaw."""

    def __str__(self) -> str:
        where = ", ".join(filter(None, (self.at, self.origin)))
        return printable(f"{self.key}: {self.what}" + (f" ({where})" if where else ""))


class ConfigError(Exception):
    """Settings that cannot stand. Its text, and each of its flaws, can be shown as they are."""

    def __init__(self, *flaws: Flaw) -> None:
        self.flaws = flaws
        super().__init__("; ".join(map(str, flaws)))


class Unfit(ConfigError, ValueError):
    """Values that cannot stand together in one section; the flaws have keys of that section."""
