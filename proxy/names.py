"""Names of models, as they are compared: one model has one name here, whichever way a client spells it.

Ollama takes `m`, `M`, `m:latest`, `library/m` and `https://registry.ollama.ai/library/m:latest` for one model. All
engines are held to that: no engine tells two models apart by these alone, and a rule is not passed by with a spelling.
"""

from collections.abc import Callable, Container, Sequence
from hashlib import blake2b

LONGEST = 128
"""Characters of a name that counters are kept under; the whole of a longer one lives on in a hash."""

HASH_BYTES = 8

REGISTRY, NAMESPACE, TAG = "registry.ollama.ai/", "library/", ":latest"
"""What Ollama adds where a name leaves it out."""


def as_it_is(model: str) -> str:
    """Every name is a model of its own."""
    return model


def shortest(model: str) -> str:
    """The model's name in small letters, without what may be left out."""
    name = model.casefold()
    _, remote, rest = name.rpartition(f"://{REGISTRY}")
    return (rest if remote else name.removeprefix(REGISTRY)).removeprefix(NAMESPACE).removesuffix(TAG)


def short(name: str) -> str:
    """A name of bounded length that stands for this one alone."""
    if len(name) <= LONGEST:
        return name
    hashed = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=HASH_BYTES).hexdigest()
    return f"{name[: LONGEST - 2 * HASH_BYTES - 1]}~{hashed}"


def spellings(name: str) -> list[str]:
    """Every way in which a pattern may have a name, given its shortest."""
    below = "" if "/" in name else NAMESPACE
    tags = ("",) if ":" in name.rpartition("/")[2] else ("", TAG)
    return [f"{before}{name}{tag}" for before in dict.fromkeys(("", below, REGISTRY + below)) for tag in tags]


def serves(models: Container[str], model: str) -> bool:
    """Whether a list of models has this name. Ollama's `llama3` means `llama3:latest`."""
    return model in models or model + TAG in models


def takes(models: Sequence[str], model: str) -> bool:
    """Whether Ollama, which lists these, takes this name for one of them."""
    return shortest(model) in map(shortest, models)


class Listed:
    """The models that an engine lists.

    State: the list as it was last, and with those that stand for them its shortest names, and its names as they are.
    """

    __slots__ = ("_last", "_models", "_names", "_own")

    def __init__(self, models: Callable[[], Sequence[str]]) -> None:
        self._models = models
        self._last: Sequence[str] = ()
        self._names: dict[str, str] = {}
        self._own: dict[str, str] = {}

    def has(self, name: str) -> bool:
        """Whether it lists a model of this shortest name, as far as it lists any."""
        names = self._now()
        return name in names or not names

    def spelt(self, name: str) -> str:
        """The name as it is listed, however a client spells it; one that is not listed as it is."""
        names = self._now()
        return self._own.get(name) or names.get(shortest(name), name)

    def behind(self, name: str | None) -> Sequence[str]:
        """The models of which one answers where the engine does not look at a name that it does not know: its only one;
        of several any. None for the name of one of several."""
        models = self._models()
        return () if len(models) > 1 and name is not None and self.has(shortest(name)) else models

    def _now(self) -> dict[str, str]:
        if (models := self._models()) is not self._last:
            self._last, self._names = models, {shortest(model): model for model in reversed(models)}
            self._own = {model: self._names[shortest(model)] for model in models}
        return self._names
