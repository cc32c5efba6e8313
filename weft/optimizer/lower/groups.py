"""The last part of an aggregate query: its emit adds joined tuples up in counted stores that belong to it alone.

Groups are dealt to all workers by a code of their keys.  All parts of a batch arrive in the last wave, so that a view
changes once in a batch.  Where the plan makes all joined tuples of a group on one worker anyway, the group lives there:
its parts are not sent.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from weft.expr.model import Column, Expr, aliases, columns, text_of, transform, without_alias
from weft.expr.safe import cannot_fail
from weft.optimizer.lower.labels import digest, predicate_text, shorten
from weft.optimizer.lower.ways import Ways
from weft.query.changes import GONE, ORDER
from weft.query.grouping import Grouping
from weft.query.model import HASH, PAIR, TIME, Query
from weft.topology.clock import NEVER_LATE, Clock, Policy
from weft.topology.measures import extremes, parts, travelling_name, valued
from weft.topology.node import SHOWN, Emit, Groups, Measure, Route
from weft.topology.spread import Axis, Cube, Spread
from weft.topology.store import Key, Store

OWNER = Column("", HASH, pa.int64())


def travelling(query: Query) -> dict[str, tuple[Measure, ...]]:
    """Relation -> numbers of its rows that travel with tuples instead of the columns that aggregates read.

    An argument of one relation becomes numbers as soon as a row of the relation is met.  Others are worked out at the
    end, and so are values that are counted, which must be told apart until then, and arguments that may fail, which
    must not be asked of rows that join nothing.
    """
    grouping, found = query.grouping, dict[str, tuple[Measure, ...]]()
    exprs = {output.name: output.expr for output in query.outputs}
    for part in () if grouping is None else parts(grouping, {name: expr.type for name, expr in exprs.items()}):
        expr = exprs[part.argument]
        if len(aliases(expr)) == 1 and part.number != "values" and cannot_fail(expr):
            label, name = min(aliases(expr)), travelling_name(part.number, expr)
            found[label] = (*found.get(label, ()), Measure(name, part.number, expr))
    return found


def fields_at_end(plan: Ways) -> tuple[str, ...]:
    """Fields that an emit reads; at least one, so that rows are counted."""
    query, moved = plan.query, {m.expr for found in plan.measures.values() for m in found}
    counted = set() if query.grouping is None else {*query.grouping.keys, *valued(query.grouping)}
    read = (o.expr for o in query.outputs if o.name in counted or o.expr not in moved)
    found = sorted({column.field for expr in read for column in columns(expr)})
    return tuple(found) or (f"{query.aliases[0]}.{query.relations[0].stream.schema.names[0]}",)


def with_groups(emit: Emit, plan: Ways) -> Emit:
    """The emit of a query with what is made of its tuples; its wave is set when all waves are known."""
    grouping = plan.query.grouping
    if grouping is None:
        return emit
    clock = window_clock(plan)
    stream = _timed_stream(plan, grouping)
    values = tuple((name, f"{_name(plan)}-values-{digest(_content(plan), name)}") for name in valued(grouping))
    shown = f"{_name(plan)}-shown-{_content(plan)}" if emit.into and _adds_floats(plan) else ""
    groups = Groups(_name(plan, _content(plan)), grouping, clock.id if clock else "", stream, values, shown)
    route: Route = "key" if (home := _home(plan)) == OWNER else "local"
    return replace(emit, groups=groups, route=route, route_key=(home,), tasks=plan.workers)


def _home(plan: Ways) -> Column:
    """What decides on which worker a group lives: a key by which the tuples of the group lie together, else its code.

    Tuples lie together by the values of a cube's only axis if these are dealt by their hash alone, and to all workers:
    a group that moves with a change of plan goes to the worker that the hash names among them all.  Relations that are
    joined by equality own the axis, so that no value of a tuple is NULL; all others are copied along it.  The time of a
    window is no such key: a window holds many times.
    """
    grouping = plan.query.grouping
    axes = {label: _only_axis(spread, plan.workers) for label, spread in plan.spreads.items()}
    kinds = [axis.kind if axis is not None else "none" for axis in axes.values()]
    if grouping is None or kinds.count("hash") < 2 or not {*kinds} <= {"hash", "copy"}:
        return OWNER
    keys = {*grouping.keys} - ({grouping.window.key} if grouping.window is not None else set())
    exprs = {output.name: output.expr for output in plan.query.outputs if output.name in keys}
    for name, expr in exprs.items():
        axis = axes[min(aliases(expr))] if len(aliases(expr)) == 1 else None
        if axis is not None and axis.key is not None and without_alias(expr) == axis.key:
            return Column("", name, expr.type)
    return OWNER


def _only_axis(spread: Spread, workers: int) -> Axis | None:
    """The axis of a cube that has no other, if it is as long as there are workers, and no value has some of its own."""
    if not isinstance(spread, Cube) or len(spread.axes) != 1:
        return None
    [axis] = spread.axes
    return None if axis.domain or axis.heavy or axis.size != workers else axis


def group_stores(emit: Emit, plan: Ways) -> tuple[Store, ...]:
    """The stores of an aggregate query's groups, and of the different values that it counts."""
    groups = emit.groups
    if groups is None:
        return ()
    timed = (TIME,) if groups.clock and not groups.grouping.keeps_rows else ()
    kept = groups.grouping.keys
    if groups.grouping.keeps_rows:
        unused = (ORDER, GONE) if groups.grouping.latest else ()
        kept = tuple(output.name for output in emit.outputs if output.name not in unused)
    made = [_store(plan, groups, groups.store, (*kept, HASH, *timed), HASH)]
    searched = {part.argument for part in extremes(groups.grouping)}
    for argument, name in groups.values:
        columns = (*groups.grouping.keys, HASH, *timed, argument, PAIR)
        made.append(_store(plan, groups, name, columns, PAIR, *([HASH] if argument in searched else [])))
    if groups.shown:
        outputs = tuple(f"{SHOWN}{place}" for place in range(len(groups.grouping.outputs)))
        made.append(_store(plan, groups, groups.shown, (*groups.grouping.keys, HASH, *timed, *outputs), HASH))
    return tuple(made)


