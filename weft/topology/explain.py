"""The one printer of topologies: stores, then for every query what each arriving tuple does.

Deterministic to the byte.  Each store is printed once and called s0, s1, ... after that.
"""

from __future__ import annotations

from collections.abc import Mapping

from weft.expr.model import Call, Column, Expr, Literal
from weft.expr.render import to_sql
from weft.query.duration import format_duration
from weft.query.model import Query
from weft.topology.model import TIME, Keep, Key, Probe, Start, Store, Topology


def explain(topology: Topology, queries: Mapping[str, Query]) -> str:
    """The plan as text."""
    names = {store.id: f"s{i}" for i, store in enumerate(topology.stores)}
    kind = "with intermediate results" if topology.keeps else "flat"
    lines = [f"plan  {kind}, {_count(topology.workers, 'worker')}, {_count(topology.waves, 'wave')} a batch"]
    lines += [line for store in topology.stores for line in _store(store, names[store.id])]
    for query in queries:
        lines += ["", f"query {query}"]
        for start in topology.starts:
            if start.query == query:
                lines += _way(topology, start, names)
    notices = [line for store in topology.stores for line in _notices(store, names[store.id])]
    return "\n".join(lines + (["", *notices] if notices else [])) + "\n"


def _store(store: Store, name: str) -> list[str]:
    place = f"by {_list(store.placement)}" if store.placement else "scattered"
    what = store.stream or " + ".join(store.aliases)
    lines = [f"  {name}  store {what}  {place}  for {', '.join(store.users)}", f"      keep {_keep(store)}"]
    if store.filter:
        lines.append(f"      where {' AND '.join(to_sql(p) for p in store.filter)}")
    lines.append(f"      columns {', '.join(column for column in store.columns if column != TIME)}")
    lines += [f"      index {_key(key)}" for key in store.indexes]
    return lines


def _keep(store: Store) -> str:
    if store.retention is None:
        return f"for ever ({store.reason})"
    age = store.retention + store.reason.startswith("window")  # a window is an exclusive bound
    return f"until the watermark is {format_duration(age)} later ({store.reason})"


def _way(topology: Topology, start: Start, names: Mapping[str, str]) -> list[str]:
    lines, following = [], start.then
    while following:
        found, following = [topology.nodes[name] for name in following], ()
        for node in found:
            if isinstance(node, Keep):
                lines.append(f"    {_kept(node, names)}")
            elif isinstance(node, Probe):
                lines.append(f"    {_probe(node, names)}")
                following = node.then
    return [f"  on {start.alias}", *lines, "    emit"]


def _kept(keep: Keep, names: Mapping[str, str]) -> str:
    return f"wave {keep.wave}, {_HOW[keep.route]}: keep in {names[keep.store]}"


_HOW = {"local": "here", "key": "one worker", "broadcast": "all workers", "scatter": "any worker"}


def _probe(probe: Probe, names: Mapping[str, str]) -> str:
    asks = [f"= {_text(expr)}" for expr in probe.equal]
    asks += [f"{'>' if b.strict else '>='} {_text(b.expr)}" for b in probe.low]
    asks += [f"{'<' if b.strict else '<='} {_text(b.expr)}" for b in probe.high]
    rest = f" check {' AND '.join(_text(p) for p in probe.residual)}" if probe.residual else ""
    where = f"wave {probe.wave}, {_HOW[probe.route]}"
    return f"{where}: probe {names[probe.store]} as {', '.join(probe.aliases)} [{', '.join(asks) or 'every row'}]{rest}"


def _text(expr: Expr) -> str:
    """SQL, with event times and windows in words."""
    match expr:
        case Column(alias, name) if name == TIME:
            return f"{alias}.time" if alias else "time"
        case Call("+" | "-" as op, (Column(_, name) as time, Literal(amount))) if name == TIME and isinstance(
            amount, int
        ):
            return f"{_text(time)} {op} {format_duration(amount)}"
        case Call("<" | ">" | "<=" | ">=" as op, (left, right)):
            return f"{_text(left)} {op} {_text(right)}"
        case _:
            return to_sql(expr)


def _notices(store: Store, name: str) -> list[str]:
    if store.retention is not None:
        return []
    return [
        f"notice: state of {name} ({store.stream or ' + '.join(store.aliases)}) grows without bound",
        f"  detail: {store.reason}; used by {', '.join(store.users)}.",
        "  hint: give the aliases of the query a WITHIN window or a time band if old rows may be forgotten.",
    ]


def _key(key: Key) -> str:
    parts = [f"= {_list(key.equal)}"] if key.equal else []
    parts += [f"range {_text(key.range)}"] if key.range is not None else []
    return ", ".join(parts) or "none, every row is met"


def _list(exprs: tuple[Expr, ...]) -> str:
    return ", ".join(to_sql(expr) for expr in exprs)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
