"""Who may go to the engine, when, and what a refused client is told.

    rules       what the operator wants: frozen limits, each with its scope and its mode
    ask         one request, as limits see it
    gcra        a rate: so many units a minute, exact in integers
    budget      a sum: so many tokens an hour or a day, over restarts
    slots       a number at once
    sizes       longest prompt, longest output, the engine's window: no state
    counters    all counters of one sort: bounded in number, gone when idle
    hold        what one request has taken, until it is settled
    limits      all rules together: weigh a request, take what it needs, give back what it did not use
    permit      leave to be at the engine, and what it comes to
    turns       who of those that wait is next
    refusals    a denial as the error that a client understands
    quota       `x-ratelimit-*`
    tenants     who asks: an API key, a header from a trusted network, or nobody
    keyring     the file of key hashes
    door        shell: waits for a free slot, hands out permits

Flow: the door weighs a request against the rules that apply. Every rule in force must pass, or nothing is taken at all.
What passes is taken (`Hold`), and settled once at the end with what the engine says that it used. A rule that only
observes takes and counts as if it were in force, but its denial is just written down.
"""
