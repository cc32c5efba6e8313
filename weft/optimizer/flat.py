"""Flat plans: one store per alias, one probe order per alias, nothing else is kept.

With statistics an order is the one that sends the fewest tuples.  Without, it is chosen by what the next hop
can use: an equality whose store lies on the same
worker, an equality, a band, a bound, any predicate; ties go to the query's own order.  It makes a cross
product only if the query says so.  A store is keyed by the expression through which most of the other
streams' bytes come; where no equality exists, rows are scattered and probes go to every worker.

With one worker everything is local: one wave, one edge per stream and selection.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from weft.errors import PlanError
from weft.expr.model import Expr, aliases, columns
from weft.optimizer.cost import CostModel
from weft.optimizer.estimate import estimate
from weft.optimizer.orders import least_sent
from weft.optimizer.predicates import equality, window_predicates
from weft.optimizer.steps import Step, step
from weft.optimizer.trees import leaves
from weft.query.model import Query
from weft.query.timebounds import retention
from weft.stats.model import Statistics
from weft.topology.model import Route

Sizes = Mapping[str, float]
"""How much comes from each stream, in any unit; a stream that is missing counts as 1."""


@dataclass(frozen=True, slots=True)
class Hop:
    """A step with its way through the workers."""

    step: Step
    route: Route
    route_key: tuple[Expr, ...]
    wave: int
    carry: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """How one query is answered: where each alias lives, and the hops from each alias."""

    name: str
    query: Query
    placement: dict[str, tuple[Expr, ...]]
    """Alias -> expressions (with alias) that name the worker of its rows; empty is anywhere."""
    retention: dict[str, int | None]
    paths: dict[str, tuple[Hop, ...]]

    @property
    def clocked(self) -> bool:
        """Whether anything in this query ever expires, so that late rows have to be refused."""
        return len(self.query.relations) > 1 and any(keep is not None for keep in self.retention.values())


def plan_query(name: str, query: Query, workers: int, sizes: Sizes, statistics: Statistics | None = None) -> QueryPlan:
    """The flat plan of one query."""
    predicates = (*query.joins, *window_predicates(query))
    placement = {r.alias: _placement(query, r.alias, sizes) if workers > 1 else () for r in query.relations}
    orders = _least_sent(query, placement, workers, statistics) if statistics is not None else {}
    paths = {
        alias: _path(query, predicates, placement, (alias, *orders.get(alias, ())), workers) for alias in query.aliases
    }
    return QueryPlan(name, query, placement, retention(query), paths)


def _least_sent(
    query: Query, placement: Mapping[str, tuple[Expr, ...]], workers: int, statistics: Statistics
) -> dict[str, tuple[str, ...]]:
    """Alias -> the other aliases in the order that sends the fewest tuples; nothing if the query is not connected."""
    graph = estimate(query, statistics, parallelism=workers, placement=placement)
    if not graph.connected(graph.all):
        return {}
    orders = least_sent(CostModel(graph), leaves(graph))
    named = [[name for store in order.stores for name in graph.names(store.relations)] for order in orders]
    return {first: tuple(rest) for first, *rest in named}


def _placement(query: Query, alias: str, sizes: Sizes) -> tuple[Expr, ...]:
    weights: dict[Expr, float] = defaultdict(float)
    for predicate in query.joins:
        found = equality(predicate, alias) if alias in aliases(predicate) else None
        if found is not None:
            weights[found.target] += sum(sizes.get(query.relation(a).stream.name, 1.0) for a in aliases(found.known))
    return (max(weights, key=lambda expr: weights[expr]),) if weights else ()


def _path(
    query: Query,
    predicates: Sequence[Expr],
    placement: Mapping[str, tuple[Expr, ...]],
    order: tuple[str, ...],
    workers: int,
) -> tuple[Hop, ...]:
    """Hops from the first alias to all others, each knowing which fields have to live on.

    `order` holds the start, and then either all other aliases or none of them.
    """
    start, *given = order
    bound = frozenset({start})
    located: frozenset[Expr] = frozenset()
    hops: list[Hop] = []
    wave = 1
    while len(bound) < len(query.relations):
        ahead = [given[len(hops)]] if given else [alias for alias in query.aliases if alias not in bound]
        options = [step(query, predicates, bound, alias) for alias in ahead]
        best = min(options, key=lambda s: _grade(query, s, bound, placement, located))
        _refuse_cross_product(query, best, bound)
        route, key = _route(best, placement, located, first=not hops, workers=workers)
        wave += bool(hops) and route != "local"
        located = _whereabouts(best, placement, located, route, key)
        hops.append(Hop(best, route, key, wave))
        bound |= {best.target}
    return _with_carry(query, hops, anchor=f"{start}.{query.relation(start).stream.schema.names[0]}")


def _grade(
    query: Query, s: Step, bound: frozenset[str], placement: Mapping[str, tuple[Expr, ...]], located: frozenset[Expr]
) -> tuple[int, int]:
    if any(_at_home(e.target, e.known, placement[s.target], located) for e in s.equalities):
        kind = 0
    elif s.equalities:
        kind = 1
    elif _connected(query, s.target, bound):
        kind = 2 if s.low and s.high else 3 if s.range is not None else 4
    else:
        kind = 5
    return kind, query.position(s.target)


def _at_home(mine: Expr, known: Expr, placement: tuple[Expr, ...], located: frozenset[Expr]) -> bool:
    return placement == (mine,) and known in located


def _connected(query: Query, target: str, bound: frozenset[str]) -> bool:
    return any(target in aliases(p) and len(aliases(p)) == 2 and aliases(p) & bound for p in query.joins)


def _refuse_cross_product(query: Query, s: Step, bound: frozenset[str]) -> None:
    if query.cross_product or s.equalities or _connected(query, s.target, bound):
        return
    raise PlanError(
        f'no predicate connects "{s.target}" with {", ".join(sorted(bound))}',
        detail="joining them would be a cross product.",
        hint="add a join predicate over two aliases, or pass cross_product=True.",
    )


def _route(
    s: Step, placement: Mapping[str, tuple[Expr, ...]], located: frozenset[Expr], *, first: bool, workers: int
) -> tuple[Route, tuple[Expr, ...]]:
    if workers == 1:
        return "local", ()
    home = placement[s.target]
    for e in s.equalities:
        if home == (e.target,):
            here = not first and e.known in located
            return ("local", ()) if here else ("key", (e.known,))
    return "broadcast", ()


def _whereabouts(
    s: Step,
    placement: Mapping[str, tuple[Expr, ...]],
    located: frozenset[Expr],
    route: Route,
    key: tuple[Expr, ...],
) -> frozenset[Expr]:
    """Expressions of the tuple whose value names the worker it is on, after this step."""
    if route == "broadcast":
        located = frozenset(placement[s.target])
    elif route == "key":
        located = frozenset({*key, *placement[s.target]})
    return _equal_to(located, [(e.target, e.known) for e in s.equalities])


def _equal_to(known: frozenset[Expr], pairs: Sequence[tuple[Expr, Expr]]) -> frozenset[Expr]:
    grown = known | {b for a, b in pairs if a in known} | {a for a, b in pairs if b in known}
    return grown if grown == known else _equal_to(grown, pairs)


def _with_carry(query: Query, hops: Sequence[Hop], anchor: str) -> tuple[Hop, ...]:
    """Cut every hop's fields to what somebody later on the path still reads; never to nothing, rows must be counted."""
    outputs = {c.field for output in query.outputs for c in columns(output.expr)}
    done = _cut(hops, outputs)
    if hops and all(hop.carry for hop in done) and _incoming(done[0]):
        return done
    return _cut(hops, outputs | {anchor})


