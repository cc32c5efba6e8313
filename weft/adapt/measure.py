"""From the batches of an epoch to statistics.

    samples         sizes, rates, keys and all predicates, also those that today's plan does not ask
    probes          shares of pairs that today's plan asks, exactly (`weft.adapt.hops`)
    all batches     rows so far, for streams without a window

What must hold: a stream that brought nothing has a rate near zero, not an unknown one.  What was given by hand wins.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from weft.adapt.gathering import Gathering
from weft.adapt.hops import measure_hops
from weft.expr.evaluate import Functions
from weft.query.model import Query, Stream
from weft.stats.analyze import Sample, analyze
from weft.stats.drawn import Drawn, Part
from weft.stats.model import Statistics
from weft.stats.names import Names
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
    found = analyze(known, samples, queries, subject.functions, told)
    found = subject.before.merge(_evened(samples, queries, found)).merge(found).merge(told)
    names = Names(frozenset(subject.streams), tuple(queries), subject.given)
    return found.merge(measure_hops(subject.plan, subject.queries, names, found, gathered)).merge(subject.given)


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
