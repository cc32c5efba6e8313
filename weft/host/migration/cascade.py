"""Derived streams in a migration: how the stores of a new plan get rows that are results of its own queries.

Rows of a derived stream are made again from what is there: those of groups from the groups; those of a join by a way
from rows of one of its relations that an old store has, or from the rows of the last derived stream that it reads.
That is a *chain* of emits; each but the first reads what the one before it makes.  A chain is one job, with the waves
of the plan.  At its end are groups, or all that is wanted of a derived stream: that its rows are stored, and that joins
and results of queries are made of them.

What must hold: only what the old state does not have is made, and each of it once.  Streams are made in the order of
their depths.  What can be made from old rows along a way of its own is made after the streams that it reads.  Anything
else belongs to the last of the derived streams that it reads: its tuples find the rows of all others in place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from weft.errors import StateError
from weft.host.migration.ways import Way, gather_ways, stores_of, streams_of, ways_as_planned, ways_to
from weft.host.state.manifest import Manifest
from weft.query.model import Stream
from weft.topology.clock import NEVER_LATE
from weft.topology.label import stream_of
from weft.topology.model import Edge, Start, Topology
from weft.topology.node import Emit, Groups, Keep, Node, Probe
from weft.topology.store import Store

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
        branches = (emit for stream in self._streams for emit in self._branches(stream.name))
        return frozenset(emit.query for emit in branches if self._lacks(emit))

    def _lacks(self, emit: Emit) -> bool:
        if self._is_fresh(emit) or emit.groups is None:
            return self._matters(emit) and not self._chains(emit)
        return _closes(emit) and bool(self._ends(emit.into))

    def is_ended(self, query: str) -> bool:
        """Whether the results of a query are made with the rows of a derived stream."""
        return self._is_end(self.new.emit_of[query])

    def refuse_lost(self, query: str, manifest: Manifest) -> None:
        """Refuse a query that wants all its results among old rows, if some of these rows were not kept."""
        read = {stream for stream, rows in manifest.totals.rows_in.items() if rows and not self._is_table(stream)}
        if lost := self._lost(self.new.emit_of[query], read, manifest.partial):
            raise StateError(
                f'query "{query}" cannot be complete',
                detail=f'rows of stream "{min(lost)}" were read before and not kept.',
                hint="start from an empty checkpoint, with this query in it; without complete=True, a query whose rows "
                "are never taken back begins with what is there.",
            )

    def _lost(self, emit: Emit, read: AbstractSet[str], partial: Collection[str]) -> frozenset[str]:
        """Of the streams that were read, those whose old rows are gone although results are made of them."""
        streams = {*map(stream_of, _labels(emit))}
        if (found := self.way(emit)) is not None:
            # Of several streams each is met in a store, and `weft.session.complete` knows what those lack.
            alone = all(self._is_table(stream) for stream in streams - {found[1].stream})
            return frozenset(streams & read) if alone and found[1].id in partial else frozenset()
        below = self._branches(self._last(_labels(emit)))
        if not below:
            return frozenset(streams & read)
        lost = (self._lost(other, read, partial) for other in below if not self._has_groups(other))
        return frozenset().union(*lost, *(self._below(other) & read for other in below if _closes(other)))

    def _has_groups(self, emit: Emit) -> bool:
        return emit.groups is not None and emit.groups.store in self.there

    def _below(self, emit: Emit) -> frozenset[str]:
        """All that a branch reads, and what is below it."""
        streams = frozenset(map(stream_of, _labels(emit)))
        return streams.union(*(self._below(other) for stream in streams for other in self._branches(stream)))

    def _is_table(self, stream: str) -> bool:
        return any(known.table for known in self.new.streams if known.name == stream)

    # ------------------------------------------------------------------------------------------- ends

    @property
    def _streams(self) -> list[Stream]:
        return sorted(self.new.derived, key=lambda stream: (stream.depth, stream.name))

    def _branches(self, stream: str) -> list[Emit]:
        return [emit for emit in self.new.emits if stream and emit.into == stream]

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
        """Whether results leave that are wanted, and only the rows of a derived stream can make them."""
        wanted = not emit.into and emit.query in self.wanted
        return wanted and bool(self._last(_labels(emit))) and self.way(emit) is None

    def _is_fresh(self, emit: Emit) -> bool:
        return emit.groups is not None and emit.groups.store not in self.there

    def _matters(self, emit: Emit) -> bool:
        """Whether rows of a branch are wanted, by its groups or by others."""
        return self._is_fresh(emit) or self._is_read(emit.into)

    def _is_read(self, stream: str) -> bool:
        """Whether rows of a stream are wanted, by its ends or by chains that go through it."""
        if self._ends(stream):
            return True
        above = [e for e in self.new.emits if e.into and self._last(_labels(e)) == stream and self.way(e) is None]
        return any(self._is_fresh(emit) or (emit.groups is None and self._is_read(emit.into)) for emit in above)

    def way(self, emit: Emit) -> tuple[Way, Store] | None:
        """A way to the results from rows that an old store has."""
        found = ((way, self._find(way)) for label in _labels(emit) for way in ways_to(self.new, label, emit.id))
        return next(((way, source) for way, source in found if source is not None), None)

    # ------------------------------------------------------------------------------------------- jobs

    def _do(self, emit: Emit) -> Iterator[Derivation]:
        """How the rows of a branch are made: first its groups, if there are none, then what is wanted of its rows."""
        depth = next(stream.depth for stream in self.new.derived if stream.name == emit.into)
        if self._is_fresh(emit):
            yield from (_Job(self, chain).finish(depth, None) for chain in self._chains(emit))
        ends = self._ends(emit.into)
        if not ends:
            return
        chains = self._chains(emit) if emit.groups is None else [] if _closes(emit) else [[emit]]
        yield from (_Job(self, chain).finish(depth, ends) for chain in chains)

    def _chains(self, emit: Emit) -> list[list[Emit]]:
        """The chains that lead to all results of an emit; none if its rows cannot be made."""
        if self.way(emit) is not None:
            return [[emit]]
        below = self._branches(self._last(_labels(emit)))
        starts = [[other] for other in below if other.groups is not None and not _closes(other)]
        starts += [chain for other in below if other.groups is None for chain in self._chains(other)]
        return [[*chain, emit] for chain in starts]


class _Job:
    """A chain as a plan, while its parts are collected."""

    def __init__(self, cascade: Cascade, chain: Sequence[Emit]) -> None:
        self.cascade, self.new, self.chain = cascade, cascade.new, chain
        self.edges: list[Edge] = []
        self.starts: list[Start] = []
        self.nodes: dict[str, Node] = {}
        self.stores: dict[str, Store] = {}
        self.derived: list[str] = []

    def finish(self, depth: int, ends: _Ends | None) -> Derivation:
        """The job; `ends` is what is wanted of the rows at the end of the chain, None if only groups are filled."""
        first, last = self.chain[0], self.chain[-1]
        found = self.cascade.way(first)
        from_groups = first.groups is not None and (len(self.chain) > 1 or ends is not None)
        if from_groups:
            stream, edge, source = "", self._begin_with_groups(first), _groups(first).store
        else:
            assert found is not None
            way, store = found
            stream, edge, source = way.edge.stream, self._begin_with_rows(way.without(store.filter)), store.id
        for one, other in pairwise(self.chain):
            labels = [label for label in _labels(other) if stream_of(label) == one.into]
            self._follow(one.into, _Ends((), tuple((label, other.id) for label in labels)))
        if ends is not None:
            self._follow(last.into, ends)
        return Derivation(depth, self._finish(stream), edge, source, from_groups)

    def _begin_with_groups(self, emit: Emit) -> str:
        """All groups of a branch come again, as parts of groups of a store that is empty."""
        groups = _groups(emit)
        store = self.new.store(groups.store)
        whole = replace(store, id=f"{store.id}~whole")
        home, tasks = store.placement, emit.tasks
        self.edges.append(Edge(emit.id, "", (), store.columns, "key", home, tasks, (NEVER_LATE,), (), (), wave=0))
        self.nodes[emit.id] = replace(emit, groups=replace(groups, store=whole.id, again=True))
        self.stores[whole.id] = whole
        return emit.id

    def _begin_with_rows(self, way: Way) -> str:
        """Rows of one relation start, and become results of a branch."""
        starts, nodes = gather_ways(ways_as_planned(self.new, (way,)))
        begun = starts[way.start.id]
        self.edges.append(replace(begun.edge, id=begun.start.id, starts=(begun.start.id,), wave=1))
        self.starts.append(begun.start)
        self.nodes |= nodes
        return begun.start.id

    def _follow(self, stream: str, ends: _Ends) -> None:
        """Let the rows of a derived stream do what is wanted of them."""
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

    def _finish(self, stream: str) -> Topology:
        new, nodes = self.new, tuple(self.nodes.values())
        wanted = {name for node in nodes for name in stores_of(node)} | {s for edge in self.edges for s in edge.stores}
        stores = {store.id: store for store in new.stores if store.id in wanted} | self.stores
        read = {stream, *self.derived, *streams_of(stores.values())}
        return Topology(
            new.workers,
            tuple(one for one in new.streams if one.name in read),
            new.clocks,
            tuple(stores.values()),
            tuple(self.edges),
            tuple(self.starts),
            tuple(node for node in nodes if isinstance(node, Probe)),
            tuple(node for node in nodes if isinstance(node, Emit)),
            tuple(node for node in nodes if isinstance(node, Keep)),
            tuple(one for one in new.derived if one.name in read),
        )


def _groups(emit: Emit) -> Groups:
    assert emit.groups is not None
    return emit.groups


def _closes(emit: Emit) -> bool:
    """Whether rows of groups came once: those that are final are there no more."""
    return emit.groups is not None and emit.groups.grouping.closing is not None


def _labels(emit: Emit) -> list[str]:
    return [label for label, _ in emit.aliases]
