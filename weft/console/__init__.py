"""The console: one page that shows a running or a finished session, from its checkpoint alone.

    picture      what a checkpoint shows, as plain data
    metrics      the same numbers by name, for Prometheus and OpenTelemetry
    otel         sends them to a collector
    feed         tells all viewers what is new, once for all of them
    keys         who may look
    controls     what the page may change
    app          the addresses of the page
    serve        a server in a thread, and how to reach it
    command      what the command line needs of all this
    assets/      the page itself: no build step, nothing from elsewhere

What must hold: the console reads files that the run writes anyway.  It asks nothing of the run, and without a viewer
it does nothing.  Only `controls` may change a session, and only where that was asked for.
"""
