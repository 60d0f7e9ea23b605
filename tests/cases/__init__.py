"""The field cases, run by one runner over a closed vocabulary.

    python -m tests.cases FILE.jsonl [--split N] [--only ID]... [--list]

A case plays a scripted client and a scripted engine against the product and says what must be seen: by the client, in
the record, at the engine, in the metrics. The runner holds the vocabulary and no answer.

`words`        the vocabulary: every key, operator and word; anything else is a fault that names it
`expressions`  the small Python that cases may use
`case`         a case as frozen objects, pieces and placeholders written out
`operators`    does a value hold?
`seen`         what one exchange showed, as a flat mapping of check names to values
`checks`       a case's checks against what was seen, and what is checked always
`exposition`   Prometheus text, parsed: sums, quantiles, labels
`rooms`        which rooms a case needs, from the words that it uses
`stage`        steps played in virtual time
`sockets`      steps played over sockets in real time
`product`      what the runner knows of phasegate: settings, records, series, commands
`inprocess`    phasegate over scripted transports
`shipped`      phasegate as a process of its own
`runner`       a case from JSON to a verdict

`field_cases.jsonl.gz` holds the public cases: faults that people met who run, measure or proxy LLM engines. Their
sources are public bug reports and pull requests, named in each case; symptoms are told in our own words.
`own_cases.jsonl.gz` holds cases of our own in the same vocabulary, for what the public ones leave out.
"""
