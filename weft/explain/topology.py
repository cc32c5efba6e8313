"""Stage "topology": what is kept where, and what each arriving tuple does, hop by hop.

Each store is described once and called s0, s1, ... after that.
"""

from __future__ import annotations

from collections.abc import Mapping

from weft.explain.figures import Figures, counted
from weft.explain.notices import notices, said
from weft.explain.pages.topology import EdgeFacts, KeepFacts, ProbeFacts, QueryFacts, StoreFacts, TopologyPage, WayFacts
from weft.explain.subject import Subject
from weft.explain.words import JOINED, cells, column, duration, exclusive, expression, expressions
from weft.optimizer.choose import Choice
from weft.topology.model import TIME, Edge, Keep, Key, Probe, Start, Store, Topology

StoreNames = Mapping[str, str]
"""Store -> what the page calls it."""


def topology(subject: Subject) -> TopologyPage:
    """The page."""
    figures = Figures(subject.choose(), subject.lay(), subject.measured)
    plan = figures.topology
    called = {store.id: f"s{i}" for i, store in enumerate(plan.stores)}
    return TopologyPage(
        "topology",
        _kind(plan),
        plan.workers,
        plan.waves,
        (0 if subject.measured is None else subject.measured.batches) if subject.analyze else None,
        tuple(_edge(plan, edge, called) for edge in plan.edges),
        tuple(_store(store, called[store.id], figures) for store in plan.stores),
        tuple(_query(choice, figures, called) for choice in figures.choices),
        notices(figures, analyze=subject.analyze),
    )


# ------------------------------------------------------------------------------------------------ stores


def _edge(plan: Topology, edge: Edge, called: StoreNames) -> EdgeFacts:
    users = {start.id: f"{start.query}.{start.alias}" for start in plan.starts}
    return EdgeFacts(
        edge.stream,
        expressions(edge.filter),
        edge.route,
        expressions(edge.route_key),
        edge.tasks,
        tuple(called[store] for store in edge.stores),
        tuple(users[start] for start in edge.starts),
    )


def _kind(plan: Topology) -> str:
    kinds = [
        "with intermediate results" if plan.keeps else "",
        "on a cube of workers" if any(store.spread for store in plan.stores) else "",
    ]
    return ", ".join(kind for kind in kinds if kind) or "flat"


def _store(store: Store, name: str, figures: Figures) -> StoreFacts:
    age = store.retention
    if age is not None:
        age += exclusive(store.reason)
    return StoreFacts(
        name,
        store.id,
        said(store),
        store.stream or None,
        store.users,
        expressions(store.placement),
        store.tasks,
        age,
        duration(age),
        store.reason,
        expressions(store.filter),
        tuple(column(name) for name in store.columns if name != TIME),
        tuple(_key(key) for key in store.indexes),
        figures.rows(store),
        JOINED if _stays(figures.topology, store) else cells(store.spread),
    )


def _stays(plan: Topology, store: Store) -> bool:
    """Whether joined rows are kept where they are made, whatever they hold: inside a cube."""
    keeps = [keep for keep in plan.keeps if keep.store == store.id]
    return bool(keeps) and not store.placement and store.tasks > 1 and all(keep.route == "local" for keep in keeps)


def _key(key: Key) -> str:
    parts = [f"= {', '.join(expressions(key.equal))}"] if key.equal else []
    parts += [f"range {expression(key.range)}"] if key.range is not None else []
    return ", ".join(parts) or "none, every row is met"


# -------------------------------------------------------------------------------------------------- ways


def _query(choice: Choice, figures: Figures, called: StoreNames) -> QueryFacts:
    starts = [start for start in figures.topology.starts if start.query == choice.name]
    return QueryFacts(
        choice.name,
        counted(choice, figures.seconds(choice)) if choice.informed else None,
        tuple(_way(choice, start, figures, called) for start in starts),
        figures.results(choice),
    )


def _way(choice: Choice, start: Start, figures: Figures, called: StoreNames) -> WayFacts:
    nodes, following = figures.topology.nodes, start.then
    parts: list[ProbeFacts | KeepFacts] = []
    while following:
        found, following = [nodes[name] for name in following], ()
        for node in found:
            if isinstance(node, Keep):
                parts.append(_keep(node, called))
            elif isinstance(node, Probe):
                parts.append(_probe(choice, start.alias, node, figures, called))
                following = node.then
    return WayFacts(start.alias, tuple(parts))


def _keep(keep: Keep, called: StoreNames) -> KeepFacts:
    key = expressions(keep.route_key)
    return KeepFacts("keep", keep.id, called[keep.store], keep.wave, keep.route, key, keep.tasks)


def _probe(choice: Choice, alias: str, probe: Probe, figures: Figures, called: StoreNames) -> ProbeFacts:
    number = int(probe.id.rsplit("/", 1)[1])
    return ProbeFacts(
        "probe",
        probe.id,
        called[probe.store],
        probe.aliases,
        probe.wave,
        probe.route,
        expressions(probe.route_key),
        probe.tasks,
        _asks(probe),
        expressions(probe.residual),
        figures.tuples_in(choice, alias, number),
        figures.matches(choice, alias, number),
    )


def _asks(probe: Probe) -> tuple[str, ...]:
    asks = [f"= {expression(expr)}" for expr in probe.equal]
    asks += [f"{'>' if b.strict else '>='} {expression(b.expr)}" for b in probe.low]
    asks += [f"{'<' if b.strict else '<='} {expression(b.expr)}" for b in probe.high]
    return tuple(asks)
