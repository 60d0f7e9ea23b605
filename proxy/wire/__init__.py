"""What is said on the wire, read and never rewritten.

A request is classified by its path (`routes`) and read into facts (`request`, `prompts`); `ambiguity` finds what
engines read differently. An answer is cut into frames (`framing`), and each frame is read into an event by its dialect
(`openai`, `ollama`, `llamacpp`, `responses`, `anthropic`, `sglang`, `passthrough`). `reports` turns what engines claim
about a request into records. `splicing` and `usage` are the only places that change bytes, as declared. `errors` reads
and renders errors. `dialects` is the registry: a new dialect is one file and one line there.

Everything is pure and synchronous. Whatever comes, a reader gives an event or raises `Unreadable`.
"""
