"""From the ways of single queries to one topology that shares what can be shared.

Stores are shared by all aliases, of any query, that keep the same stream after the same selection in the same
place under the same clock; intermediate results are not.  Columns and indexes are united, and the longest
retention wins (each probe checks its own window).  Rows of a stream travel once for all stores and probes that want
them on the same worker.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from weft.expr.model import Call, Column, Expr, without_alias
from weft.optimizer.graph.layout import names
from weft.optimizer.graph.placement import keys as keys_of
from weft.optimizer.lower.ways import Hop, Keeping, Ways, finished
from weft.query.model import Query, Stream
from weft.query.timebounds import reason
from weft.stats.keys import key_name
from weft.topology.check import check
from weft.topology.model import ROWS, TIME, Clock, Edge, Emit, Keep, Key, Policy, Probe, Route, Start, Store, Topology
from weft.topology.spread import Cube, Regions, Spread

_Place = tuple[Route, tuple[Expr, ...], int, Spread | None]
"""A route, its key, the number of workers it deals over, and a spread instead of all these."""


def assemble(plans: Sequence[Ways], policy: Policy = "min") -> Topology:
    """The topology that answers all queries."""
    plans = [finished(p) for p in plans]
    queries = {p.name: p.query for p in plans}
    shelf = _Shelf()
    for p in plans:
        for store in p.layout.tree.stores:
            shelf.add(p, store.relations)
    stores = shelf.stores()
    paths = [_Way(p, alias, shelf) for p in plans for alias in p.query.aliases]
    topology = Topology(
        plans[0].workers if plans else 1,
        _streams(queries),
        tuple({c.id: replace(c, policy=policy) for p in plans if (c := clock(p)) is not None}.values()),
        stores,
        _edges(stores, paths),
        tuple(way.start for way in paths),
        tuple(probe for way in paths for probe in way.probes),
        tuple(_emit(p) for p in plans),
        tuple(keep for way in paths for keep in way.keeps),
    )
    check(topology, queries)
    return topology


def clock(plan: Ways) -> Clock | None:
    """The clock of a query: all its streams with an event time, if anything ever expires."""
    if not plan.clocked:
        return None
    timed = {r.stream.name: r.stream.lateness for r in plan.query.relations if r.stream.event_time is not None}
    streams = tuple(sorted(timed.items()))
    return Clock(f"clock-{_digest(repr(streams))}", streams)


def _streams(queries: Mapping[str, Query]) -> tuple[Stream, ...]:
    return tuple({r.stream.name: r.stream for q in queries.values() for r in q.relations}.values())


def _filter(plan: Ways, alias: str) -> tuple[Expr, ...]:
    own = tuple(without_alias(p) for p in plan.query.selections(alias))
    return own + _has_time(plan, alias)


def _has_time(plan: Ways, alias: str) -> tuple[Expr, ...]:
    """A row without event time is in no window.  Clocked edges refuse it; where nothing expires it is selected away."""
    relation = plan.query.relation(alias)
    if plan.clocked or relation.window is None or len(plan.query.relations) == 1:
        return ()
    name = str(relation.stream.event_time)
    missing = Call("is_null", (Column("", name, relation.stream.schema.field(name).type),), pa.bool_())
    return (Call("not", (missing,), pa.bool_()),)


def _clock_id(plan: Ways, alias: str) -> str | None:
    found = clock(plan)
    timed = plan.query.relation(alias).stream.event_time is not None
    return found.id if found is not None and timed else None


@dataclass
class _Draft:
    """A store while its users are still being collected."""

    name: str
    """What its rows are: a stream, or aliases of a query."""
    stream: str
    filter: tuple[Expr, ...]
    placement: tuple[Expr, ...]
    clock: str | None
    tasks: int
    aliases: tuple[str, ...] = ()
    ends: tuple[tuple[str, int], ...] = ()
    spread: Spread | None = None
    columns: set[str] = field(default_factory=set)
    indexes: list[Key] = field(default_factory=list)
    retention: int | None = 0
    reason: str = ""
    users: list[str] = field(default_factory=list)

    @property
    def id(self) -> str:
        same = (self.name, self.filter, self.placement, self.clock, self.tasks, self.spread)
        return f"{self.name[:80]}-{_digest(repr(same))}"

    def finish(self) -> Store:
        return Store(
            self.id, self.stream, self.filter, tuple(sorted(self.columns)), self.placement, tuple(self.indexes),
            self.clock, self.retention, self.reason, tuple(self.users), self.tasks, self.aliases, self.ends,
            self.spread,
        )  # fmt: skip


class _Shelf:
    """All stores of the topology, by what makes two of them the same."""

    def __init__(self) -> None:
        self._drafts: dict[str, _Draft] = {}
        self._of: dict[tuple[str, int], str] = {}

    def add(self, plan: Ways, store: int) -> None:
        made = _kept_rows(plan, store) if store.bit_count() == 1 else _kept_join(plan, store)
        draft = self._drafts.setdefault(made.id, made)
        self._of[plan.name, store] = draft.id
        inner = store.bit_count() > 1
        draft.columns |= {f if inner else f.split(".", 1)[1] for f in plan.fields[store]}
        draft.columns |= {TIME} if draft.clock else set()
        for alias in plan.query.aliases:
            for hop in plan.hops(alias):
                if hop.store == store and hop.step.key not in draft.indexes:
                    draft.indexes.append(hop.step.key)
        if not inner:
            self._keep(draft, plan, names(plan.query, store)[0])
        draft.users.append(".".join((plan.name, "+".join(names(plan.query, store)))))

    def _keep(self, draft: _Draft, plan: Ways, alias: str) -> None:
        """The longest retention of all users wins."""
        keep = plan.retention[alias] if draft.clock else None
        longer = keep is None or (draft.retention is not None and keep >= draft.retention)
        if longer and (draft.retention is not None or not draft.reason):
            draft.retention, draft.reason = keep, reason(plan.query, alias)

    def of(self, query: str, store: int) -> _Draft:
        return self._drafts[self._of[query, store]]

    def stores(self) -> tuple[Store, ...]:
        return tuple(draft.finish() for draft in self._drafts.values())


def _kept_rows(plan: Ways, store: int) -> _Draft:
    """The store of one alias."""
    (alias,) = names(plan.query, store)
    placement = tuple(without_alias(expr) for expr in plan.layout.placement.get(store, ()))
    stream = plan.query.relation(alias).stream.name
    return _Draft(
        stream, stream, _filter(plan, alias), placement, _clock_id(plan, alias), plan.tasks(store),
        spread=_spread(plan, alias),
    )  # fmt: skip


def _spread(plan: Ways, alias: str) -> Spread | None:
    """Where copies of an alias's rows go, in terms of its stream."""
    found = plan.layout.spread.get(1 << plan.query.position(alias))
    if isinstance(found, Regions):
        return replace(found, key=without_alias(found.key))
    if isinstance(found, Cube):
        axes = (a if a.key is None else replace(a, key=without_alias(a.key)) for a in found.axes)
        return replace(found, axes=tuple(axes))
    return None


