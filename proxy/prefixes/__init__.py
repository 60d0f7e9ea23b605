"""Where every prompt token comes from: the engine's prefix cache, or fresh work, and which few characters break it.

    canon     a prompt as segments of text: one canonical rendering
    chains    segments as chained block keys, at a cost that follows the new text
    shadow    what an engine's cache holds, by its own rules
    reading   what an audit remembers of a request between its look-up and its end
    made      what a text is made of, as far as vocabularies cut it otherwise than ours
    scale     from our tokens to the engine's own, its template's with them
    texts     what all engines' audits share: the key, chains by block size, text seen before
    caches    the shadows of the kinds of engines, behind one protocol
    spelt     vLLM's cache in the engine's own tokens, where it says them
    ledger    every prompt token in exactly one bin; the books of all engines
    alike     the sums of families, as records name them
    inferred  cached tokens from prefill time, where the engine does not say
    audit     the joint of the data process: predict, dispatched, ended
    pace      how many prompts the office's search takes
    curve     what caches of other sizes would have given, in one pass
    breakers/ what parts the prompts of one application, what it costs, what mends it
    search    the office's part: a bounded sample of prompts, searched a family at a time
    offline   the audit of a file, or of a trace of block ids
    wording   an audit in words and as a table

Data process: prompt -> segments -> chain -> cache -> verdict. Office: a sample of prompts -> families -> breakers.
Prompts are kept in memory only, hashes are keyed, excerpts are masked.
"""
