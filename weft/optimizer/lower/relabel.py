"""A plan with labels in the place of aliases: what it says no longer depends on how a query calls its relations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from weft.expr.model import Column, Expr, transform
from weft.optimizer.graph.layout import Layout
from weft.optimizer.graph.predicates import Equality
from weft.optimizer.lower.labels import labels
from weft.optimizer.lower.steps import Step
from weft.optimizer.lower.ways import Hop, Keeping, Line, Ways
from weft.query.model import Output, Query
from weft.topology.model import Bound
from weft.topology.spread import Cube, Regions, Spread

Rename = Callable[[Expr], Expr]


def relabel(plan: Ways) -> Ways:
    """The plan with labels in the place of aliases."""
    names = labels(plan.query)
    rename = renaming(names)
    return replace(
        plan,
        query=_query(plan.query, names, rename),
        layout=_layout(plan.layout, rename),
        retention={names[alias]: keep for alias, keep in plan.retention.items()},
        stamps={names[alias]: stamp for alias, stamp in plan.stamps.items()},
        lines=_lines(plan.lines, names, rename),
    )


def renaming(names: Mapping[str, str]) -> Rename:
    """A function that renames expressions, and remembers those it has renamed."""
    known: dict[int, tuple[Expr, Expr]] = {}

    def one(node: Expr) -> Expr:
        return Column(names[node.alias], node.name, node.type) if isinstance(node, Column) else node

    def rename(expr: Expr) -> Expr:
        if id(expr) not in known:
            known[id(expr)] = (expr, transform(expr, one))  # holding the expression keeps its id from being reused
        return known[id(expr)][1]

    return rename


def _query(query: Query, names: Mapping[str, str], rename: Rename) -> Query:
    return Query(
        tuple(replace(relation, alias=names[relation.alias]) for relation in query.relations),
        tuple(rename(predicate) for predicate in query.predicates),
        tuple(Output(output.name, rename(output.expr)) for output in query.outputs),
        query.cross_product,
    )


def _layout(layout: Layout, rename: Rename) -> Layout:
    return replace(
        layout,
        placement={store: tuple(map(rename, home)) for store, home in layout.placement.items()},
        spread={store: with_keys(spread, rename) for store, spread in layout.spread.items()},
        ranges=tuple(map(rename, layout.ranges)),
        lines={
            line: tuple((store, tuple(map(rename, home))) for store, home in targets)
            for line, targets in layout.lines.items()
        },
    )


def with_keys(spread: Spread, change: Rename) -> Spread:
    """The spread with other expressions for its keys."""
    if isinstance(spread, Regions):
        return replace(spread, key=change(spread.key))
    return Cube(tuple(axis if axis.key is None else replace(axis, key=change(axis.key)) for axis in spread.axes))


def _lines(lines: tuple[Line, ...], names: Mapping[str, str], rename: Rename) -> tuple[Line, ...]:
    hops = {id(hop): _hop(hop, names, rename) for line in lines for hop in line.hops}  # lines may begin alike
    return tuple(
        Line(
            names[line.start],
            line.goal,
            tuple(hops[id(hop)] for hop in line.hops),
            line.keep and _keep(line.keep, rename),
        )
        for line in lines
    )


def _hop(hop: Hop, names: Mapping[str, str], rename: Rename) -> Hop:
    home, key = tuple(map(rename, hop.home)), tuple(map(rename, hop.route_key))
    return Hop(_step(hop.step, names, rename), hop.store, home, hop.route, key, hop.tasks, hop.wave)


def _keep(keep: Keeping, rename: Rename) -> Keeping:
    return replace(keep, home=tuple(map(rename, keep.home)), route_key=tuple(map(rename, keep.route_key)))


def _step(step: Step, names: Mapping[str, str], rename: Rename) -> Step:
    return Step(
        frozenset(names[alias] for alias in step.target),
        tuple(Equality(rename(e.target), rename(e.known)) for e in step.equalities),
        None if step.range is None else rename(step.range),
        tuple(_bound(bound, rename) for bound in step.low),
        tuple(_bound(bound, rename) for bound in step.high),
        tuple(map(rename, step.residual)),
        tuple(map(rename, step.also)),
    )


def _bound(bound: Bound, rename: Rename) -> Bound:
    return replace(bound, expr=rename(bound.expr))
