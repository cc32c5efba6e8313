"""Edges: rows of a stream are sent once for all stores and starts that want the same rows on the same workers.

A start also takes its rows from an edge of a store that brings more than it wants to the same workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from weft.expr.implied import Selection, implies
from weft.expr.model import Expr, columns, text_of, without_alias
from weft.optimizer.graph.placement import keys as keys_of
from weft.optimizer.lower.labels import digest
from weft.optimizer.lower.places import Place, place_of_start
from weft.optimizer.lower.stores import StoreDraft, clock_of
from weft.optimizer.lower.unite import United
from weft.optimizer.lower.ways import Hop, Ways
from weft.query.model import TIME
from weft.stats.keys import key_name
from weft.topology.clock import NEVER_LATE
from weft.topology.model import Edge
from weft.topology.node import Measure, Route


@dataclass
class StartDraft:
    """A start while its users are still being collected."""

    id: str
    label: str
    stream: str
    selection: Selection
    brought: Selection
    """The selection of the edge; it may bring more."""
    place: Place
    clocks: set[str] = field(default_factory=set)
    columns: set[str] = field(default_factory=set)
    then: dict[str, None] = field(default_factory=dict)
    users: dict[tuple[str, str], None] = field(default_factory=dict)
    watch: dict[tuple[str, Expr], None] = field(default_factory=dict)
    measures: dict[Measure, None] = field(default_factory=dict)

    @property
    def filter(self) -> Selection:
        """What is left to select."""
        return tuple(part for part in self.selection if not implies(self.brought, (part,)))


def begin(plan: Ways, label: str, first: Hop | None, united: United) -> StartDraft:
    """Where tuples of a relation begin that make this hop first; the same for all lines that begin alike."""
    stream, place = plan.query.relation(label).stream.name, place_of_start(plan, label, first)
    chosen = plan.selections[label]
    name, brought = f"{label}@{digest(edge_name(stream, chosen, place))}", united.edge(stream, place, chosen)
    return StartDraft(name, label, stream, chosen, brought, place, {clock_of(plan, label)})


@lru_cache(maxsize=4096)
def edge_name(stream: str, chosen: tuple[Expr, ...], place: Place) -> str:
    """The name of an edge: a stream, its selections and a place."""
    route, key, tasks, spread = place
    return f"{stream}>{digest(*map(text_of, chosen), '>', route, *map(text_of, key), tasks, spread)}"


@dataclass
class _EdgeDraft:
    """An edge while its users are still being collected."""

    stream: str
    selection: tuple[Expr, ...]
    place: Place
    clocks: set[str] = field(default_factory=set)
    columns: set[str] = field(default_factory=set)
    stores: list[str] = field(default_factory=list)
    starts: list[str] = field(default_factory=list)
    watch: dict[tuple[str, Expr, Selection], None] = field(default_factory=dict)

    def finish(self, name: str, wave: int) -> Edge:
        columns = tuple(sorted(self.columns | (set() if NEVER_LATE in self.clocks else {TIME})))
        route, key, tasks, spread = self.place
        return Edge(
            name, self.stream, self.selection, columns, route, key, tasks, tuple(sorted(self.clocks)),
            tuple(self.stores), tuple(self.starts), spread, tuple(self.watch), wave,
        )  # fmt: skip


def edges(
    stores: Iterable[StoreDraft], starts: Iterable[StartDraft], wave: Callable[[str], int] = lambda _stream: 1
) -> tuple[Edge, ...]:
    """One edge for all stores and starts that want the same rows of a stream on the same workers.

    `wave` says when the rows of a stream are there.
    """
    drafts: dict[str, _EdgeDraft] = {}

    def draw(stream: str, chosen: tuple[Expr, ...], place: Place, clocks: set[str]) -> _EdgeDraft:
        edge = drafts.setdefault(edge_name(stream, chosen, place), _EdgeDraft(stream, chosen, place))
        edge.clocks |= clocks
        return edge

    for store in (store for store in stores if not store.members):
        route: Route = "spread" if store.spread else "key" if store.placement else "scatter"
        place: Place = (route, store.placement, store.tasks, store.spread)
        edge = draw(store.stream, store.filter, place, store.clocks)
        edge.columns |= set(store.held)
        edge.stores.append(store.id)
    for start in starts:
        edge = draw(start.stream, start.brought, start.place, start.clocks)
        edge.columns |= start.columns | {c.name for part in start.filter for c in columns(part)}
        edge.starts.append(start.id)
        edge.watch |= {(name, key, start.filter): None for name, key in start.watch}
    return tuple(edge.finish(name, wave(edge.stream)) for name, edge in drafts.items())


def find_watched_keys(plan: Ways, label: str, alias: str) -> dict[tuple[str, Expr], None]:
    """The join keys of a relation whose values are counted, by the names of statistics; none for a single worker."""
    if plan.workers == 1:
        return {}
    owner = alias if plan.query.selections(label) else plan.query.relation(label).stream.name
    keys = keys_of(plan.query, 1 << plan.query.position(label), {})
    return {(f"{owner}.{key_name(key)}", without_alias(key)): None for key in keys}
