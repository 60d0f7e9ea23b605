"""An engine that knows the truth: the scheduling rules of real engines in virtual time, and a server around them.

    jobs.py      what goes in and comes out: Job, Step, Truth
    progress.py  a job on its way
    cost.py      how long a step takes: a roofline
    devices.py   six devices, model shapes, and the admission study, as presets of that cost
    blocks.py    paged KV memory with a prefix cache (vLLM's rules)
    machine.py   vLLM's scheduler, pure
    slots.py     one llama.cpp runner: slots and batches, pure
    shelf.py     Ollama around such runners: models in memory, the pending queue, pure
    words.py     the tokenizer: text to ids, and what answers say
    asks.py      a request, dialect-free
    openai.py    the OpenAI dialect as vLLM speaks it, pure
    ollama.py    Ollama's dialects, pure
    gauges.py    vLLM's metrics page
    plan.py      what to embed: kind, device, model, settings
    faces.py     the routes of vLLM and of Ollama
    drive.py     a machine against a clock
    server.py    the ASGI application

Nothing here is shared with attribution or prefixes: the truth is a second implementation, so that a mistake in the
one is not repeated in the other. Times are integer nanoseconds of whatever clock the caller counts by.
"""
