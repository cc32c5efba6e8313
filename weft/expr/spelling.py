"""One spelling for expressions that are written differently and mean the same.

    b.k = a.k, a.k = b.k            the side that stands first in the query, on the left; a constant on the right
    b.x > a.y, a.y < b.x            turned with its sides
    q AND p, p AND q, x IN (2, 1)   in the order of their places and texts

Types are kept, and nothing is computed.  What must hold: two conditions with one spelling have the same answer.  A part
of AND or OR that may fail keeps its place, since those before it may guard it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Protocol, runtime_checkable

from weft.expr.model import Call, Column, Expr, Literal, Udf, aliases, conjuncts, text_of, transform
from weft.expr.render import to_sql
from weft.expr.safe import cannot_fail


@runtime_checkable
class Sketched(Protocol):
    """A constant of many spellings, such as a subquery."""

    @property
    def sketch(self) -> str:
        """The same for all of its spellings; what differs may have the same, too."""


Places = Mapping[str, int]
"""Alias -> where it stands in a query.  What has no place comes last, by its name."""
NOWHERE: Places = MappingProxyType({})
_TURNED = {"=": "=", "<>": "<>", "same": "same", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_UNORDERED = ("and", "or")


def spell(conditions: Iterable[Expr]) -> str:
    """A conjunction as checkpoints note it: whatever its aliases' places are, and with < alone.

    >>> from weft.expr.model import Column
    >>> a, b = Column("a", "k"), Column("b", "k")
    >>> spell([Call(">", (b, a)), Call("=", (b, a))])
    'a.k < b.k AND a.k = b.k'
    """
    parts = (part for condition in conditions for part in conjuncts(condition))
    return " AND ".join(sorted({to_sql(transform(part, _with_less)) for part in parts}))


def normal(expr: Expr, places: Places = NOWHERE) -> Expr:
    """The expression in its one spelling.

    >>> from weft.expr.model import Column
    >>> a, b = Column("a", "k"), Column("b", "k")
    >>> to_sql(normal(Call("<", (Literal(1), Call("+", (b, a)))))), to_sql(normal(Call(">", (b, a)), {"b": 0, "a": 1}))
    ('b.k + a.k > 1', 'b.k > a.k')
    """
    return transform(expr, lambda node: _normal(node, places))


Order = tuple[bool, float, str, str]


def order(expr: Expr, places: Places = NOWHERE) -> Order:
    """Where an expression stands among others: by the place of what it reads, constants last.

    Expressions that differ stand at different places.
    """

    def placed(node: Expr) -> Expr:
        if isinstance(node, Column) and node.alias in places:
            return Column(f"#{places[node.alias]:06}", node.name, node.type)
        return replace(node, name=node.name.lower()) if isinstance(node, Udf) else node

    def sketched(node: Expr) -> Expr:
        return Literal(node.value.sketch) if isinstance(node, Literal) and isinstance(node.value, Sketched) else node

    first = min((places.get(alias, float("inf")) for alias in aliases(expr)), default=float("inf"))
    text = transform(expr, placed)
    return isinstance(expr, Literal), first, text_of(transform(text, sketched)), text_of(text)


def _normal(node: Expr, places: Places) -> Expr:
    if not isinstance(node, Call):
        return node
    if node.op in _TURNED:
        one, other = node.args
        sides = order(one, places), node.op
        turned = (order(other, places), _TURNED[node.op]) < sides
        return Call(_TURNED[node.op], (other, one), node.type, node.span) if turned else node
    if node.op in _UNORDERED and all(map(cannot_fail, node.args)):
        return Call(node.op, tuple(sorted(node.args, key=lambda arg: order(arg, places))), node.type, node.span)
    if node.op == "in" and all(isinstance(arg, Literal) for arg in node.args[1:]):
        return Call(node.op, (node.args[0], *sorted(node.args[1:], key=text_of)), node.type, node.span)
    return node


def turned(expr: Expr) -> tuple[Expr, ...]:
    """A comparison as it may be written: from either side."""
    if isinstance(expr, Call) and expr.op in _TURNED:
        return expr, Call(_TURNED[expr.op], expr.args[::-1], expr.type)
    return (expr,)


def _with_less(node: Expr) -> Expr:
    if not isinstance(node, Call):
        return node
    if node.op in (">", ">="):
        return Call(_TURNED[node.op], node.args[::-1], node.type)
    if node.op in ("=", "<>", *_UNORDERED):
        return Call(node.op, tuple(sorted(node.args, key=to_sql)), node.type)
    return node
