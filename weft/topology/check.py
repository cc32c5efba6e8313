"""The last look at a topology: it changes nothing and refuses what cannot run.

A failure here is a bug of Weft, never of the user.
"""

from __future__ import annotations

from collections.abc import Mapping

from weft.errors import InternalError
from weft.expr.model import columns
from weft.query.model import Query
from weft.topology.model import Probe, Topology


def check(topology: Topology, queries: Mapping[str, Query]) -> None:
    """Raise InternalError unless every alias of every query has one way to its emit over known stores and fields."""
    probes = {probe.id: probe for probe in topology.probes}
    emits = {emit.id for emit in topology.emits}
    for name, query in queries.items():
        starts = [start for start in topology.starts if start.query == name]
        _must([s.alias for s in starts] == list(query.aliases), f"query {name} does not start once from each alias")
        for start in starts:
            met = _follow(topology, probes, emits, start.then, {f"{start.alias}.{c}" for c in start.columns})
            _must(sorted([start.alias, *met]) == sorted(query.aliases), f"the way from {start.id} misses an alias")
    for start in topology.starts:
        _must(
            sum(start.id in edge.starts for edge in topology.edges) == 1, f"{start.id} is fed by not exactly one edge"
        )
    for store in topology.stores:
        _must(
            sum(store.id in edge.stores for edge in topology.edges) == 1, f"{store.id} is fed by not exactly one edge"
        )


def _follow(topology: Topology, probes: Mapping[str, Probe], emits: set[str], at: str, fields: set[str]) -> list[str]:
    """Walk the probes from `at`, checking that each has what it reads; return the aliases met."""
    met: list[str] = []
    wave = 1
    while at not in emits:
        _must(at in probes, f"probe {at} is missing")
        probe = probes[at]
        store = topology.store(probe.store)
        found = fields | {f"{probe.alias}.{column}" for column in store.columns}
        reads = [*probe.route_key, *probe.equal, *(b.expr for b in (*probe.low, *probe.high)), *probe.residual]
        missing = {c.field for expr in reads for c in columns(expr)} - found | (set(probe.carry) - found)
        _must(not missing, f"probe {at} reads {sorted(missing)}, which nobody carries")
        key = store.indexes[probe.index]
        kinds = [(a.type, b.type) for a, b in zip(key.equal, probe.equal, strict=True)]
        _must(all(a == b for a, b in kinds), f"probe {at} compares keys of different types: {kinds}")
        _must(probe.wave >= wave, f"probe {at} runs before its input")
        wave, fields, at = probe.wave, set(probe.carry), probe.then
        met.append(probe.alias)
    return met


def _must(holds: bool, what: str) -> None:
    if not holds:
        raise InternalError(f"the plan is broken: {what}")
