"""Outer joins that are inner joins: a condition above them rejects their padded rows.

A condition that is never true where the right side of a LEFT JOIN is NULL lets no padded row through.  Which conditions
count below a join: on the left side of an outer join those above it, on the right side those of its ON, on both sides
of an inner join all of them, below a FULL JOIN none.  What must hold: only rows that no result needs, neither as a part
of it nor as a partner that keeps another row from being padded, are left out.
"""

from __future__ import annotations

from dataclasses import replace

from weft.expr.model import Expr
from weft.query.draft import Condition, Source
from weft.query.nulls import rejects
from weft.query.opened import Kind, Node, Part, sources_of


def simplify(part: Part, above: list[Expr]) -> Part:
    """The tree with outer joins made inner ones where a condition above rejects their padded rows."""
    if isinstance(part, Source):
        return part
    on = [_expr(condition) for condition in part.on]
    if part.right is None:
        return replace(part, left=simplify(part.left, [*above, *on]))
    kind, left, right = _kind(part, part.left, part.right, above)
    for_left = {"inner": [*above, *on], "full": []}.get(kind, above)
    for_right = {"inner": [*above, *on], "full": []}.get(kind, on)
    return replace(part, kind=kind, left=simplify(left, for_left), right=simplify(right, for_right))


def _kind(join: Node, left: Part, right: Part, above: list[Expr]) -> tuple[Kind, Part, Part]:
    """The kind of a join and its sides; a FULL JOIN whose padded right side is rejected is a RIGHT JOIN."""
    if join.kind not in ("left", "full"):
        return join.kind, left, right
    keeps_left, keeps_right = not _rejects(above, right), join.kind == "full" and not _rejects(above, left)
    if keeps_right:
        return ("full", left, right) if keeps_left else ("left", right, left)
    return "left" if keeps_left else "inner", left, right


def _rejects(above: list[Expr], part: Part) -> bool:
    """Whether rows in which this part is padded are rejected."""
    aliases = {source.alias for source in sources_of(part)}
    return rejects(above, lambda column: column.alias in aliases)


def _expr(written: Condition) -> Expr:
    assert not isinstance(written.expr, str)
    return written.expr
