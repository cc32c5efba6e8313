"""The last look at a topology: it changes nothing and refuses what cannot run.

A failure here is a bug of Weft, never of the user.
"""

from __future__ import annotations

from collections.abc import Mapping

from weft.errors import InternalError
from weft.expr.model import columns
from weft.query.model import Query
from weft.topology.model import ROWS, Emit, Keep, Node, Probe, Start, Store, Topology


def check(topology: Topology, queries: Mapping[str, Query]) -> None:
    """Raise InternalError unless every alias of every query has one way to its emit that meets each other alias once,
    over known stores and fields, in waves in which all it may see is there; and every store is fed."""
    for name, query in queries.items():
        starts = [start for start in topology.starts if start.query == name]
        _must([s.alias for s in starts] == list(query.aliases), f"query {name} does not start once from each alias")
        for start in starts:
            _Walk(topology, query, start).run()
    for start in topology.starts:
        fed = sum(start.id in edge.starts for edge in topology.edges)
        _must(fed == 1, f"{start.id} is fed by not exactly one edge")
    for store in topology.stores:
        _fed(topology, store)


def _fed(topology: Topology, store: Store) -> None:
    edges = sum(store.id in edge.stores for edge in topology.edges)
    origins = sorted(keep.origin for keep in topology.keeps if keep.store == store.id)
    if store.aliases:
        _must(edges == 0 and origins == sorted(store.aliases), f"{store.id} is not fed once by each of its members")
    else:
        _must(edges == 1 and not origins, f"{store.id} is fed by not exactly one edge")
    _must(1 <= store.tasks <= topology.workers, f"{store.id} lies on {store.tasks} of {topology.workers} workers")


class _Walk:
    """The way of one alias."""

    def __init__(self, topology: Topology, query: Query, start: Start) -> None:
        self.topology, self.query, self.start = topology, query, start
        self.nodes = topology.nodes
        self.fields = {f"{start.alias}.{column}" for column in start.columns}
        self.met = [start.alias]
        self.wave = 1

    def run(self) -> None:
        following = self.start.then
        while following:
            found = [self._node(name) for name in following]
            for keep in (node for node in found if isinstance(node, Keep)):
                self._keep(keep)
            ahead = [node for node in found if not isinstance(node, Keep)]
            _must(len(ahead) == 1, f"the way from {self.start.id} splits")
            if isinstance(ahead[0], Emit):
                break
            self._probe(ahead[0])
            following = ahead[0].then
        whole = sorted(self.met) == sorted(self.query.aliases)
        _must(whole, f"the way from {self.start.id} meets {self.met} instead of each alias once")

    def _node(self, name: str) -> Node:
        _must(name in self.nodes, f"node {name} is missing")
        return self.nodes[name]

    def _keep(self, keep: Keep) -> None:
        store = self.topology.store(keep.store)
        _must(sorted(self.met) == sorted(store.aliases), f"{keep.id} keeps {self.met} in {store.id}")
        _must(keep.wave >= self.wave and keep.origin == self.start.alias, f"{keep.id} keeps too early, or for another")
        self._reads(keep.id, set(keep.fields), self.fields)

    def _probe(self, probe: Probe) -> None:
        store = self.topology.store(probe.store)
        prefix = "" if store.aliases else f"{probe.aliases[0]}."
        found = self.fields | {f"{prefix}{column}" for column in store.columns}
        reads = [*probe.route_key, *probe.equal, *(b.expr for b in (*probe.low, *probe.high)), *probe.residual]
        self._reads(probe.id, {c.field for expr in reads for c in columns(expr)} | set(probe.carry), found)
        key = store.indexes[probe.index]
        kinds = [(a.type, b.type) for a, b in zip(key.equal, probe.equal, strict=True)]
        _must(all(a == b for a, b in kinds), f"probe {probe.id} compares keys of different types: {kinds}")
        _must(probe.wave >= self.wave, f"probe {probe.id} runs before its input")
        _must(probe.route == "local" or probe.tasks == store.tasks, f"probe {probe.id} misses workers of {store.id}")
        self._sees(probe, store)
        self.wave, self.fields = probe.wave, set(probe.carry)
        self.met += probe.aliases

    def _sees(self, probe: Probe, store: Store) -> None:
        """The delta rule, and that what it lets through is there in time."""
        older = [a for a in probe.aliases if self.query.position(a) < self.query.position(self.start.alias)]
        wanted = older if store.aliases else [ROWS] * len(older)
        _must(list(probe.sees) == wanted, f"probe {probe.id} sees {probe.sees} instead of {wanted}")
        late = [k.id for k in self.topology.keeps if k.store == store.id and k.origin in older and k.wave > probe.wave]
        _must(not late, f"probe {probe.id} does not wait for {late}")

    def _reads(self, who: str, wanted: set[str], there: set[str]) -> None:
        _must(wanted <= there, f"{who} reads {sorted(wanted - there)}, which nobody carries")


def _must(holds: bool, what: str) -> None:
    if not holds:
        raise InternalError(f"the plan is broken: {what}")
