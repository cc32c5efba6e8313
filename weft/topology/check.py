"""The last look at a topology: it changes nothing and refuses what cannot run.

A failure here is a bug of Weft, never of the user.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from weft.errors import InternalError
from weft.expr.model import columns
from weft.query.model import TIME, Query
from weft.topology.clock import NEVER_LATE
from weft.topology.model import Edge, Start, Topology
from weft.topology.node import ROWS, Emit, Keep, Node, Probe
from weft.topology.store import Store


def check(topology: Topology, queries: Mapping[str, Query]) -> None:
    """Raise InternalError unless the topology can run.

    Every stream of every query has one way to its emit, which meets each other relation once.  All its other ways end
    in intermediate stores.  A way uses known stores and fields, and runs in waves in which all rows that it may see are
    stored.  Every store is fed once by each relation that can be the newest in its rows.
    """
    fed = _Fed(topology)
    _must(
        set(topology.emit_of) == set(queries) and len(topology.emits) == len(queries),
        "a query does not have exactly one emit",
    )
    _must(len(topology.start_by_id) == len(topology.starts), "two starts have one name")
    named = len(topology.probes) + len(topology.keeps) + len(topology.emits)
    _must(len(topology.nodes) == named and len(topology.store_by_id) == len(topology.stores), "two parts have one name")
    for name, query in queries.items():
        starts = topology.all_starts_of(name)
        streams = [r.alias for r in query.relations if not r.stream.table] or list(query.aliases)
        _must(set(starts) >= set(streams), f"query {name} does not start from each of its streams")
        for alias, begun in starts.items():
            ended = sum(_Walk(topology, name, start, fed).run() for start in begun)
            _must(ended == (alias in streams), f"{ended} ways of {name} lead from {alias} to its results")
    for start in topology.starts:
        _must(fed.starts[start.id] == 1, f"{start.id} is not fed by exactly one edge")
    for edge in topology.edges:
        for start in map(topology.start_by_id.__getitem__, edge.starts):
            reads = {column.name for part in start.filter for column in columns(part)} | set(start.columns)
            _must(reads <= set(edge.columns), f"{edge.id} does not bring all that {start.id} reads")
    for store in topology.stores:
        fed.check(store)
    _check_clocks(topology)


def _check_clocks(topology: Topology) -> None:
    """Rows are marked for every clock of those who use them, and expire by clocks that there are."""
    known = {clock.id for clock in topology.clocks} | {NEVER_LATE}
    timed = {stream.name for stream in (*topology.streams, *topology.derived) if stream.event_time is not None}
    for edge in topology.edges:
        users = {clock for start in edge.starts for clock in topology.clocks_at[start]}
        users |= {clock for store in edge.stores for clock in topology.store(store).clocks}
        wanted = users if edge.stream in timed else {NEVER_LATE}
        _must(set(edge.clocks) == wanted <= known, f"{edge.id} marks rows for {edge.clocks} instead of {wanted}")
    for store in topology.stores:
        clocks = {clock for clock, _ in store.expiry}
        _must(not clocks or clocks == set(store.clocks), f"{store.id} drops rows that some user needs")
        _must(not clocks or TIME in store.columns, f"{store.id} does not know the times of its rows")


class _Fed:
    """Which edges and keeps feed each store and start, looked up once."""

    def __init__(self, topology: Topology) -> None:
        self.workers, self.tables = topology.workers, topology.tables
        self.groups = {name for e in topology.emits if e.groups for name in e.groups.stores}
        self.starts = Counter(start for edge in topology.edges for start in edge.starts)
        self.stores = Counter(store for edge in topology.edges for store in edge.stores)
        self.keeps: dict[str, list[Keep]] = defaultdict(list)
        self.met: dict[str, tuple[_Tuple, _Tuple]] = {}
        """Probe -> tuples that came to it, and what it made of them."""
        for keep in topology.keeps:
            self.keeps[keep.store].append(keep)
        self.edges: dict[str, list[Edge]] = defaultdict(list)
        for edge in topology.edges:
            for name in (*edge.stores, *edge.starts):
                self.edges[name].append(edge)

    def check(self, store: Store) -> None:
        """A stream's store has one edge; an intermediate one has one keep for each member that is ever the newest."""
        origins = [keep.origin for keep in self.keeps[store.id]]
        if store.id in self.groups:
            _must(not origins and self.stores[store.id] == 0, f"{store.id} is fed by others than its query")
        elif store.members:
            newest = [label for label in store.members if label not in self.tables] or list(store.members)
            fed = self.stores[store.id] == 0 and sorted(origins) == sorted(newest)
            _must(fed, f"{store.id} is not fed once by each of {newest}, but by {origins}")
        else:
            _must(self.stores[store.id] == 1 and not origins, f"{store.id} is not fed by exactly one edge")
        _must(1 <= store.tasks <= self.workers, f"{store.id} lies on {store.tasks} of {self.workers} workers")


@dataclass(frozen=True, slots=True)
class _Tuple:
    """What is known of a tuple on its way."""

    met: tuple[str, ...]
    fields: frozenset[str]
    wave: int


