"""One spelling for conditions that are written differently and mean the same.

    b.k = a.k, a.k = b.k      both sides of an equality, parts of AND and OR: in the order of their text
    a.x > b.x, b.x < a.x      written with <

Types are kept, and nothing is computed.  What must hold: two conditions with one spelling have the same answer.
"""

from __future__ import annotations

from collections.abc import Iterable

from weft.expr.model import Call, Expr, conjuncts, transform
from weft.expr.render import to_sql

_TURNED = {">": "<", ">=": "<="}
_SYMMETRIC = ("=", "<>", "and", "or")


def spell(conditions: Iterable[Expr]) -> str:
    """A conjunction in one spelling; a condition that is stated twice counts once.

    >>> from weft.expr.model import Column
    >>> a, b = Column("a", "k"), Column("b", "k")
    >>> spell([Call(">", (b, a)), Call("=", (b, a))])
    'a.k < b.k AND a.k = b.k'
    """
    parts = (part for condition in conditions for part in conjuncts(condition))
    return " AND ".join(sorted({to_sql(transform(part, _spell)) for part in parts}))


def _spell(node: Expr) -> Expr:
    if not isinstance(node, Call):
        return node
    if node.op in _TURNED:
        return Call(_TURNED[node.op], node.args[::-1], node.type)
    if node.op in _SYMMETRIC:
        return Call(node.op, tuple(sorted(node.args, key=to_sql)), node.type)
    return node
