"""From when on the results of queries are complete, if they began when their streams had been read already.

A store that lacks old rows is whole for event times after some moment.  A result joins rows that are at most a window
older than its newest row.  So results whose newest row is later than that moment plus the largest window are complete.
Without a window, or without event times, they never are.  Once the moment is so old that the query needs no row before
it, nothing is missing any more.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping

from weft.host.state.manifest import EVER, NEVER
from weft.query.derived import hidden
from weft.query.model import Query
from weft.query.timebounds import retention
from weft.topology.clock import Clock, Policy
from weft.topology.model import Topology

EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - event times have no zone


def complete_from(
    plan: Topology,
    queries: Mapping[str, Query],
    newest: Mapping[str, int],
    partial: Mapping[str, int],
    policy: Policy,
    idle: Collection[str] = (),
) -> dict[str, int]:
    """Query -> the event time in microseconds from which on its results are complete, for those that lack rows.

    Watermarks do not wait for `idle` streams.
    """
    found = {}
    for name, query in queries.items() if partial else ():
        lacked = any(_lacks_any(plan, part, partial) for part in hidden({name: query})) or _lacks_book(
            plan, name, partial
        )
        mark = _watermark(query, newest, policy, idle)
        if moments := [NEVER] if lacked else _lacks(plan, name, query, mark, partial):
            windows = [relation.window for relation in query.relations if not relation.stream.table]
            ends = NEVER in moments or any(window is None for window in windows)
            found[name] = NEVER if ends else max(moments) + max(window for window in windows if window is not None)
    return found


def _lacks(plan: Topology, name: str, query: Query, mark: int | None, partial: Mapping[str, int]) -> list[int]:
    """The moments before which stores of a query lack rows that it needs."""
    keep, alias = retention(query), plan.aliases_of(name)
    found = []
    for probe in (probe for probe in plan.probes if name in probe.users and probe.store in partial):
        lengths = [keep[alias[label]] for label in probe.members]
        needed = EVER if mark is None or None in lengths else mark - max(n for n in lengths if n is not None)
        if partial[probe.store] >= needed:
            found.append(partial[probe.store])
    return found


def _lacks_book(plan: Topology, query: str, partial: Mapping[str, int]) -> bool:
    """Whether subscriptions are missing that were read before."""
    matching = plan.emit_of[query].matching if query in plan.emit_of else None
    return matching is not None and matching.store in partial


def _lacks_any(plan: Topology, branch: str, partial: Mapping[str, int]) -> bool:
    """Whether a branch of a derived stream lacks rows: what is made of it is never whole."""
    if branch not in plan.emit_of:
        return False
    groups = plan.emit_of[branch].groups
    probed = {probe.store for probe in plan.probes if branch in probe.users}
    return any(store in partial for store in ({*probed, groups.store} if groups is not None else probed))


def _watermark(query: Query, newest: Mapping[str, int], policy: Policy, idle: Collection[str]) -> int | None:
    timed = {r.stream.name: r.stream.lateness for r in query.relations if r.stream.event_time is not None}
    return Clock("", tuple(timed.items()), policy).watermark(newest, idle) if timed else None


def say_moment(microseconds: int) -> str:
    """From when on something is complete, in words."""
    return say_complete(as_moment(microseconds))


def is_never(microseconds: int) -> bool:
    """Whether that moment never comes."""
    return as_moment(microseconds) == datetime.datetime.max  # noqa: DTZ901 - event times have no zone


def say_complete(moment: datetime.datetime) -> str:
    """The same, of a time that people read."""
    never = moment == datetime.datetime.max  # noqa: DTZ901 - event times have no zone
    return "never complete" if never else f"complete from {moment} on"


def as_moment(microseconds: int) -> datetime.datetime:
    """A time that people read; the last one there is stands for never."""
    try:
        return EPOCH + datetime.timedelta(microseconds=microseconds)
    except OverflowError:
        return datetime.datetime.max  # noqa: DTZ901 - as above
