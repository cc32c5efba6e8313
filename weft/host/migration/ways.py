"""Ways of the new plan along which old rows travel during a migration: from one start to one keep or emit.

Everything is already stored, so a tuple that starts may see all rows of the other relations, and starting from one
relation finds every combination once.  What must hold: a way carries no more fields than its end needs.  A plan carries
what any query reads; old state may not have all of that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from weft.expr.model import Expr, columns, text_of
from weft.query.model import COPY
from weft.topology.clock import NEVER_LATE
from weft.topology.label import stream_of
from weft.topology.model import Edge, Start, Topology
from weft.topology.node import Emit, Keep, Node, Probe, Route
from weft.topology.store import Store


@dataclass(frozen=True, slots=True)
class Way:
    """Nodes that tuples of one relation pass, the first of which they start from."""

    edge: Edge
    """Brings the rows."""
    start: Start
    nodes: tuple[Node, ...]
    clocks: tuple[str, ...] = ()
    """The clocks that decide which rows of the relation are late."""

    @property
    def selection(self) -> tuple[Expr, ...]:
        """Which rows of the stream start."""
        return (*self.edge.filter, *self.start.filter)

    @property
    def needs(self) -> frozenset[str]:
        """Columns of the relation that are read, besides those of selections."""
        keys = [*self.edge.route_key, *(self.edge.spread.keys if self.edge.spread else ())]
        return frozenset({*self.start.columns, *(c.name for expr in keys for c in columns(expr))})

    def without(self, passed: tuple[Expr, ...]) -> Way:
        """The way without selections that its rows have passed."""
        start = replace(self.start, filter=remaining(self.start.filter, passed))
        edge = replace(self.edge, filter=remaining(self.edge.filter, passed), columns=_brought(start))
        return replace(self, edge=edge, start=start)

    def topology(self, new: Topology) -> Topology:
        """A plan that does nothing but send rows along this way."""
        last = self.nodes[-1]
        wanted = {name for node in self.nodes for name in stores_of(node)}
        stores = tuple(store for store in new.stores if store.id in wanted)
        read = {self.edge.stream, *streams_of(stores)}
        return Topology(
            new.workers,
            tuple(stream for stream in new.streams if stream.name in read),
            new.clocks,
            stores,
            (self.edge,),
            (self.start,),
            tuple(node for node in self.nodes if isinstance(node, Probe)),
            (last,) if isinstance(last, Emit) else (),
            (last,) if isinstance(last, Keep) else (),
            tuple(stream for stream in new.derived if stream.name in read),
        )


def stores_of(node: Node) -> tuple[str, ...]:
    """The stores that a node reads or fills."""
    if not isinstance(node, Emit):
        return (node.store,)
    if node.matching is not None:
        return (node.matching.store,)
    return () if node.groups is None else node.groups.stores


def streams_of(stores: Iterable[Store]) -> set[str]:
    """The streams whose rows stores hold: a plan has to know which of them are tables that change."""
    return {name for store in stores for name in (store.stream, *map(stream_of, store.members))}


def remaining(chosen: tuple[Expr, ...], passed: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The selections that rows have not passed yet; columns of the others may not be there any more."""
    texts = {text_of(expr) for expr in passed}
    return tuple(expr for expr in chosen if text_of(expr) not in texts)


def _brought(start: Start) -> tuple[str, ...]:
    """Columns that an edge brings to a start."""
    return tuple(sorted({*start.columns, *(c.name for part in start.filter for c in columns(part))}))


def ways_to(topology: Topology, label: str, end: str) -> Iterator[Way]:
    """The ways from starts of a relation to a node."""
    for edge in topology.edges:
        for start in (topology.start_by_id[name] for name in edge.starts):
            if start.label == label:
                for nodes in _lines(topology, start.then, end):
                    yield _trim(topology, edge, start, nodes)


def _lines(topology: Topology, following: tuple[str, ...], end: str) -> Iterator[tuple[Node, ...]]:
    for name in following:
        node = topology.nodes[name]
        if name == end:
            yield (node,)
        elif isinstance(node, Probe):
            yield from ((node, *rest) for rest in _lines(topology, node.then, end))


def _trim(topology: Topology, edge: Edge, start: Start, nodes: tuple[Node, ...]) -> Way:
    """The way with what its end needs, and with waves in which nothing else happens left out."""
    waves = {wave: number for number, wave in enumerate(sorted({1, *(node.wave for node in nodes)}), start=1)}
    *probes, last = nodes
    needed = set(last.fields)
    done: list[Node] = [replace(last, wave=waves[last.wave])]
    for probe in reversed(probes):
        assert isinstance(probe, Probe)
        found = _finds(probe, topology.store(probe.store))
        carry = needed or {min(found)}  # rows are counted by a field
        needed = _reads(probe, carry) - found
        made = replace(
            probe, wave=waves[probe.wave], fields=tuple(sorted(needed)), carry=tuple(sorted(carry)), sees=(),
            then=(done[0].id,),
        )  # fmt: skip
        done.insert(0, made)
    needed |= {c.field for measure in start.measures for c in columns(measure.expr)}
    taken = tuple(sorted(field.split(".", 1)[1] for field in needed)) or start.columns[:1]
    begun = replace(start, columns=taken, then=(done[0].id,))
    brought = _brought(begun)
    bringing = replace(edge, columns=brought, clocks=(NEVER_LATE,), stores=(), starts=(start.id,), watch=(), wave=1)
    return Way(bringing, begun, tuple(done), edge.clocks)


