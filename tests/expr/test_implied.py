"""What follows from what, against rows."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

from weft.expr.evaluate import filter_mask
from weft.expr.implied import Selection, either, implies
from weft.expr.model import Call, Column, Expr, Literal

V, W = (Column("", name, pa.int64()) for name in "vw")
ROWS = pa.RecordBatch.from_pylist(
    [{"v": v, "w": w} for v in (None, 1, 2, 3, 4, 5) for w in (None, 2, 3)],
    pa.schema([("v", pa.int64()), ("w", pa.int64())]),
)


def compare(op: str, column: Expr, value: int, *, turned: bool = False) -> Expr:
    pair = (column, Literal(value, pa.int64()))
    return Call(op, pair[::-1] if turned else pair, pa.bool_())


def call(op: str, *args: Expr) -> Expr:
    return Call(op, args, pa.bool_())


OPS = ("=", "<>", "<", "<=", ">", ">=")
PARTS = [
    *(compare(op, V, value) for op in OPS for value in (2, 3)),
    compare("<", V, 3, turned=True),
    compare("=", W, 2),
    call("not", call("is_null", V)),
    call("is_null", V),
]
SELECTIONS: list[Selection] = [
    (),
    *((part,) for part in PARTS),
    (PARTS[8], PARTS[13]),
    (call("or", PARTS[0], PARTS[13]),),
    (call("or", PARTS[8], call("and", PARTS[4], PARTS[13])),),
]


def passes(chosen: Selection) -> list[bool]:
    found: list[bool] = filter_mask(chosen, ROWS, {}).to_pylist()
    return found


def test_what_is_implied_holds_for_every_row() -> None:
    found = 0
    for one, other in itertools.product(SELECTIONS, repeat=2):
        if implies(one, other):
            found += 1
            assert all(b for a, b in zip(passes(one), passes(other), strict=True) if a), f"{one} implies {other}"
    assert found > 100


def test_constants_of_one_comparison_are_all_understood() -> None:
    """For comparisons of one column, an implication is found whenever it holds over all integers."""
    wide = pa.RecordBatch.from_pydict({"v": pa.array(range(-3, 9), pa.int64())})
    for one, other in itertools.product(PARTS[:12], repeat=2):
        mine, theirs = (filter_mask((part,), wide, {}).to_pylist() for part in (one, other))
        holds = all(b for a, b in zip(mine, theirs, strict=True) if a)
        dense = {"<": "<=", ">": ">="}  # v > 2 is v >= 3 for whole numbers only, which is not used
        if holds and not any(part.op in dense or part.op in dense.values() for part in (one, other)):  # type: ignore[union-attr]
            assert implies((one,), (other,)), f"{one} implies {other}"


@pytest.mark.parametrize("count", [2, 3])
def test_either_lets_through_what_any_of_them_does(count: int) -> None:
    for group in itertools.combinations(SELECTIONS, count):
        wanted = [any(row) for row in zip(*map(passes, group), strict=True)]
        united = either(group)
        assert passes(united) == wanted
        assert all(implies(one, united) for one in group)


def test_other_types_and_values_without_order_imply_nothing() -> None:
    small = Call(">", (V, Literal(2, pa.int32())), pa.bool_())
    assert not implies((compare(">", V, 3),), (small,))
    nan = Call(">", (V, Literal(float("nan"), pa.float64())), pa.bool_())
    assert not implies((nan,), (compare(">", V, 2),))
    assert implies((nan,), (nan,))
