"""What all alternatives have in common is taken out, and the condition stays the same."""

from __future__ import annotations

import itertools

import pyarrow as pa

from weft.expr.evaluate import evaluate
from weft.expr.factor import factored
from weft.expr.model import Call, Column, Expr
from weft.expr.render import to_sql
from weft.expr.typing import add_types
from weft.sql import parse_expression

VALUES = [None, 0, 1]
ROWS = pa.RecordBatch.from_pylist(
    [{"t.a": a, "t.b": b, "t.c": c} for a, b, c in itertools.product(VALUES, VALUES, VALUES)],
    pa.schema([("t.a", pa.int64()), ("t.b", pa.int64()), ("t.c", pa.int64())]),
)


def read(text: str) -> Expr:
    def typed(node: Expr) -> Expr:
        if isinstance(node, Column):
            return Column("t", node.name, pa.int64())
        return Call(node.op, tuple(map(typed, node.args)), node.type) if isinstance(node, Call) else node

    return add_types(typed(parse_expression(text)))


def factor(text: str) -> list[str]:
    whole = read(text)
    found = factored(whole)
    same = Call("and", found, pa.bool_())
    assert evaluate(whole, ROWS, {}).equals(evaluate(same, ROWS, {})), text
    return [to_sql(part) for part in found]


def test_common_parts_of_alternatives_stand_alone() -> None:
    assert factor("a = b AND c = 1 OR a = b AND c = 0") == ["t.a = t.b", "t.c = 1 OR t.c = 0"]
    assert factor("(a = b AND c = 1) OR (c = 0 AND a = b) OR (a = 1 AND a = b)")[0] == "t.a = t.b"
    assert factor("a = b OR (a = b AND c = 1)") == ["t.a = t.b"]


def test_what_is_not_common_or_may_fail_stays() -> None:
    assert len(factor("a = b OR c = 1")) == 1
    assert len(factored(read("(c % a = 1 AND b = 1) OR (c % a = 1 AND b = 0)"))) == 1
