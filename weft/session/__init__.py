"""A session: streams, queries and sinks, and the run that joins them.

what users see     session, registering, query, run, subscriptions, status, shown, window
what is declared   declarations, changing, catalog, arguments, outlets
plans              roster, planning, fit, complete, improve, snapshot
runs               running, following, changes, adapting, notes
a start            rehearsal
"""

from weft.session.session import Session

__all__ = ["Session"]
