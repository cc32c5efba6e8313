"""From when on the results of a query are complete, if the query began when its streams had been read already.

A store that lacks old rows is whole for event times after some moment.  A result joins rows that are at most a window
older than its newest row.  So results whose newest row is later than that moment plus the largest window are complete.
Without a window, or without event times, they never are.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping

from weft.host.state.manifest import NEVER
from weft.query.model import Query
from weft.topology.model import Topology

EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - event times have no zone


def complete_from(plan: Topology, query: Query, name: str, partial: Mapping[str, int]) -> int | None:
    """The event time in microseconds from which on results are complete; None if nothing is missing."""
    met = {probe.store for probe in plan.probes if name in probe.users}
    moments = [moment for store, moment in partial.items() if store in met]
    if not moments:
        return None
    windows = [relation.window for relation in query.relations if not relation.stream.table]
    if NEVER in moments or any(window is None for window in windows):
        return NEVER
    return min(NEVER, max(moments) + max(window for window in windows if window is not None))


def as_moment(microseconds: int) -> datetime.datetime:
    """A time that people read; the last one there is stands for never."""
    try:
        return EPOCH + datetime.timedelta(microseconds=microseconds)
    except OverflowError:
        return datetime.datetime.max  # noqa: DTZ901 - as above
