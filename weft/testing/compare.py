"""Tables compared as multisets of rows: exactly, or with some tolerance for floats, whose sums depend on the order."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

Row = tuple[Any, ...]
SAMPLE = 5
"""Rows shown of each kind of difference."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Rows that one side has more often than the other."""

    missing: Counter[Row]
    """In the right table and not in the left."""
    extra: Counter[Row]
    """In the left table and not in the right."""

    @property
    def empty(self) -> bool:
        """Whether both tables hold the same rows."""
        return not self.missing and not self.extra


def difference(left: pa.Table, right: pa.Table, *, tolerance: float = 0.0) -> Difference:
    """Rows that the left table lacks, and rows that it has too many of, compared as multisets."""
    mine, theirs = (Counter(rows_of(table)) for table in (left, right))
    found = Difference(theirs - mine, mine - theirs)
    if tolerance:
        floating = [at for at, kind in enumerate(left.schema.types) if pa.types.is_floating(kind)]
        _pair_off(found, floating, tolerance)
    return found


def _pair_off(found: Difference, floating: Sequence[int], tolerance: float) -> None:
    """Take out rows that differ only in floats, and there by no more than the tolerance."""
    beside: dict[Row, list[Row]] = defaultdict(list)
    for row in found.extra.elements():
        beside[_others(row, floating)].append(row)
    for row in list(found.missing.elements()):
        near = [other for other in beside[_others(row, floating)] if _is_near(row, other, floating, tolerance)]
        if near:
            beside[_others(row, floating)].remove(near[0])
            found.missing.subtract([row])
            found.extra.subtract([near[0]])
    for rows in (found.missing, found.extra):
        for row in [row for row, count in rows.items() if count == 0]:
            del rows[row]


def _others(row: Row, floating: Sequence[int]) -> Row:
    return tuple(value for at, value in enumerate(row) if at not in floating)


def _is_near(one: Row, other: Row, floating: Sequence[int], tolerance: float) -> bool:
    return all(_near(one[at], other[at], tolerance) for at in floating)


def _near(one: object, other: object, tolerance: float) -> bool:
    if one is None or other is None:
        return one is other
    a, b = float(str(one)), float(str(other))
    return a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)


def assert_same_rows(left: pa.Table, right: pa.Table, what: str = "", *, tolerance: float = 0.0) -> None:
    """Fail unless both tables hold the same rows equally often, in any order.

    Floats are compared bit by bit, except that NaN equals NaN; NULL equals NULL.  With a tolerance, floats may differ
    by that much, or by that part of their size: a sum of floats depends on the order in which they are added.
    """
    if left.schema.names != right.schema.names or left.schema.types != right.schema.types:
        raise AssertionError(f"{what}columns differ:\n  left  {_columns(left)}\n  right {_columns(right)}")
    found = difference(left, right, tolerance=tolerance)
    if not found.empty:
        raise AssertionError(
            f"{what}{left.num_rows} rows instead of {right.num_rows}, "
            f"{found.missing.total()} missing, {found.extra.total()} extra\n"
            f"  columns {', '.join(left.schema.names)}\n"
            + _sample("missing", found.missing)
            + _sample("extra  ", found.extra)
        )


def rows_of(table: pa.Table) -> list[Row]:
    """The rows of a table as values that can be counted; floats are equal iff their bits are."""
    if table.num_columns == 0:
        return [()] * table.num_rows
    return list(zip(*(_values(column) for column in table.columns), strict=True))


def _values(column: pa.ChunkedArray) -> list[Any]:
    values: list[Any] = column.to_pylist()
    return [_exact(value) for value in values] if pa.types.is_floating(column.type) else values


def _exact(value: float | None) -> object:
    """A float as a value that is equal iff the bits are: 0.0 and -0.0 differ, and all NaN are equal."""
    if value is None or (value != 0 and not math.isnan(value)):
        return value
    return "NaN" if math.isnan(value) else "-0.0" if math.copysign(1, value) < 0 else 0.0


def _columns(table: pa.Table) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in table.schema)


def _sample(what: str, rows: Counter[Row]) -> str:
    shown = [f"  {what} {count} x {row}" for row, count in list(rows.items())[:SAMPLE]]
    more = f"\n  ... and {len(rows) - SAMPLE} more" if len(rows) > SAMPLE else ""
    return "\n".join(shown) + more + ("\n" if shown else "")
