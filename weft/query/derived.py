"""Derived streams: what a query reads of another one in the same batch.

    SELECT ... FROM (SELECT k, SUM(v) AS s FROM a GROUP BY k) d JOIN c ON ...

A derived stream is the union (UNION ALL) of the results of its branches.  A plain join in FROM is not one: it is put in
place (`weft.query.resolve`).  What groups rows, tells them apart, unites several SELECTs or says how often rows count
becomes one.

What must hold: a branch reads streams, tables, views and derived streams that come before its own, by name.  All
branches have the same number of columns, of types that fit; names are those of the first branch.  The rows of an
aggregate branch are its changes: the row of a group that changed with weight -1, its new row with weight +1.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.query.draft import Draft


@dataclass(frozen=True, slots=True)
class Closes:
    """A row of a group comes once, when no more rows can come to the group."""

    column: str
    """An event time among the keys of the group, by its name in the SELECT list."""
    length: int = 0
    """The group is final once the watermark is later than the event time plus these microseconds."""


@dataclass(frozen=True, slots=True)
class Derived:
    """A derived stream as a query states it, before names are looked up."""

    name: str
    """Unique within the query that states it, such as "#1"."""
    branches: tuple[Draft, ...]
    """What it is the union of."""
    times: str | None = None
    """A whole-number column of all branches that says how often each row counts; it is not a column of the stream."""
    closes: Closes | None = None
    """None if rows come at once, and are taken back when they change."""
