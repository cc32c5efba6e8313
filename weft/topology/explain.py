"""The one printer of topologies: stores, then for every query what each arriving tuple does.

Deterministic to the byte.  Each store is printed once and called s0, s1, ... after that.
"""

from __future__ import annotations

from collections.abc import Mapping

from weft.expr.model import Expr
from weft.expr.render import to_sql
from weft.query.duration import format_duration
from weft.query.model import Query
from weft.topology.model import Key, Probe, Start, Store, Topology


def explain(topology: Topology, queries: Mapping[str, Query]) -> str:
    """The plan as text."""
    names = {store.id: f"s{i}" for i, store in enumerate(topology.stores)}
    lines = [f"plan  flat, {_count(topology.workers, 'worker')}, {_count(topology.waves, 'wave')} a batch"]
    lines += [line for store in topology.stores for line in _store(store, names[store.id])]
    for query in queries:
        lines += ["", f"query {query}"]
        for start in topology.starts:
            if start.query == query:
                lines.append(f"  on {start.alias}: {_way(topology, start, names)}")
    notices = [line for store in topology.stores for line in _notices(store, names[store.id])]
    return "\n".join(lines + (["", *notices] if notices else [])) + "\n"


def _store(store: Store, name: str) -> list[str]:
    place = f"by {_list(store.placement)}" if store.placement else "scattered"
    keep = "for ever" if store.retention is None else format_duration(store.retention + 1)
    lines = [f"  {name}  store {store.stream}  {place}  keep {keep} ({store.reason})  for {', '.join(store.users)}"]
    if store.filter:
        lines.append(f"      where {' AND '.join(to_sql(p) for p in store.filter)}")
    lines.append(f"      columns {', '.join(store.columns)}")
    lines += [f"      index {_key(key)}" for key in store.indexes]
    return lines


def _way(topology: Topology, start: Start, names: Mapping[str, str]) -> str:
    probes = {probe.id: probe for probe in topology.probes}
    parts, at = [], start.then
    while at in probes:
        parts.append(_probe(probes[at], names))
        at = probes[at].then
    return " -> ".join([*parts, "emit"])


def _probe(probe: Probe, names: Mapping[str, str]) -> str:
    how = {"local": "here", "key": "one worker", "broadcast": "all workers", "scatter": "any worker"}[probe.route]
    rest = f" check {' AND '.join(to_sql(p) for p in probe.residual)}" if probe.residual else ""
    asks = [to_sql(expr) for expr in probe.equal]
    span = [f"{'>' if b.strict else '>='} {to_sql(b.expr)}" for b in probe.low]
    span += [f"{'<' if b.strict else '<='} {to_sql(b.expr)}" for b in probe.high]
    sought = ", ".join(asks + span) or "every row"
    return f"probe {names[probe.store]} as {probe.alias} [{sought}]{rest} ({how}, wave {probe.wave})"


def _notices(store: Store, name: str) -> list[str]:
    if store.retention is not None:
        return []
    return [
        f"notice: state of {name} ({store.stream}) grows without bound",
        f"  detail: {store.reason}; used by {', '.join(store.users)}.",
        "  hint: give the aliases of the query a WITHIN window or a time band if old rows may be forgotten.",
    ]


def _key(key: Key) -> str:
    parts = [f"= {_list(key.equal)}"] if key.equal else []
    parts += [f"range {to_sql(key.range)}"] if key.range is not None else []
    return ", ".join(parts) or "none, every row is met"


def _list(exprs: tuple[Expr, ...]) -> str:
    return ", ".join(to_sql(expr) for expr in exprs)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
