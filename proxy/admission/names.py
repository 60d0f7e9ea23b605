"""Names of models, as limits compare them: one model has one name here, whichever way a client spells it.

Ollama takes `m`, `M`, `m:latest`, `library/m` and `https://registry.ollama.ai/library/m:latest` for one model. All
engines are held to that: no engine tells two models apart by these alone, and a rule is not passed by with a spelling.
"""

import re

REGISTRY, NAMESPACE, TAG = "registry.ollama.ai/", "library/", ":latest"
"""What Ollama adds where a name leaves it out."""

_NAME = re.compile(rf"(?:(?:.*://)?{re.escape(REGISTRY)})?(?:{NAMESPACE})?(.*?)(?:{TAG})?\Z", re.DOTALL)


def shortest(model: str) -> str:
    """The model's name in small letters, without what may be left out."""
    return _NAME.sub(r"\1", model.casefold(), count=1)


def spellings(name: str) -> list[str]:
    """Every way in which a pattern may have a name, given its shortest."""
    below = "" if "/" in name else NAMESPACE
    tags = ("",) if ":" in name.rpartition("/")[2] else ("", TAG)
    return [f"{before}{name}{tag}" for before in dict.fromkeys(("", below, REGISTRY + below)) for tag in tags]
