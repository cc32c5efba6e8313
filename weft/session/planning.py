"""How the queries of a session are planned: from wishes, from what sources show, and from what a checkpoint holds.

    Request          a query, with the wishes of its user and its statistics
    Inputs           streams and sources: how large they are, and statistics of samples
    plan_queries     requests, inputs and earlier plans -> a choice for each query
    remember_choice  what a checkpoint keeps of a choice; `_recall_plan` reads it again
    read_observed, read_measured   what committed batches have shown and done

What must hold: what was given by hand wins, and statistics that were given or measured are not measured again.  A
source that cannot be sampled, such as a Spark DataFrame, stays unknown.  State is used with the plan it was made by, as
long as the same is asked for.  Planning writes nothing into the checkpoint folder.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from weft.errors import PlanError, WeftError
from weft.expr.evaluate import Functions
from weft.host.sources.source import Source
from weft.host.state.checkpoint import Checkpoint
from weft.host.state.manifest import Ledger
from weft.observe.measured import Measured
from weft.optimizer.choose import Choice
from weft.optimizer.cost.prices import Prices
from weft.optimizer.known import Known
from weft.optimizer.plan import Sharing, choices
from weft.optimizer.wishes import Wishes
from weft.optimizer.written.plan import Plan, bind, write
from weft.query.derived import hidden
from weft.query.model import Query, Stream
from weft.stats.analyze import analyze
from weft.stats.model import Statistics
from weft.stats.sample import Sample
from weft.stats.wanted import needed_columns

GLANCE = 20_000
"""Rows of each stream that are sampled for planning if no statistics were given or measured."""

Remembered = Mapping[str, str]
"""What a checkpoint keeps of a choice: the strategy that was asked for, and the plan that was made."""


@dataclass(frozen=True)
class Request:
    """A query to plan."""

    query: Query
    wishes: Wishes
    statistics: Statistics | None
    """Given or measured; None if neither."""
    given: Statistics | None = None
    """The part of them that was given by hand."""

    @property
    def needs_look(self) -> bool:
        """Whether the plan is chosen by a quick sample of the sources; results of other queries have no sample."""
        unknown = self.statistics is None and not any(r.stream.depth for r in self.query.relations)
        return unknown and self.wishes.strategy != "flat" and len(self.query.relations) > 1


def merge_statistics(every: Statistics | None, own: Statistics | None) -> Statistics | None:
    """Statistics of a query: its own win over those of all queries."""
    return every.merge(own) if every is not None and own is not None else every if own is None else own


# --------------------------------------------------------------------------------------------- planning


def plan_queries(
    requests: Mapping[str, Request],
    workers: int,
    prices: Prices,
    inputs: Inputs,
    given: Statistics,
    remembered: Mapping[str, Remembered],
    sharing: Sharing = "global",
    seen_before: SeenBefore | None = None,
) -> tuple[Choice, ...]:
    """The plan of each query.  `given` are statistics given by hand, `remembered` are the plans of the checkpoint."""
    unknown = [name for name, request in requests.items() if request.needs_look]
    new = [requests[name].query for name in unknown if name not in remembered]
    seen, sizes = inputs.glance(new, given) if new else None, inputs.sizes()
    before = seen_before or SeenBefore()

    def find(name: str, request: Request) -> Statistics | None:
        if name not in unknown:
            return request.statistics
        return seen if name not in remembered else before.of(name, given)

    known = {
        name: Known(
            find(name, request),
            sizes,
            prices=prices,
            given=request.given,
            measured=before.measured if name in remembered else None,
            made=_recall_plan(request, remembered.get(name), sharing, workers),
        )
        for name, request in requests.items()
    }
    queries = {name: request.query for name, request in requests.items()}
    return choices(queries, workers, {name: request.wishes for name, request in requests.items()}, known, sharing)


# ---------------------------------------------------------------------------------------------- sources


@dataclass(frozen=True)
class Inputs:
    """Streams with their sources, and the functions that queries may call on their rows."""

    streams: Mapping[str, Stream]
    sources: Mapping[str, Source]
    functions: Functions

    def sizes(self) -> dict[str, float]:
        """Bytes of each stream that are there now, as far as its source knows."""
        found = {name: source.size() for name, source in self.sources.items()}
        return {name: size for name, size in found.items() if size is not None}

    def measure(self, queries: Sequence[Query], given: Statistics, sample: int, seed: int = 0) -> Statistics:
        """Statistics for queries, from at most `sample` rows of each stream."""
        named = {str(place): query for place, query in enumerate(queries)}
        every = [*queries, *hidden(named).values()]
        queries = [query for query in every if not any(r.stream.depth for r in query.relations)]
        drawn = {name: self._sample(name, queries, sample, seed) for name in self.sources}
        samples = {name: found for name, found in drawn.items() if found is not None}
        return analyze(self.streams, samples, queries, self.functions, given, seed).merge(given)

    def glance(self, queries: Sequence[Query], given: Statistics) -> Statistics | None:
        """A quick look for queries whose plan has to be chosen without statistics.

        If a stream cannot be read yet or has no rows, nothing is assumed of any stream.
        """
        try:
            found = self.measure(queries, given, GLANCE)
        except WeftError:
            return None  # the run will report what is wrong
        streams = {relation.stream.name for query in queries for relation in query.relations}
        return found if all(found.rows(name) for name in streams) else None

    def _sample(self, name: str, queries: Sequence[Query], most: int, seed: int) -> Sample | None:
        stream = self.streams[name]
        if stream.changes is not None and (stream.changes.is_log or stream.changes.format != "rows"):
            return None  # its rows are not those of the source
        return self.sources[name].sample(stream, needed_columns(stream, queries), most, seed)


# ------------------------------------------------------------------------------------------- checkpoints


def remember_choice(choice: Choice, sharing: Sharing) -> dict[str, str]:
    """The strategy that was asked for, all that was asked for, and the plan that was made."""
    plan, wishes, workers = write(choice.query, choice.chosen.layout), choice.wishes, choice.chosen.ways.workers
    return {"strategy": _spell(wishes.strategy), "asked": _spell_all(wishes, sharing, workers), "plan": plan.to_json()}


def _recall_plan(request: Request, remembered: Remembered | None, sharing: Sharing, workers: int) -> Plan | None:
    """The plan that was made before, if the same is asked for now."""
    if remembered is None or remembered["asked"] != _spell_all(request.wishes, sharing, workers):
        return None
    try:
        plan = Plan.from_json(remembered["plan"])
        bind(plan, request.query)
    except (PlanError, ValueError, KeyError):
        return None  # the name now belongs to another query; the checkpoint will refuse it
    return plan


@dataclass(frozen=True)
class SeenBefore:
    """What a checkpoint knows of its streams: what plans were made by, and what committed batches have shown."""

    noted: Mapping[str, Statistics] = field(default_factory=dict)
    """Query -> the statistics its plan was chosen by."""
    measured: Statistics | None = None

    @classmethod
    def read(cls, checkpoint: Checkpoint) -> SeenBefore:
        """What a checkpoint knows; nothing if it has no batch."""
        last = Ledger(checkpoint.root).last()
        if last.batch < 0:
            return cls()
        said = {name: note.get("statistics") for name, note in checkpoint.notes().items()}
        return cls({name: Statistics.from_json(text) for name, text in said.items() if text}, last.observed)

    def of(self, name: str, given: Statistics) -> Statistics | None:
        """For a query of the checkpoint: what was measured wins over what its plan was chosen by."""
        parts = [part for part in (self.noted.get(name), self.measured) if part is not None]
        return functools.reduce(Statistics.merge, [*parts, given]) if parts else None


def read_observed(checkpoint: Checkpoint) -> Statistics:
    """Statistics of the streams, from committed batches."""
    return Ledger(checkpoint.root).last().observed


def read_measured(checkpoint: Checkpoint) -> Measured | None:
    """What committed batches did; None if there are none."""
    return Ledger(checkpoint.root).last().measured


def _spell_all(wishes: Wishes, sharing: Sharing, workers: int) -> str:
    """All that was asked for: other wishes, or another number of workers, lead to another plan."""
    asked = {"strategy": _spell(wishes.strategy), "sharing": sharing, "budget": str(wishes.budget), "unit": wishes.unit}
    asked |= {"placement": wishes.placement, "capacity": str(wishes.capacity), "arrival": str(wishes.arrival)}
    given = {"workers": workers, "parallelism": dict(wishes.parallelism), "skewed": dict(wishes.skewed)}
    return json.dumps(asked | given, sort_keys=True)


def _spell(strategy: str | Plan) -> str:
    return strategy if isinstance(strategy, str) else strategy.to_json()
