"""WITHIN as conditions on event times.

A window W of `a` says that every other member of a result is less than W newer than its row of `a`:

    b.ts < a.ts + W        for every other b

In a tree with outer joins these conditions belong to the joins: a row of the left side is padded if it has no partner
in time.  So each join compares what stands left of it with what stands right of it, and sources have no window left.
What stands right of a semi or an anti join is no member of a result: joins further out do not see it.

Where a row is absent nothing is compared with it.  `HERE` says whether it is there: its event time may be NULL, too.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from weft.errors import QueryError
from weft.expr.model import Call, Column, Literal
from weft.query.draft import Condition, Source
from weft.query.opened import Known, Part, shown_sources, sources_of

HERE = "#here"
"""A column that every source of a tree has: TRUE, or NULL where its row is absent."""


@dataclass(frozen=True, slots=True)
class InTime(Condition):
    """That two rows are near in time, or one of them is absent."""


def has_windows(part: Part) -> bool:
    """Whether a source of the tree has a window."""
    return any(isinstance(source.within, int) for source in sources_of(part))


def spell_windows(part: Part, known: Known) -> Part:
    """The tree with conditions for windows."""
    if isinstance(part, Source):
        return replace(part, within="unbounded" if isinstance(part.within, int) else part.within)
    if part.right is None:
        return replace(part, left=spell_windows(part.left, known))
    pairs = product(shown_sources(part.left), shown_sources(part.right))
    more = tuple(one for left, right in pairs for one in _between(left, right, known))
    left, right = spell_windows(part.left, known), spell_windows(part.right, known)
    return replace(part, left=left, right=right, on=(*part.on, *more))


def _between(left: Source, right: Source, known: Known) -> Iterator[Condition]:
    for old, new in ((left, right), (right, left)):
        if isinstance(old.within, int):
            found = _condition(old, new, old.within, known)
            if found is not None:
                yield found


def _condition(old: Source, new: Source, window: int, known: Known) -> Condition | None:
    """A row of `new` is less than a window newer than one of `old`."""
    if known.is_table(new):
        return None  # a table is in every window
    mine, other = known.event_time(old), known.event_time(new)
    if mine is None or other is None or mine.step != other.step:
        raise QueryError(
            f'the window of "{old.alias}" cannot be compared with "{new.alias}"',
            detail="beside an outer join or a subquery, windows are between streams with event times of one unit.",
            hint="write the window as a condition: b.ts BETWEEN a.ts AND a.ts + INTERVAL '10' MINUTE.",
            span=old.within_span or old.span,
        )
    length = Literal(dt.timedelta(microseconds=window) if mine.step is None else -(-window // mine.step))
    near = Call("<", (Column(new.alias, other.column), Call("+", (Column(old.alias, mine.column), length))))
    absent = (Call("is_null", (Column(alias, HERE),)) for alias in (old.alias, new.alias))
    return InTime(Call("or", (*absent, near)))