def _adds_floats(plan: Ways) -> bool:
    """Whether the row of a group depends on the order in which its rows are added up."""
    grouping = plan.query.grouping
    assert grouping is not None
    types = {output.name: output.expr.type for output in plan.query.outputs}
    return any(part.number in ("float", "finite") for part in parts(grouping, types))


def _store(plan: Ways, groups: Groups, name: str, columns: tuple[str, ...], *indexes: str) -> Store:
    content, home = digest(name, _content(plan)), _home(plan)
    place = (content, plan.workers) if home == OWNER else (content, plan.workers, text_of(home))
    labels = tuple(sorted(plan.query.aliases, key=lambda label: plan.stamps[label]))
    clocks = (groups.clock or NEVER_LATE,)
    expiry = ((groups.clock, 0),) if TIME in columns else ()
    by = tuple(Key((Column("", code, pa.int64()),)) for code in indexes)
    why = "until no more rows can come to it" if groups.grouping.closing else "until its window is closed"
    why = why if expiry else "until no row can meet it" if groups.clock else "full history"
    return Store(
        name, "", (), columns, (home,), by, expiry, why,
        (f"{plan.name}.groups",), plan.workers, labels, (), None, digest(*place), 0, clocks, content,
        "groups",
    )  # fmt: skip


def window_clock(plan: Ways, policy: Policy = "min") -> Clock | None:
    """The clock that closes groups: that of all streams of the query that have an event time."""
    grouping = plan.query.grouping
    if grouping is None or (grouping.window is None and grouping.closing is None and not _forgets(grouping)):
        return None
    if plan.query.late_by:
        return Clock(f"clock-{digest(plan.query.late_by)}", plan.query.late_by, policy)
    timed = {r.stream.name: r.stream.lateness for r in plan.query.relations if r.stream.event_time is not None}
    streams = tuple(sorted(timed.items()))
    return Clock(f"clock-{digest(streams)}", streams, policy)


def _forgets(grouping: Grouping) -> bool:
    """Whether versions are forgotten as the watermark goes on."""
    return grouping.versions is not None and grouping.versions.until is not None


def _timed_stream(plan: Ways, grouping: Grouping) -> str:
    if grouping.closing is not None:
        return plan.query.late_by[0][0]
    if grouping.window is None:
        return ""
    found = {output.name: output.expr for output in plan.query.outputs}[grouping.window.key]
    return plan.query.relation(min(aliases(found))).stream.name


def _name(plan: Ways, content: str = "") -> str:
    return f"{shorten(plan.name)}-groups" + (f"-{content}" if content else "")


def _content(plan: Ways) -> str:
    """What decides the groups of a query.  Labels are no part of it: another plan may have others for the same rows."""
    query = plan.query
    places = {relation.alias: str(place) for place, relation in enumerate(query.relations)}

    def placed(node: Expr) -> Expr:
        return Column(places[node.alias], node.name, node.type) if isinstance(node, Column) else node

    asked = sorted(predicate_text(transform(predicate, placed)) for predicate in query.predicates)
    made = [(output.name, text_of(transform(output.expr, placed))) for output in query.outputs]
    joined = [(relation.stream.name, relation.window, relation.since) for relation in query.relations]
    closed = (query.late_by, query.grouping and query.grouping.closing) if query.late_by else ()
    more = [] if query.grouping is None else [query.grouping.ranking, query.grouping.versions]
    return digest(plan.name, asked, made, joined, query.grouping, *closed, *(one for one in more if one is not None))
