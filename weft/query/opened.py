"""A SELECT whose names were looked up: a tree of joins over sources, and the expressions over them.

What must hold: every source of the tree has an alias of its own, and every column says whose it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal as OneOf
from typing import Protocol

import pyarrow as pa

from weft.expr.model import Column, Expr
from weft.query.aggregates import calls_aggregate
from weft.query.draft import Condition, Draft, Item, Source, Star
from weft.query.scope import Scope


@dataclass(frozen=True, slots=True)
class EventTime:
    """The event time of a source."""

    column: str
    step: int | None
    """Microseconds in one step of a whole number; None if it is a time of its own."""


class Known(Protocol):
    """What is known of the streams and tables of a SELECT."""

    def columns(self, source: Source) -> Mapping[str, pa.DataType]:
        """The columns of a table factor of FROM."""

    def event_time(self, source: Source) -> EventTime | None:
        """Its event time; None if it has none, or is more than one stream."""

    def versions_by(self, source: Source) -> pa.DataType | None:
        """The type of the event time of a table that has versions; None if it has none."""

    def is_now(self, sources: tuple[Source, ...], expr: Expr) -> bool:
        """Whether an expression over some sources is the time of the batch."""

    def is_table(self, source: Source) -> bool:
        """Whether it is a table."""

    def is_final(self, source: Source) -> bool:
        """Whether rows meet the same of it whenever they look it up; of a stream, whether it looks nothing up."""

    def reach(self, draft: Draft, alias: str) -> int | None:
        """By how many microseconds the last partner of a row may be newer than the row; None if there is no bound."""


Kind = OneOf["inner", "left", "full", "semi", "anti", "mark", "where"]


@dataclass(frozen=True, slots=True)
class Node:
    """A join of two parts, or conditions on one."""

    kind: Kind
    left: Part
    right: Part | None
    on: tuple[Condition, ...] = ()
    mark: Column | None = None
    """Of a mark: the column that says whether a row of the left side has a partner."""
    asof: bool = False
    """Whether a row of the left side meets only the nearest row of the right side."""
    scope: Scope | None = field(default=None, compare=False, repr=False)
    """What its conditions see, and subqueries in them; None where that is what the query sees."""


Part = Node | Source


def sources_of(part: Part | None) -> Iterator[Source]:
    """All table factors of a part."""
    if isinstance(part, Source):
        yield part
    elif part is not None:
        yield from (*sources_of(part.left), *sources_of(part.right))


def shown_sources(part: Part | None) -> Iterator[Source]:
    """The table factors whose rows are in those of a part: partners that only decide about them are not."""
    if isinstance(part, Source):
        yield part
    elif part is not None:
        yield from shown_sources(part.left)
        yield from shown_sources(part.right) if part.kind not in ("semi", "anti", "mark") else ()


def padded_sources(part: Part | None) -> Iterator[Source]:
    """The table factors that a join in a part may pad."""
    if isinstance(part, Node):
        left, right = part.kind == "full", part.kind in ("left", "full")
        yield from sources_of(part.left) if left else padded_sources(part.left)
        yield from sources_of(part.right) if right else padded_sources(part.right)


def conditions_of(part: Part | None) -> Iterator[Condition]:
    """All conditions of joins in a part."""
    if isinstance(part, Node):
        yield from (*conditions_of(part.left), *conditions_of(part.right), *part.on)


@dataclass(frozen=True, slots=True)
class Opened:
    """A SELECT with its names looked up."""

    part: Part
    where: tuple[Condition, ...]
    items: tuple[Item, ...]
    group_by: tuple[Condition, ...]
    having: tuple[Condition, ...]
    scope: Scope
    draft: Draft

    @property
    def is_grouped(self) -> bool:
        """Whether rows of the join are made groups."""
        return self.draft.distinct or self.has_aggregates

    @property
    def has_aggregates(self) -> bool:
        """Whether outputs are those of groups: made of keys and aggregates alone."""
        return bool(self.group_by or self.having) or any(
            calls_aggregate(item.expr) for item in self.items if not isinstance(item.expr, Star | str)
        )
