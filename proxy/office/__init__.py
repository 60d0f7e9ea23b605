"""The second process: settles ended exchanges, attributes their time, exports their records, serves the admin listener.

    channel    the way here: frames over a socketpair
    process    starts this process, restarts it, stops it last
    settle     waits for evidence that comes late
    office     the middle: message -> record -> exporters
    scrape     looks at what engines tell of themselves; `figures` keep it, `windows` hold it beside our records
    live       one line per request for the terminal
    outlet     lines to a terminal or a pipe, by a thread that waits for it
    logs       the log, through an outlet; sparing: so many lines of a kind
    app        what the admin listener answers
    listener   its socket, and how long and how much a client may ask
    main       the process itself

It may die and be restarted without touching traffic.
"""