def _cut(hops: Sequence[Hop], live: set[str]) -> tuple[Hop, ...]:
    done: list[Hop] = []
    for hop in reversed(hops):
        done.append(replace(hop, carry=tuple(sorted(live))))
        live = _incoming(done[-1])
    return tuple(reversed(done))


def _incoming(hop: Hop) -> set[str]:
    """Fields of the incoming tuple that are read by this hop or live on after it."""
    s = hop.step
    exprs = [*hop.route_key, *(e.known for e in s.equalities), *(b.expr for b in (*s.low, *s.high)), *s.residual]
    reads = {c.field for expr in exprs for c in columns(expr) if c.alias != s.target}
    return reads | {f for f in hop.carry if f.split(".", 1)[0] != s.target}


def start_fields(plan: QueryPlan, alias: str) -> frozenset[str]:
    """Fields a tuple of `alias` needs when it starts."""
    hops = plan.paths[alias]
    if hops:
        return frozenset(_incoming(hops[0]))
    reads = {c.field for output in plan.query.outputs for c in columns(output.expr)}
    return frozenset(reads or {f"{alias}.{plan.query.relation(alias).stream.schema.names[0]}"})


def store_columns(plan: QueryPlan, alias: str) -> frozenset[str]:
    """Columns the store of `alias` must hold for all hops that find it."""
    needed: set[str] = set()
    for hops in plan.paths.values():
        for hop in hops:
            if hop.step.target == alias:
                needed |= {f.split(".", 1)[1] for f in hop.carry if f.split(".", 1)[0] == alias}
                needed |= {c.name for expr in _own(hop.step) for c in columns(expr) if c.alias in ("", alias)}
    return frozenset(needed or {plan.query.relation(alias).stream.schema.names[0]})


def _own(s: Step) -> tuple[Expr, ...]:
    key = s.key
    return (*key.equal, *(() if key.range is None else (key.range,)), *s.residual)