class _Walk:
    """The ways of one relation of one query from one start."""

    def __init__(self, topology: Topology, query: str, start: Start, fed: _Fed) -> None:
        self.topology, self.query, self.start, self.fed = topology, query, start, fed
        self.nodes = topology.nodes
        self.labels = topology.aliases_of(query)

    def run(self) -> int:
        """Follow all ways; how many of them end in the results."""
        fields = frozenset(f"{self.start.label}.{column}" for column in self.start.columns)
        wave = max((edge.wave for edge in self.fed.edges[self.start.id]), default=1)
        return self._follow(self.start.then, _Tuple((self.start.label,), fields, wave))

    def _follow(self, following: Sequence[str], tuples: _Tuple) -> int:
        mine = [node for node in map(self._node, following) if self.query in node.users]
        _must(bool(mine), f"a way from {self.start.id} ends nowhere")
        ended = 0
        for node in mine:
            if isinstance(node, Emit):
                met = sorted(tuples.met) == sorted(self.labels)
                _must(met, f"the way from {self.start.id} meets {tuples.met} instead of each relation once")
                self._reads(node.id, set(node.fields), tuples.fields)
                self._hand_over(node, tuples.wave)
                ended += 1
            elif isinstance(node, Keep):
                self._keep(node, tuples)
            else:
                ended += self._follow(node.then, self._meet(node, tuples))
        return ended

    def _node(self, name: str) -> Node:
        _must(name in self.nodes, f"node {name} is missing")
        return self.nodes[name]

    def _hand_over(self, emit: Emit, wave: int) -> None:
        """Rows of a derived stream are there before its stores are filled."""
        made = max(wave, emit.wave)
        early = [e.id for e in self.topology.edges if emit.into and e.stream == emit.into and e.wave <= made]
        _must(not early, f"{early} bring rows of {emit.into} before {emit.id} makes them")

    def _keep(self, keep: Keep, tuples: _Tuple) -> None:
        store = self.topology.store(keep.store)
        _must(sorted(tuples.met) == sorted(store.members), f"{keep.id} keeps {tuples.met} in {store.id}")
        in_time = keep.wave >= tuples.wave and keep.origin == self.start.label
        _must(in_time, f"{keep.id} keeps too early, or for another")
        self._reads(keep.id, set(keep.fields), tuples.fields)
        self._reads(keep.id, {c.field for expr in keep.route_key for c in columns(expr)}, set(keep.fields))

    def _meet(self, probe: Probe, tuples: _Tuple) -> _Tuple:
        """What tuples are after a probe; the same tuples of several queries are looked at once."""
        before, after = self.fed.met.get(probe.id, (None, tuples))
        if before != tuples:
            after = self._probe(probe, tuples)
            self.fed.met[probe.id] = tuples, after
        return after

    def _probe(self, probe: Probe, tuples: _Tuple) -> _Tuple:
        store = self.topology.store(probe.store)
        prefix = "" if store.members else f"{probe.members[0]}."
        found = tuples.fields | {f"{prefix}{column}" for column in store.columns}
        reads = [*probe.route_key, *probe.equal, *(b.expr for b in (*probe.low, *probe.high)), *probe.residual]
        reads += [measure.expr for measure in probe.measures]
        reads += [] if probe.sieve is None else [expr for _, expr in probe.sieve.known]
        self._reads(probe.id, {c.field for expr in reads for c in columns(expr)} | set(probe.carry), found)
        key = store.indexes[probe.index]
        kinds = [(a.type, b.type) for a, b in zip(key.equal, probe.equal, strict=True)]
        _must(all(a == b for a, b in kinds), f"probe {probe.id} compares keys of different types: {kinds}")
        _must(probe.wave >= tuples.wave, f"probe {probe.id} runs before its input")
        _must(probe.route == "local" or probe.tasks == store.tasks, f"probe {probe.id} misses workers of {store.id}")
        _must(
            not store.members or store.members == probe.members, f"probe {probe.id} takes {store.id} for another join"
        )
        self._sees(probe, store)
        return _Tuple((*tuples.met, *probe.members), frozenset(probe.carry), probe.wave)

    def _sees(self, probe: Probe, store: Store) -> None:
        """A probe sees exactly the older origins of this batch, and runs after their rows are stored."""
        stamp = self.topology.stamp
        older = [label for label in probe.members if stamp(label) < stamp(self.start.label)]
        wanted = older if store.members else [ROWS] * len(older)
        _must(list(probe.sees) == wanted, f"probe {probe.id} sees {probe.sees} instead of {wanted}")
        late = [k.id for k in self.fed.keeps[store.id] if k.origin in older and k.wave > probe.wave]
        if older and not store.members:
            late += [edge.id for edge in self.fed.edges[store.id] if edge.wave > probe.wave]
        _must(not late, f"probe {probe.id} does not wait for {late}")

    def _reads(self, who: str, wanted: set[str], there: AbstractSet[str]) -> None:
        _must(wanted <= there, f"{who} reads {sorted(wanted - there)}, which no tuple carries")


def _must(holds: bool, what: str) -> None:
    if not holds:
        raise InternalError(f"the plan is broken: {what}")
