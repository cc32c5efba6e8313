"""Derived streams in a migration: how the stores of a new plan get rows that are results of its own queries.

Rows of a derived stream are made again from what is there: those of groups from the groups, those of a join by a way
from rows of one of its relations.  From then on they do what they would do in a batch: they are stored, start, and make
rows of the derived streams above.  All of it is one job, with the waves of the plan.

What must hold: only what the old state does not have is made, and each of it once.  An *end* is what must be made: a
store of a derived stream, a join, or the results of a query.  One that can be made from old rows along a way of its own
is no end here: it is made after the streams that it reads.  Any other end belongs to the last of the derived streams
that it reads, since the tuples of that one find the rows of all others in place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from weft.expr.model import Column
from weft.host.migration.ways import Way, gather_ways, stores_of, ways_as_planned, ways_to
from weft.query.model import Stream
from weft.topology.model import HASH, NEVER_LATE, Edge, Emit, Keep, Node, Probe, Start, Store, Topology, stream_of

FindSource = Callable[[Way], Store | None]
"""The old store that has the rows which start a way."""


@dataclass(frozen=True, slots=True)
class Derivation:
    """How rows of a branch of a derived stream are made again, and all that follows."""

    depth: int
    topology: Topology
    edge: str
    """Brings the rows that it begins with."""
    source: str
    """The store that has them: an old one, or groups of the new plan."""
    from_groups: bool


@dataclass(frozen=True, slots=True)
class _Ends:
    """What must be made of the rows of a derived stream."""

    stores: tuple[str, ...]
    nodes: tuple[tuple[str, str], ...]
    """(Label, keep or emit)."""

    def __bool__(self) -> bool:
        return bool(self.stores or self.nodes)


class Cascade:
    """What a new plan wants of its derived streams, given the stores that are made without them."""

    def __init__(self, new: Topology, there: AbstractSet[str], find: FindSource, wanted: Collection[str]) -> None:
        """`wanted` are new queries whose results among old rows are wanted."""
        self.new, self.there, self._find, self.wanted = new, there, find, wanted
        self._known: dict[str, _Ends] = {}

    @cached_property
    def derivations(self) -> tuple[Derivation, ...]:
        """All that is made, in an order in which what is read is there."""
        return tuple(
            made for stream in self._streams for emit in self._branches(stream.name) for made in self._do(emit)
        )

    @cached_property
    def lacking(self) -> frozenset[str]:
        """Branches whose rows cannot be made again."""
        return frozenset(
            emit.query
            for stream in self._streams
            for emit in self._branches(stream.name)
            if self._matters(emit) and not self._is_end(emit) and not any(True for _ in self._do(emit))
        )

    def is_ended(self, query: str) -> bool:
        """Whether the results of a query are made with the rows of a derived stream."""
        return self._is_end(self.new.emit_of[query])

    # ------------------------------------------------------------------------------------------- ends

    @property
    def _streams(self) -> list[Stream]:
        return sorted(self.new.derived, key=lambda stream: (stream.depth, stream.name))

    def _branches(self, stream: str) -> list[Emit]:
        return [emit for emit in self.new.emits if emit.into == stream]

    def _ends(self, stream: str) -> _Ends:
        if stream not in self._known:
            stores = (s.id for s in self.new.stores if s.stream == stream and s.id not in self.there)
            joins = {s.id for s in self.new.stores if s.members and s.counted != "groups" and s.id not in self.there}
            keeps = [(k.origin, k.id) for k in self.new.keeps if k.store in joins and self._owns(stream, k)]
            emits = [emit for emit in self.new.emits if self._last(_labels(emit)) == stream and self._is_end(emit)]
            nodes = [(label, emit.id) for emit in emits for label in _labels(emit) if stream_of(label) == stream]
            self._known[stream] = _Ends(tuple(stores), (*keeps, *nodes))
        return self._known[stream]

    def _owns(self, stream: str, keep: Keep) -> bool:
        return stream_of(keep.origin) == stream == self._last(self.new.store(keep.store).members)

    def _last(self, labels: Iterable[str]) -> str:
        """The last of the derived streams among some relations; empty if there is none."""
        depths = {stream.name: stream.depth for stream in self.new.derived}
        found = [(depths[name], name) for name in map(stream_of, labels) if name in depths]
        return max(found)[1] if found else ""

    def _is_end(self, emit: Emit) -> bool:
        """Whether results must be made, and only the rows of a derived stream can make them."""
        return bool(self._last(_labels(emit))) and self._is_missing(emit) and self._way(emit) is None

    def _is_missing(self, emit: Emit) -> bool:
        if emit.into:
            return self._is_fresh(emit) if emit.groups is not None else bool(self._ends(emit.into))
        return emit.query in self.wanted

    def _is_fresh(self, emit: Emit) -> bool:
        return emit.groups is not None and emit.groups.store not in self.there

    def _matters(self, emit: Emit) -> bool:
        return self._is_missing(emit) or bool(self._ends(emit.into))

    def _way(self, emit: Emit) -> tuple[Way, Store] | None:
        """A way to the results from rows that an old store has."""
        found = ((way, self._find(way)) for label in _labels(emit) for way in ways_to(self.new, label, emit.id))
        return next(((way, source) for way, source in found if source is not None), None)

    # ------------------------------------------------------------------------------------------- jobs

    def _do(self, emit: Emit) -> Iterator[Derivation]:
        """How the rows of a branch are made; not at all if nobody wants them, or if it is an end itself."""
        if not self._matters(emit) or self._is_end(emit):
            return
        depth = next(stream.depth for stream in self.new.derived if stream.name == emit.into)
        if emit.groups is not None and not self._is_fresh(emit):
            if emit.groups.grouping.closing is None:
                yield Derivation(depth, _Draft(self).from_groups(emit), emit.id, emit.groups.store, from_groups=True)
        elif (found := self._way(emit)) is not None:
            way, source = found
            plan, edge = _Draft(self).from_way(way.without(source.filter), emit)
            yield Derivation(depth, plan, edge, source.id, from_groups=False)


class _Draft:
    """A job while its parts are collected."""

    def __init__(self, cascade: Cascade) -> None:
        self.cascade, self.new = cascade, cascade.new
        self.edges: list[Edge] = []
        self.starts: list[Start] = []
        self.nodes: dict[str, Node] = {}
        self.stores: dict[str, Store] = {}
        self.derived: list[str] = []

    def from_groups(self, emit: Emit) -> Topology:
        """All groups of a branch come again, as parts of groups of a store that is empty."""
        assert emit.groups is not None
        store = self.new.store(emit.groups.store)
        whole = replace(store, id=f"{store.id}~whole")
        owner = (Column("", HASH, pa.int64()),)
        self.edges.append(Edge(emit.id, "", (), store.columns, "key", owner, emit.tasks, (NEVER_LATE,), (), (), wave=0))
        self.nodes[emit.id] = replace(emit, groups=replace(emit.groups, store=whole.id, again=True))
        self.stores[whole.id] = whole
        self._follow(emit.into)
        return self._finish("")

    def from_way(self, way: Way, emit: Emit) -> tuple[Topology, str]:
        """Rows of one relation start, and become results of a branch."""
        planned = ways_as_planned(self.new, (way,))
        starts, nodes = gather_ways(planned)
        begun = starts[way.start.id]
        edge = replace(begun.edge, id=begun.start.id, wave=1)
        self.edges.append(replace(edge, starts=(begun.start.id,)))
        self.starts.append(begun.start)
        self.nodes |= nodes
        self._follow(emit.into)
        return self._finish(edge.stream), edge.id

    def _follow(self, stream: str) -> None:
        """Let the rows of a derived stream do all that is wanted of them."""
        ends = self.cascade._ends(stream)
        if stream in self.derived or not ends:
            return
        self.derived.append(stream)
        ways = [way for label, node in ends.nodes for way in ways_to(self.new, label, node)]
        starts, nodes = gather_ways(ways_as_planned(self.new, ways))
        self.starts += [way.start for way in starts.values()]
        self.nodes |= nodes
        for edge in (edge for edge in self.new.edges if edge.stream == stream):
            stores = tuple(name for name in edge.stores if name in ends.stores)
            begun = tuple(name for name in edge.starts if name in starts)
            if stores or begun:
                self.edges.append(replace(edge, stores=stores, starts=begun, watch=()))
        for node in nodes.values():
            if isinstance(node, Emit) and node.into:
                self._follow(node.into)

    def _finish(self, stream: str) -> Topology:
        new, nodes = self.new, tuple(self.nodes.values())
        wanted = {name for node in nodes for name in stores_of(node)} | {s for edge in self.edges for s in edge.stores}
        stores = {store.id: store for store in new.stores if store.id in wanted} | self.stores
        return Topology(
            new.workers,
            tuple(one for one in new.streams if one.name == stream),
            new.clocks,
            tuple(stores.values()),
            tuple(self.edges),
            tuple(self.starts),
            tuple(node for node in nodes if isinstance(node, Probe)),
            tuple(node for node in nodes if isinstance(node, Emit)),
            tuple(node for node in nodes if isinstance(node, Keep)),
            tuple(one for one in new.derived if one.name in self.derived),
        )


def _labels(emit: Emit) -> list[str]:
    return [label for label, _ in emit.aliases]
