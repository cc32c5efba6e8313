"""From the plans of single queries to one topology that shares what can be shared.

Stores are shared by all aliases, of any query, that keep the same stream after the same selection in the same
place under the same clock: columns and indexes are united, and the longest retention wins (each probe checks its
own window).  Rows of a stream travel once for all stores and probes that want them on the same worker.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from weft.expr.model import Call, Column, Expr, without_alias
from weft.optimizer.flat import Hop, QueryPlan, Sizes, plan_query, start_fields, store_columns
from weft.query.model import Query, Stream
from weft.query.timebounds import reason
from weft.stats.model import Statistics
from weft.topology.check import check
from weft.topology.model import TIME, Clock, Edge, Emit, Key, Policy, Probe, Route, Start, Store, Topology


def plan(
    queries: Mapping[str, Query],
    workers: int,
    sizes: Sizes,
    policy: Policy = "min",
    statistics: Statistics | None = None,
) -> Topology:
    """The topology that answers all queries."""
    plans = [plan_query(name, query, workers, sizes, statistics) for name, query in queries.items()]
    shelf = _Shelf()
    for query_plan in plans:
        for alias in query_plan.query.aliases:
            if len(query_plan.query.relations) > 1:
                shelf.add(query_plan, alias)
    stores = shelf.stores()
    ways = [_Way(p, alias, shelf) for p in plans for alias in p.query.aliases]
    topology = Topology(
        workers,
        _streams(queries),
        tuple({c.id: replace(c, policy=policy) for p in plans if (c := clock(p)) is not None}.values()),
        stores,
        _edges(stores, ways),
        tuple(way.start for way in ways),
        tuple(probe for way in ways for probe in way.probes),
        tuple(_emit(p) for p in plans),
    )
    check(topology, queries)
    return topology


def clock(query_plan: QueryPlan) -> Clock | None:
    """The clock of a query: all its streams with an event time, if anything ever expires."""
    if not query_plan.clocked:
        return None
    timed = {r.stream.name: r.stream.lateness for r in query_plan.query.relations if r.stream.event_time is not None}
    streams = tuple(sorted(timed.items()))
    return Clock(f"clock-{_digest(repr(streams))}", streams)


def _streams(queries: Mapping[str, Query]) -> tuple[Stream, ...]:
    return tuple({r.stream.name: r.stream for q in queries.values() for r in q.relations}.values())


def _filter(query_plan: QueryPlan, alias: str) -> tuple[Expr, ...]:
    own = tuple(without_alias(p) for p in query_plan.query.selections(alias))
    return own + _has_time(query_plan, alias)


def _has_time(query_plan: QueryPlan, alias: str) -> tuple[Expr, ...]:
    """A row without event time is in no window.  Clocked edges refuse it; where nothing expires it is selected away."""
    relation = query_plan.query.relation(alias)
    if query_plan.clocked or relation.window is None or len(query_plan.query.relations) == 1:
        return ()
    name = str(relation.stream.event_time)
    missing = Call("is_null", (Column("", name, relation.stream.schema.field(name).type),), pa.bool_())
    return (Call("not", (missing,), pa.bool_()),)


def _clock_id(query_plan: QueryPlan, alias: str) -> str | None:
    found = clock(query_plan)
    timed = query_plan.query.relation(alias).stream.event_time is not None
    return found.id if found is not None and timed else None


@dataclass
class _Draft:
    """A store while its users are still being collected."""

    stream: str
    filter: tuple[Expr, ...]
    placement: tuple[Expr, ...]
    clock: str | None
    columns: set[str] = field(default_factory=set)
    indexes: list[Key] = field(default_factory=list)
    retention: int | None = 0
    reason: str = ""
    users: list[str] = field(default_factory=list)

    @property
    def id(self) -> str:
        return f"{self.stream}-{_digest(repr((self.stream, self.filter, self.placement, self.clock)))}"

    def finish(self) -> Store:
        return Store(
            self.id, self.stream, self.filter, tuple(sorted(self.columns)), self.placement, tuple(self.indexes),
            self.clock, self.retention, self.reason, tuple(self.users),
        )  # fmt: skip


class _Shelf:
    """All stores of the topology, by what makes two of them the same."""

    def __init__(self) -> None:
        self._drafts: dict[str, _Draft] = {}
        self._of: dict[tuple[str, str], str] = {}

    def add(self, query_plan: QueryPlan, alias: str) -> None:
        draft = self._same(query_plan, alias)
        self._of[query_plan.name, alias] = draft.id
        draft.columns |= store_columns(query_plan, alias) | ({TIME} if draft.clock else set())
        for hops in query_plan.paths.values():
            for hop in hops:
                if hop.step.target == alias and hop.step.key not in draft.indexes:
                    draft.indexes.append(hop.step.key)
        self._keep(draft, query_plan, alias)
        draft.users.append(f"{query_plan.name}.{alias}")

    def _same(self, query_plan: QueryPlan, alias: str) -> _Draft:
        placement = tuple(without_alias(expr) for expr in query_plan.placement[alias])
        stream = query_plan.query.relation(alias).stream.name
        draft = _Draft(stream, _filter(query_plan, alias), placement, _clock_id(query_plan, alias))
        return self._drafts.setdefault(draft.id, draft)

    def _keep(self, draft: _Draft, query_plan: QueryPlan, alias: str) -> None:
        """The longest retention of all users wins."""
        keep = query_plan.retention[alias] if draft.clock else None
        longer = keep is None or (draft.retention is not None and keep >= draft.retention)
        if longer and (draft.retention is not None or not draft.reason):
            draft.retention, draft.reason = keep, reason(query_plan.query, alias)

    def of(self, query: str, alias: str) -> _Draft:
        return self._drafts[self._of[query, alias]]

    def stores(self) -> tuple[Store, ...]:
        return tuple(draft.finish() for draft in self._drafts.values())


class _Way:
    """The start and the probes of one alias of one query."""

    def __init__(self, query_plan: QueryPlan, alias: str, shelf: _Shelf) -> None:
        self.plan, self.alias, self.shelf = query_plan, alias, shelf
        self.hops = query_plan.paths[alias]
        columns = tuple(sorted(f.split(".", 1)[1] for f in start_fields(query_plan, alias)))
        self.start = Start(f"{query_plan.name}/{alias}", query_plan.name, alias, columns, self._name(0))
        self.probes = tuple(self._probe(i, hop) for i, hop in enumerate(self.hops))

    def _name(self, i: int) -> str:
        return f"{self.plan.name}/{self.alias}/{i + 1}" if i < len(self.hops) else f"{self.plan.name}/emit"

    def _probe(self, i: int, hop: Hop) -> Probe:
        step, query = hop.step, self.plan.query
        draft = self.shelf.of(self.plan.name, step.target)
        return Probe(
            id=self._name(i),
            query=self.plan.name,
            alias=step.target,
            store=draft.id,
            wave=hop.wave,
            route=hop.route,
            route_key=hop.route_key,
            sees_delta=query.position(step.target) < query.position(self.alias),
            index=draft.indexes.index(step.key),
            equal=tuple(e.known for e in step.equalities),
            low=step.low,
            high=step.high,
            residual=step.residual,
            carry=hop.carry,
            then=self._name(i + 1),
        )

    @property
    def route(self) -> tuple[Route, tuple[Expr, ...]]:
        """How tuples reach the first probe."""
        if not self.hops or self.hops[0].route == "local":
            return "scatter", ()
        return self.hops[0].route, tuple(without_alias(expr) for expr in self.hops[0].route_key)


def _edges(stores: Sequence[Store], ways: Sequence[_Way]) -> tuple[Edge, ...]:
    """One edge for all who want the same rows of a stream on the same workers."""
    edges: dict[str, Edge] = {}

    def join(edge: Edge) -> None:
        known = edges.get(edge.id, edge)
        united = tuple(sorted({*known.columns, *edge.columns}))
        edges[edge.id] = replace(
            known,
            columns=united,
            stores=tuple(dict.fromkeys((*known.stores, *edge.stores))),
            starts=tuple(dict.fromkeys((*known.starts, *edge.starts))),
        )

    for store in stores:
        route: Route = "key" if store.placement else "scatter"
        columns = (*store.columns,)
        join(_edge(store.stream, store.filter, columns, route, store.placement, store.clock, stores=(store.id,)))
    for way in ways:
        query, alias = way.plan.query, way.alias
        mark = _clock_id(way.plan, alias)
        columns = (*way.start.columns, *((TIME,) if mark else ()))
        stream = query.relation(alias).stream.name
        join(_edge(stream, _filter(way.plan, alias), columns, *way.route, mark, starts=(way.start.id,)))
    return tuple(edges.values())


def _edge(
    stream: str, selection: tuple[Expr, ...], columns: tuple[str, ...], route: Route, key: tuple[Expr, ...],
    clock_id: str | None, stores: tuple[str, ...] = (), starts: tuple[str, ...] = (),
) -> Edge:  # fmt: skip
    name = f"{stream}>{_digest(repr((stream, selection, route, key, clock_id)))}"
    return Edge(name, stream, selection, columns, route, key, clock_id, stores, starts)


def _emit(query_plan: QueryPlan) -> Emit:
    last = max((hop.wave for hops in query_plan.paths.values() for hop in hops), default=1)
    return Emit(f"{query_plan.name}/emit", query_plan.name, query_plan.query.outputs, last)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
