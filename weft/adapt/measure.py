"""From the batches of an epoch to statistics.

    samples         sizes, rates, keys and all predicates, also those that today's plan does not ask
    kept values     shares of pairs that agree, and numbers of values, of all rows (`weft.adapt.agreement`)
    probes          shares of pairs that today's plan asks, exactly (`weft.adapt.hops`)
    all batches     rows so far, for streams without a window

What must hold: a stream that brought nothing has a rate near zero, not an unknown one.  What was given by hand wins.
What an earlier plan's probes said of a pair is forgotten when the predicates of the pair are measured anew: streams go
on.  A window that is not full yet is taken to be full: plans are for the epochs to come.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from weft.adapt.agreement import measure_agreement
from weft.adapt.gathering import Gathering
from weft.adapt.hops import measure_hops
from weft.adapt.reconcile import reconcile
from weft.expr.evaluate import Functions
from weft.expr.render import to_sql
from weft.query.model import Query, Stream
from weft.stats.analyze import analyze
from weft.stats.drawn import Drawn, Part
from weft.stats.given import Pair
from weft.stats.model import Statistics
from weft.stats.names import Names, between
from weft.stats.sample import Sample
from weft.stats.wanted import join_keys
from weft.topology.model import Topology


@dataclass(frozen=True)
class Subject:
    """What statistics are about."""

    plan: Topology
    """The plan that ran in the epoch."""
    queries: Mapping[str, Query]
    streams: Mapping[str, Stream]
    functions: Functions
    given: Statistics
    before: Statistics
    """What was known before."""


def measure(subject: Subject, gathered: Gathering, without: Part | None = None) -> Statistics:
    """The statistics of an epoch, maybe without a part of its samples; where it shows nothing, those known before."""
    queries = list(subject.queries.values())
    known = {**{stream.name: stream for stream in subject.plan.streams}, **subject.streams}
    drawn = {name: found for name, found in gathered.drawn.items() if name in known and not known[name].table}
    samples = {name: _sample(found, without) for name, found in drawn.items()}
    told = _sizes(subject, gathered).merge(subject.given)
    names = Names(frozenset(subject.streams), tuple(queries), subject.given)
    found = analyze(known, samples, queries, subject.functions, told)
    measured = found = found.merge(measure_agreement(gathered.least, queries, names, found, without))
    before = subject.before.without_pairs(_measured_anew(queries, found))
    found = before.merge(_evened(samples, queries, found)).merge(found).merge(told)
    found = found.merge(_filled(subject, found))
    hops = measure_hops(subject.plan, subject.queries, names, found, gathered)
    return found.merge(reconcile(hops, measured, subject.before, queries, names)).merge(subject.given)


def _measured_anew(queries: Sequence[Query], found: Statistics) -> set[Pair]:
    """Pairs of aliases all of whose predicates were measured."""
    pairs = ((query, tuple(sorted(two))) for query in queries for two in combinations(query.aliases, 2))
    return {
        (a, b)
        for query, (a, b) in pairs
        if (joins := between(query, a, b)) and all(found.predicate(to_sql(join)) is not None for join in joins)
    }


def _sample(found: Drawn, without: Part | None) -> Sample:
    return Sample(found.rows(without=without), float(found.seen), float(found.seen))


def _evened(samples: Collection[str], queries: Sequence[Query], found: Statistics) -> Statistics:
    """That no value of a key is frequent any more, where none was found in a sample."""
    wanted = join_keys(queries)
    keys = ((name, key) for name in samples for key in wanted.get(name, ()) if found.heavy(name, key) is None)
    return Statistics(heavy={f"{name}.{key}": () for name, key in keys})


def _sizes(subject: Subject, gathered: Gathering) -> Statistics:
    """Rows of all batches so far; rows a second of event time, and that little comes of silent streams."""
    total = gathered.last.total if gathered.last is not None else {}
    came, events = gathered.counters.rows_in, gathered.events
    timed = [s.name for s in subject.plan.streams if s.event_time is not None and not s.table]
    rates = {name: 1e6 / events for name in timed if events > 0 and not came.get(name)}
    rates |= {name: came[name] / span * 1e6 for name, span in gathered.spans.items() if span > 0 and came.get(name)}
    return Statistics({name: float(count) for name, count in total.items() if count}, rates=rates)


def _filled(subject: Subject, found: Statistics) -> Statistics:
    """Rows of streams as if their windows were full."""
    rates = {name: (found.rate(name) or 0.0) * window / 1e6 for name, window in _windows(subject).items()}
    return Statistics({name: max(found.rows(name) or 0.0, rows) for name, rows in rates.items() if rows})


def _windows(subject: Subject) -> dict[str, int]:
    """Stream -> its longest window; not those of which some query needs all rows."""
    relations = [relation for query in subject.queries.values() for relation in query.relations]
    endless = {relation.stream.name for relation in relations if relation.window is None}
    names = {relation.stream.name for relation in relations} - endless
    return {name: max(r.window or 0 for r in relations if r.stream.name == name) for name in names}
