"""Stage "topology": what is kept where, and what each arriving tuple does, hop by hop.

Each store is described once and called s0, s1, ... after that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from weft.explain.figures import Figures, period
from weft.explain.notices import notices
from weft.explain.pages.topology import EdgeFacts, KeepFacts, ProbeFacts, QueryFacts, StoreFacts, TopologyPage, WayFacts
from weft.explain.sharing import sharing
from weft.explain.subject import Subject
from weft.explain.subscriptions import indexes_of
from weft.explain.summary import summary
from weft.explain.words import JOINED, call, cells, column, count, duration, expression, expressions, is_exclusive
from weft.expr.model import columns
from weft.optimizer.choose import Choice
from weft.query.model import BATCH, COPY, HASH, NOW, PAIR, TIME
from weft.query.parameters import REMOVED
from weft.stats.keys import with_alias
from weft.topology.model import Edge, Topology
from weft.topology.node import Keep, Probe
from weft.topology.store import Key, Store

Labels = Mapping[str, str]
"""Store -> what the page calls it, or label -> what a query calls the relation."""


def page(subject: Subject) -> TopologyPage:
    """The page."""
    figures = Figures(subject.choose(), subject.lay(), subject.measured)
    plan = figures.topology
    called = figures.called
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
        sharing(figures, analyze=subject.analyze),
        tuple(summary(choice, figures) for choice in figures.choices),
    )


# ------------------------------------------------------------------------------------------------ stores


def _edge(plan: Topology, edge: Edge, called: Labels) -> EdgeFacts:
    users = plan.start_by_id
    return EdgeFacts(
        edge.stream,
        expressions(edge.filter),
        edge.route,
        expressions(edge.route_key),
        edge.tasks,
        tuple(called[store] for store in edge.stores),
        tuple(f"{query}.{alias}" for start in edge.starts for query, alias in users[start].users),
    )


def _kind(plan: Topology) -> str:
    kinds = [
        "joins are kept" if plan.keeps else "",
        "rows are copied over a cube of workers" if any(store.spread for store in plan.stores) else "",
    ]
    return ", ".join(kind for kind in kinds if kind) or "flat: only streams are kept"


def _store(store: Store, name: str, figures: Figures) -> StoreFacts:
    age, names = store.retention, figures.aliases(store)
    if age is not None:
        age += is_exclusive(store.reason)
    return StoreFacts(
        name,
        store.id,
        figures.content(store),
        store.stream or None,
        store.users,
        _placement(store, figures, names),
        store.tasks,
        age,
        duration(age),
        store.reason,
        expressions(store.filter),
        _columns(store, figures, names),
        _indexes(store, figures, names),
        figures.rows(store),
        JOINED if _stays(figures.topology, store) else cells(store.spread),
    )


def _placement(store: Store, figures: Figures, names: Labels) -> tuple[str, ...]:
    """By which values rows are dealt; groups by all their keys, or by the one that their tuples lie together by."""
    if store.counted != "groups":
        return expressions(store.placement, names)
    emit = figures.topology.emit_of[store.users[0].partition(".")[0]]
    if emit.route != "local":
        return ("keys of the groups",)
    made = {output.name: output.expr for output in emit.outputs}
    return expressions([made[column.name] for expr in store.placement for column in columns(expr)], names)


def _indexes(store: Store, figures: Figures, names: Labels) -> tuple[str, ...]:
    if store.ended_by:
        return indexes_of(store, figures.topology)
    return ("= keys of the groups",) if store.counted == "groups" else tuple(_key(key, names) for key in store.indexes)


def _columns(store: Store, figures: Figures, names: Labels) -> tuple[str, ...]:
    """What rows of a store hold; a counted one says so."""
    hidden = (TIME, BATCH, NOW, COPY, HASH, PAIR, REMOVED)
    if store.counted != "groups":
        shown = tuple(column(name, names) for name in store.columns if name not in hidden)
        return (*shown, *_counted(store)) if store.counted else shown
    emit = figures.topology.emit_of[store.users[0].partition(".")[0]]
    made = {output.name: output.expr for output in emit.outputs}
    keys = [name for name in store.columns if name not in hidden]
    groups = emit.groups
    if groups is not None and store.id == groups.shown:
        told = [f"{output.name} as it was shown" for output in groups.grouping.outputs]
        return (*expressions([made[name] for name in keys if name in made], names), *told)
    if groups is None or store.id != groups.store:
        return (*expressions([made[name] for name in keys], names), "count")
    wanted = (("count" if a.argument is None else f"{a.kind} of", a.argument) for a in groups.grouping.aggregates)
    told = [what if of is None else f"{what} {expressions([made[of]], names)[0]}" for what, of in wanted]
    return (*expressions([made[name] for name in keys], names), *dict.fromkeys(["count", *told]))


def _counted(store: Store) -> tuple[str, ...]:
    """What a join that is added up holds beside its columns."""
    told = ("count", f"{count(len(store.measures), 'sum')}") if store.measures else ("count",)
    if store.retention is None:
        return told
    return (*told, "one row for each time of its members, since windows need them")


def _stays(plan: Topology, store: Store) -> bool:
    """Whether joined rows are kept on the worker that makes them, as in a cube."""
    keeps = [keep for keep in plan.keeps if keep.store == store.id]
    return bool(keeps) and not store.placement and store.tasks > 1 and all(keep.route == "local" for keep in keeps)


def _key(key: Key, names: Labels) -> str:
    parts = [f"= {', '.join(expressions(key.equal, names))}"] if key.equal else []
    parts += [f"range{'s' if key.also else ''} {', '.join(expressions(key.ranges, names))}"] if key.ranges else []
    return ", ".join(parts) or "none: every row is read"


# -------------------------------------------------------------------------------------------------- ways


def _query(choice: Choice, figures: Figures, called: Labels) -> QueryFacts:
    return QueryFacts(
        choice.name,
        period(choice, figures.seconds(choice)) if choice.informed else None,
        tuple(way for alias in choice.query.aliases for way in _ways(choice, alias, figures, called)),
        figures.results(choice),
    )


def _ways(choice: Choice, alias: str, figures: Figures, called: Labels) -> Iterator[WayFacts]:
    names = figures.topology.aliases_of(choice.name)
    for number, way in enumerate(figures.ways(choice, alias)):
        if not way:
            continue
        parts = (
            _keep(choice, node, called, names)
            if isinstance(node, Keep)
            else _probe(choice, node, figures, called, names)
            for node in way
        )
        yield WayFacts(alias, tuple(parts), called[way[-1].store] if number else None)


def _keep(choice: Choice, keep: Keep, called: Labels, names: Labels) -> KeepFacts:
    key, others = expressions(keep.route_key, names), _others(choice, keep)
    return KeepFacts("keep", keep.id, called[keep.store], keep.wave, keep.route, key, keep.tasks, others)


def _others(choice: Choice, node: Keep | Probe) -> tuple[str, ...]:
    return tuple(user for user in node.users if user != choice.name)


def _probe(choice: Choice, probe: Probe, figures: Figures, called: Labels, names: Labels) -> ProbeFacts:
    key = figures.topology.store(probe.store).indexes[probe.index]
    return ProbeFacts(
        "probe",
        probe.id,
        called[probe.store],
        tuple(a for a in choice.query.aliases if a in {names[label] for label in probe.members}),
        probe.wave,
        probe.route,
        expressions(probe.route_key, names),
        probe.tasks,
        _asks(probe, key, names),
        (*expressions(probe.residual, names), *_sifted(probe)),
        figures.tuples_in(choice, probe),
        figures.matches(choice, probe),
        _others(choice, probe),
        _candidates(choice, probe, key, names),
    )


def _sifted(probe: Probe) -> tuple[str, ...]:
    """What a tuple is asked before it looks."""
    if probe.sieve is None:
        return ()
    return (f"before: is a subscription left by {count(len(probe.sieve.known), 'dimension')}",)


def _asks(probe: Probe, key: Key, names: Labels) -> tuple[str, ...]:
    """What an index is asked for; of several ranges, each bound says which one it limits."""
    ranges = [f"{text} " if key.also else "" for text in expressions(key.ranges, names)]
    asks = [f"= {asked}" for asked in expressions(probe.equal, names)]
    asks += [
        f"{ranges[b.dimension]}{sign}{'' if b.strict else '='} {expression(call(b.expr, names))}"
        for sign, bounds in ((">", probe.low), ("<", probe.high))
        for b in bounds
    ]
    return tuple(asks)


def _candidates(choice: Choice, probe: Probe, key: Key, names: Labels) -> float | None:
    """The share of rows that several ranges of an index are expected to leave."""
    if not key.also or not choice.informed:
        return None
    alone = names[probe.members[0]] if len(probe.members) == 1 else None
    mine = [call(expr, names) if alone is None else with_alias(alone, expr) for expr in key.ranges]
    shares = [choice.maker.together.get(expr) for expr in mine]
    return None if None in shares else math.prod(share for share in shares if share is not None)