def _kept_join(plan: Ways, store: int) -> _Draft:
    """The store of an intermediate result: a row goes when the first of its members does (K-06)."""
    members = names(plan.query, store)
    ends = tuple((alias, keep) for alias in members if (keep := plan.retention[alias]) is not None)
    first = min(ends, key=lambda end: end[1], default=None)
    own = clock(plan)
    return _Draft(
        f"{plan.name}.{'+'.join(members)}",
        "",
        (),
        plan.layout.placement.get(store, ()),
        own.id if own is not None and ends else None,
        plan.tasks(store),
        members,
        ends,
        retention=None if first is None else first[1],
        reason="full history" if first is None else f"as long as all its members; {reason(plan.query, first[0])}",
    )


class _Way:
    """The start, the probes and the keeps of one alias of one query."""

    def __init__(self, plan: Ways, alias: str, shelf: _Shelf) -> None:
        self.plan, self.alias, self.shelf = plan, alias, shelf
        self.parts = plan.paths[alias]
        self.position = plan.query.position(alias)
        columns = tuple(sorted(f.split(".", 1)[1] for f in plan.start_fields(alias)))
        self.start = Start(self._id(""), plan.name, alias, self.position, columns, self._after(-1))
        hops = [(i, part) for i, part in enumerate(self.parts) if isinstance(part, Hop)]
        self.probes = tuple(self._probe(i, hop) for i, hop in hops)
        self.keeps = tuple(self._keep(i, part) for i, part in enumerate(self.parts) if isinstance(part, Keeping))

    def _id(self, part: str) -> str:
        return "/".join([self.plan.name, self.alias, *([part] if part else [])])

    def _after(self, i: int) -> tuple[str, ...]:
        """What comes after part i: a keep, if there is one, and then the next probe or the end."""
        found: list[str] = []
        for j in range(i + 1, len(self.parts)):
            found.append(self._id(str(j + 1)))
            if isinstance(self.parts[j], Hop):
                return tuple(found)
        return (*found, f"{self.plan.name}/emit")

    def _probe(self, i: int, hop: Hop) -> Probe:
        step = hop.step
        draft = self.shelf.of(self.plan.name, hop.store)
        return Probe(
            id=self._id(str(i + 1)),
            query=self.plan.name,
            origin=self.alias,
            position=self.position,
            aliases=names(self.plan.query, hop.store),
            store=draft.id,
            wave=hop.wave,
            route=hop.route,
            route_key=hop.route_key,
            tasks=hop.tasks,
            sees=self._sees(hop.store),
            index=draft.indexes.index(step.key),
            equal=tuple(e.known for e in step.equalities),
            low=step.low,
            high=step.high,
            residual=step.residual,
            fields=tuple(sorted(hop.fields)),
            carry=hop.carry,
            then=self._after(i),
        )

    def _sees(self, store: int) -> tuple[str, ...]:
        older = tuple(a for a in names(self.plan.query, store) if self.plan.query.position(a) < self.position)
        return older if store.bit_count() > 1 else (ROWS,) * len(older)

    def _keep(self, i: int, part: Keeping) -> Keep:
        draft, fields = self.shelf.of(self.plan.name, part.store), self.plan.fields[part.store]
        return Keep(
            self._id(str(i + 1)), self.plan.name, self.alias, draft.id, part.wave,
            part.route, part.route_key, part.tasks, fields,
        )  # fmt: skip

    @property
    def route(self) -> _Place:
        """How tuples reach the first probe."""
        if (spread := _spread(self.plan, self.alias)) is not None:
            return "spread", (), self.plan.workers, spread
        first = next(iter(self.probes), None)
        if first is None or first.route == "local":
            return "scatter", (), self.plan.workers, None
        return first.route, tuple(without_alias(expr) for expr in first.route_key), first.tasks, None


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
            watch=tuple(dict.fromkeys((*known.watch, *edge.watch))),
        )

    for store in stores:
        if store.aliases:
            continue
        route: Route = "spread" if store.spread else "key" if store.placement else "scatter"
        place = route, store.placement, store.tasks, store.spread
        join(_edge(store.stream, store.filter, store.columns, place, store.clock, stores=(store.id,)))
    for way in ways:
        query, alias = way.plan.query, way.alias
        mark = _clock_id(way.plan, alias)
        columns = (*way.start.columns, *((TIME,) if mark else ()))
        stream = query.relation(alias).stream.name
        join(
            _edge(stream, _filter(way.plan, alias), columns, way.route, mark, starts=(way.start.id,), watch=_watch(way))
        )
    return tuple(edges.values())


def _watch(way: _Way) -> tuple[tuple[str, Expr], ...]:
    """What equalities join an alias by, named as statistics name it; one worker knows no skew."""
    if way.plan.workers == 1:
        return ()
    relation = way.plan.query.relation(way.alias)
    owner = way.alias if way.plan.query.selections(way.alias) else relation.stream.name
    keys = keys_of(way.plan.query, 1 << way.position, {})
    return tuple((f"{owner}.{key_name(key)}", without_alias(key)) for key in keys)


def _edge(
    stream: str, selection: tuple[Expr, ...], columns: tuple[str, ...], place: _Place,
    clock_id: str | None, stores: tuple[str, ...] = (), starts: tuple[str, ...] = (),
    watch: tuple[tuple[str, Expr], ...] = (),
) -> Edge:  # fmt: skip
    name = f"{stream}>{_digest(repr((stream, selection, place, clock_id)))}"
    return Edge(name, stream, selection, columns, *place[:3], clock_id, stores, starts, place[3], watch)


def _emit(plan: Ways) -> Emit:
    last = max((part.wave for parts in plan.paths.values() for part in parts), default=1)
    return Emit(f"{plan.name}/emit", plan.name, plan.query.outputs, last)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
