"""Tables compared as multisets of rows, exactly."""

from __future__ import annotations

import math
from collections import Counter
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


def difference(left: pa.Table, right: pa.Table) -> Difference:
    """Rows that the left table lacks, and rows that it has too many of, compared as multisets."""
    mine, theirs = (Counter(rows_of(table)) for table in (left, right))
    return Difference(theirs - mine, mine - theirs)


def assert_same_rows(left: pa.Table, right: pa.Table, what: str = "") -> None:
    """Fail unless both tables hold the same rows equally often, in any order.

    Floats are compared bit by bit, except that NaN equals NaN; NULL equals NULL.
    """
    if left.schema.names != right.schema.names or left.schema.types != right.schema.types:
        raise AssertionError(f"{what}columns differ:\n  left  {_columns(left)}\n  right {_columns(right)}")
    found = difference(left, right)
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