def _reads(probe: Probe, carry: set[str]) -> set[str]:
    """Fields that a probe reads or hands on."""
    exprs = [*probe.route_key, *probe.equal, *(b.expr for b in (*probe.low, *probe.high)), *probe.residual]
    return {c.field for expr in exprs for c in columns(expr)} | carry


def _finds(probe: Probe, store: Store) -> set[str]:
    """Fields of the tuples that a probe finds."""
    return {*store.columns} if store.members else {f"{probe.members[0]}.{column}" for column in store.columns}


def replaying(new: Topology, emits: Collection[str]) -> tuple[Topology, dict[str, Way]]:
    """The new plan without results but those of some queries, and the way of each edge that brings tuples to a start.

    Every store and every start has an edge of its own, since their rows may come from different old stores.
    """
    ends = [(keep.origin, keep.id) for keep in new.keeps]
    ends += [(label, new.emit_of[query].id) for query in emits for label, _ in new.emit_of[query].aliases]
    starts, nodes = gather_ways(ways_as_planned(new, (way for label, end in ends for way in ways_to(new, label, end))))
    base = tuple(store for store in new.stores if store.is_fed_by_rows)
    edges = (*map(_to_store, base), *(replace(way.edge, id=way.start.id) for way in starts.values()))
    found = nodes.values()
    plan = Topology(
        new.workers, new.streams, new.clocks, new.stores, edges, tuple(way.start for way in starts.values()),
        tuple(node for node in found if isinstance(node, Probe)),
        tuple(node for node in found if isinstance(node, Emit)),
        tuple(node for node in found if isinstance(node, Keep)),
        new.derived,
    )  # fmt: skip
    return plan, starts


def gather_ways(ways: Iterable[Way]) -> tuple[dict[str, Way], dict[str, Node]]:
    """The ways by their starts, those that begin alike as one, and all nodes on them."""
    starts: dict[str, Way] = {}
    nodes: dict[str, Node] = {}
    for way in ways:
        known = starts.get(way.start.id)
        starts[way.start.id] = way if known is None else _unite_starts(known, way)
        for node in way.nodes:
            nodes[node.id] = _unite(nodes.get(node.id), node)
    return starts, nodes


def ways_as_planned(topology: Topology, ways: Iterable[Way]) -> Iterator[Way]:
    """Ways with their waves and what they see as in the plan."""
    for way in ways:
        yield replace(way, nodes=tuple(_as_planned(topology.nodes[node.id], node) for node in way.nodes))


def _as_planned(planned: Node, node: Node) -> Node:
    if isinstance(planned, Probe) and isinstance(node, Probe):
        return replace(node, wave=planned.wave, sees=planned.sees)
    return replace(node, wave=planned.wave)


def _unite_starts(one: Way, other: Way) -> Way:
    columns = tuple(sorted({*one.start.columns, *other.start.columns}))
    then = tuple(dict.fromkeys((*one.start.then, *other.start.then)))
    start = replace(one.start, columns=columns, then=then)
    return Way(replace(one.edge, columns=_brought(start)), start, one.nodes, one.clocks)


def _unite(known: Node | None, node: Node) -> Node:
    """A node that several ways pass."""
    if not isinstance(known, Probe) or not isinstance(node, Probe):
        return node
    return replace(
        known,
        fields=tuple(sorted({*known.fields, *node.fields})),
        carry=tuple(sorted({*known.carry, *node.carry})),
        then=tuple(dict.fromkeys((*known.then, *node.then))),
    )


def moving(new: Topology, stores: tuple[Store, ...]) -> Topology:
    """A plan that does nothing but send rows to some stores; each has an edge of its own name."""
    edges = tuple(_to_store(store) for store in stores)
    used = streams_of(stores)
    return Topology(
        new.workers, tuple(s for s in new.streams if s.name in used), new.clocks, stores, edges, (), (), (), (),
        tuple(s for s in new.derived if s.name in used),
    )  # fmt: skip


def _to_store(store: Store) -> Edge:
    route: Route = "spread" if store.spread else "key" if store.placement else "scatter"
    kept = tuple(column for column in store.columns if column != COPY or store.spread)
    return Edge(
        store.id, store.stream, store.filter, kept, route, store.placement, store.tasks, (NEVER_LATE,), (store.id,), (),
        store.spread,
    )  # fmt: skip
