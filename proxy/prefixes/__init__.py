"""Where every prompt token comes from: the engine's prefix cache, or fresh work, and which few characters break it.

    canon     a prompt as segments of text: one canonical rendering
    chains    segments as chained block keys, at a cost that follows the new text
    shadow    what the engine's cache holds, by its own rules
    curve     what caches of other sizes would have given, in one pass
    ledger    every prompt token in exactly one bin
    inferred  cached tokens from prefill time, where the engine does not say
    families  which prompts belong together though they part early
    breakers  what parts them, what it costs, what mends it
    audit     the joint: verdicts in the data process, the search in the office

Data process: prompt -> segments -> chain -> shadow -> verdict. Office: a bounded sample of prompts -> families ->
breakers. Prompts are kept in memory only, hashes are keyed, excerpts are masked.
"""
