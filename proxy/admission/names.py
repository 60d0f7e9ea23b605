"""Names of models, as limits compare them: one model has one name here, whichever way a client spells it.

Ollama takes `m`, `M`, `m:latest`, `library/m` and `https://registry.ollama.ai/library/m:latest` for one model. All
engines are held to that: no engine tells two models apart by these alone, and a rule is not passed by with a spelling.
"""

import re
from hashlib import blake2b

LONGEST = 128
"""Characters of a name that counters are kept under; the whole of a longer one lives on in a hash."""

HASH_BYTES = 8

REGISTRY, NAMESPACE, TAG = "registry.ollama.ai/", "library/", ":latest"
"""What Ollama adds where a name leaves it out."""

_NAME = re.compile(rf"(?:(?:.*://)?{re.escape(REGISTRY)})?(?:{NAMESPACE})?(.*?)(?:{TAG})?\Z", re.DOTALL)


def shortest(model: str) -> str:
    """The model's name in small letters, without what may be left out."""
    return _NAME.sub(r"\1", model.casefold(), count=1)


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
