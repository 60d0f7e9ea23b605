"""phasegate: a reverse proxy for LLM engines that tells, for every request, where the time went.

Words: an `engine` is the inference server behind us, a `client` calls us, an `exchange` is one request and its
response. It arrives when its body is here; times count from there, in integer nanoseconds.

Life of a request, as `exchange` has it:

    receive    the body is read; `wire` says what it asks for: facts
    choose     `fleet` picks the engine
    weigh      `tokens` counts the prompt, `prefixes` says what the engine's cache could give
    enter      `admission` gives a permit, at once, after a wait, or not
    dispatch   `relay` calls the engine over `transport`
    pass on    each chunk is stamped, sent, and then read along: `passing` -> `tap` -> `wire` -> `timeline`
    end        one record, with one outcome, whatever happened; of what the engine claims, what can be true

The record goes over a socketpair to the `office`, a process of its own: it is settled, split into phases by
`attribution`, and given to the `exporters`. Nothing but traffic runs on the data process' loop.

Layers. A line may import the lines above it. Before the bar stand modules, which may use one another within their line;
behind it families, each of which uses, in its own line, itself alone: families meet through records.

    vocabulary  claims clock crowds errors events flaws grammar headers inflating messages names plain records
                transitions
    cores       config declared gaps tap timeline | admission attribution engines prefixes sim tokens wire
    files       assembling loading memory policy
    shells      client counting guard head idle interpreter line pulse reading relay transport | exporters
    office      | office
    life        auditing editing endings engine exchange fleet household lookout parting parts passing rooms
                servertiming together
    root        app
    commands    | cli
    start       __main__

Libraries, and the only places that name them. What stands nowhere here is the standard library.

    aiohappyeyeballs    transport
    click               cli
    httptools           cli line
    httpx               app engine office.main relay together transport
    msgspec             assembling cli config exporters memory office policy tokens wire
    prometheus_client   exporters.prometheus
    rich                cli
    starlette           office
    structlog           app cli exporters office
    tiktoken            tokens.vocabularies
    tokenizers          tokens.hf
    uvicorn             cli office.listener
    uvloop              cli.serve
"""
