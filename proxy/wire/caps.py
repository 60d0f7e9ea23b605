"""Capping the output that a request asks for: a splice of the one number, every other byte as it came."""

from proxy.records import RequestFacts
from proxy.wire.splicing import find, splice

PATHS: dict[str, tuple[tuple[str, ...], ...]] = {
    "openai": (("max_tokens",), ("max_completion_tokens",)),
    "responses": (("max_output_tokens",),),
    "anthropic": (("max_tokens",),),
    "ollama": (("options", "num_predict"),),
    "llamacpp": (("n_predict",), ("max_tokens",)),
    "sglang": (("sampling_params", "max_new_tokens"),),
}
"""Dialect -> where it states the limit; where nothing is stated, the first is made."""


def cap_output(facts: RequestFacts, body: bytes, tokens: int) -> bytes | None:
    """The body that asks for at most `tokens` of output; None where that cannot be written safely."""
    paths = PATHS.get(facts.dialect, ())
    stated = [path for path in paths if find(body, path) is not None] or paths[:1]
    capped: bytes | None = body if stated else None
    for path in stated:
        capped = splice(capped, path, b"%d" % tokens) if capped is not None else None
    return capped
