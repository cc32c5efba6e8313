"""A plan with labels in the place of aliases: what it says no longer depends on how a query calls its relations.

Plans of many queries say the same of the same labels.  `Renamed` has every renamed expression once for all of them, so
that its text, its hash and its columns are worked out once.  Expressions are known by their texts: equal ones may be
written differently (0.0 and -0.0), and names of stores are made of texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from weft.expr.model import Column, Expr, aliases, text_of, transform
from weft.optimizer.graph.layout import Layout
from weft.optimizer.graph.predicates import Equality
from weft.optimizer.lower.groups import travelling
from weft.optimizer.lower.labels import labels
from weft.optimizer.lower.steps import Step
from weft.optimizer.lower.ways import Hop, Keeping, Line, Ways
from weft.query.model import Output, Query
from weft.topology.node import Bound
from weft.topology.spread import with_keys

Rename = Callable[[Expr], Expr]


Renamed = dict[tuple[str, tuple[str, ...]], Expr]
"""(Text of an expression, labels of the aliases in it, by alias) -> the expression over labels."""


def relabel(plan: Ways, renamed: Renamed | None = None) -> Ways:
    """The plan with labels in the place of aliases; `renamed` holds what other plans have renamed."""
    names = labels(plan.query)
    rename = renaming(names, renamed)
    query = _query(plan.query, names, rename)
    return replace(
        plan,
        query=query,
        measures=travelling(query),
        layout=_layout(plan.layout, rename),
        retention={names[alias]: keep for alias, keep in plan.retention.items()},
        stamps={names[alias]: stamp for alias, stamp in plan.stamps.items()},
        lines=_lines(plan.lines, names, rename),
    )


def renaming(names: Mapping[str, str], renamed: Renamed | None = None) -> Rename:
    """A function that renames expressions, and remembers those it has renamed."""
    known: Renamed = {} if renamed is None else renamed
    by_id: dict[int, tuple[Expr, Expr]] = {}

    def one(node: Expr) -> Expr:
        return Column(names[node.alias], node.name, node.type) if isinstance(node, Column) else node

    def rename(expr: Expr) -> Expr:
        if id(expr) not in by_id:
            key = text_of(expr), tuple([names[alias] for alias in sorted(aliases(expr))])
            if key not in known:
                known[key] = transform(expr, one)
            by_id[id(expr)] = (expr, known[key])  # holding the expression keeps its id from being reused
        return by_id[id(expr)][1]

    return rename


def _query(query: Query, names: Mapping[str, str], rename: Rename) -> Query:
    return Query(
        tuple(replace(relation, alias=names[relation.alias]) for relation in query.relations),
        tuple(rename(predicate) for predicate in query.predicates),
        tuple(Output(output.name, rename(output.expr)) for output in query.outputs),
        query.cross_product,
        query.grouping,
        query.subscribers,
        query.late_by,
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
