"""Did the engine read the prompt that was sent?

Ollama cuts a prompt that is longer than its window, answers 200, and reports the length of what is left. Only a count
made beforehand shows it.
"""

from proxy.records import TokenCount

FAR = 0.95
"""Even an exact count may differ from the engine's by a few tokens: fewer than this share is far fewer."""

HALF = 0.5
"""Before a model is calibrated its band is wide; half of the prompt missing is then telling, if it is off the band."""


def truncated(count: TokenCount | None, prompt_tokens: int | None) -> bool:
    """Whether the engine read far fewer tokens than were sent: by more than twice what the count's error explains.

    `prompt_tokens` is the engine's figure for the whole prompt, tokens from its cache included (Ollama's says so from
    0.30.1 on). False where either side is unknown. Images and parts of unknown kind only add to what the engine must
    read, so they are no obstacle.
    """
    if count is None or prompt_tokens is None:
        return False
    unexplained = max(count.n - 2 * (count.n - count.low), HALF * count.n)
    return prompt_tokens < min(unexplained, count.low, FAR * count.n)
