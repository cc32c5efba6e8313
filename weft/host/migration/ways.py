"""Ways of the new plan along which old rows travel during a migration: from one start to one keep or emit.

Everything is already stored, so a tuple that starts may see all rows of the other relations, and starting from one
relation finds every combination once.  What must hold: a way carries no more fields than its end needs.  A plan carries
what any query reads; old state may not have all of that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from weft.expr.model import columns
from weft.topology.model import COPY, Edge, Emit, Keep, Node, Probe, Route, Start, Store, Topology


@dataclass(frozen=True, slots=True)
class Way:
    """Nodes that tuples of one relation pass, the first of which they start from."""

    edge: Edge
    """Brings the rows."""
    start: Start
    nodes: tuple[Node, ...]
    clock: str | None = None
    """The clock that decides which rows of the relation are late."""

    @property
    def needs(self) -> frozenset[str]:
        """Columns of the relation that are read, besides those of selections."""
        keys = [*self.edge.route_key, *(self.edge.spread.keys if self.edge.spread else ())]
        return frozenset({*self.start.columns, *(c.name for expr in keys for c in columns(expr))})

    def topology(self, new: Topology) -> Topology:
        """A plan that does nothing but send rows along this way."""
        last = self.nodes[-1]
        wanted = {node.store for node in self.nodes if not isinstance(node, Emit)}
        return Topology(
            new.workers,
            tuple(stream for stream in new.streams if stream.name == self.edge.stream),
            new.clocks,
            tuple(store for store in new.stores if store.id in wanted),
            (self.edge,),
            (self.start,),
            tuple(node for node in self.nodes if isinstance(node, Probe)),
            (last,) if isinstance(last, Emit) else (),
            (last,) if isinstance(last, Keep) else (),
        )


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
    taken = tuple(sorted(field.split(".", 1)[1] for field in needed)) or start.columns[:1]
    begun = replace(start, columns=taken, then=(done[0].id,))
    bringing = replace(edge, columns=taken, clock=None, stores=(), starts=(start.id,), watch=())
    return Way(bringing, begun, tuple(done), edge.clock)


def _reads(probe: Probe, carry: set[str]) -> set[str]:
    """Fields that a probe reads or hands on."""
    exprs = [*probe.route_key, *probe.equal, *(b.expr for b in (*probe.low, *probe.high)), *probe.residual]
    return {c.field for expr in exprs for c in columns(expr)} | carry


def _finds(probe: Probe, store: Store) -> set[str]:
    """Fields of the tuples that a probe finds."""
    return {*store.columns} if store.members else {f"{probe.members[0]}.{column}" for column in store.columns}


def moving(new: Topology, stores: tuple[Store, ...]) -> Topology:
    """A plan that does nothing but send rows to some stores; each has an edge of its own name."""
    edges = tuple(_to_store(store) for store in stores)
    used = {store.stream for store in stores}
    return Topology(new.workers, tuple(s for s in new.streams if s.name in used), new.clocks, stores, edges, (), (), ())


def _to_store(store: Store) -> Edge:
    route: Route = "spread" if store.spread else "key" if store.placement else "scatter"
    kept = tuple(column for column in store.columns if column != COPY or store.spread)
    return Edge(
        store.id, store.stream, store.filter, kept, route, store.placement, store.tasks, None, (store.id,), (),
        store.spread,
    )  # fmt: skip
