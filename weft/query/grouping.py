"""What an aggregate query makes of joined rows: groups, numbers for each group, and the rows of the view.

The join below it is a query like any other.  Its outputs are called `#k0`, `#k1`, ... (keys of the groups) and `#x0`,
`#x1`, ... (arguments of aggregates).  The finished columns of a group are its keys `#k0`, ... and the values of its
aggregates `#a0`, `#a1`, ...; outputs and HAVING are expressions over these.

    SELECT o.c AS c, SUM(l.p) / 2 AS half FROM o JOIN l ON ... GROUP BY o.c HAVING COUNT(*) > 1

    join outputs   #k0 = o.c, #x0 = l.p
    aggregates     #a0 = sum(#x0), #a1 = count()
    outputs        c = #k0, half = #a0 / 2            having  #a1 > 1

An argument that is NULL is skipped, as in SQL.  FILTER (WHERE c) is part of the argument: CASE WHEN c THEN x END.
Without GROUP BY there are no keys and one group; it is there from the first batch on, even if nothing was joined.
SELECT DISTINCT has keys and no aggregates: a group never changes, so its row is a result like those of a join.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from typing import Literal as OneOf

import pyarrow as pa

from weft.expr.model import Expr, columns

if TYPE_CHECKING:
    from weft.query.model import Output

Kind = OneOf["count", "sum", "avg", "min", "max", "bool_and", "bool_or", "distinct", "list"]
"""Aggregate functions; "distinct" is COUNT(DISTINCT x), "list" has all values that are not NULL, in any order."""


START = pa.timestamp("us")
"""The type of a key that is the start of a window."""


def key_field(place: int) -> str:
    """The name of a key of groups."""
    return f"#k{place}"


def argument_field(place: int) -> str:
    """The name of an argument of aggregates."""
    return f"#x{place}"


def value_field(place: int) -> str:
    """The name of the value of an aggregate."""
    return f"#a{place}"


OP = "#op"
"""Name of the column that says what happened to a row of a view: insert, update, delete or final."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A number for every group."""

    kind: Kind
    argument: str | None
    """An output of the join; None for COUNT(*)."""
    type: pa.DataType
    """The type of its value."""


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """A key that is a window of event time: the time in the join's output becomes the start of each of its windows."""

    key: str
    length: int
    slide: int
    """Both in microseconds; equal for tumbling windows.  Windows begin at multiples of `slide` since 1970."""


@dataclass(frozen=True, slots=True)
class Closing:
    """A key that is an event time: the group is final once the watermark is later than it by more than a length."""

    key: str
    length: int
    """In microseconds."""
    step: int = 1
    """Microseconds in one step of the key."""


Comparison = OneOf[">=", ">", "<=", "<"]
"""How the time of a row is compared with those of versions."""
EVER = 1 << 60
"""As many microseconds as no stream lasts."""
FROM, TO = "#from", "#to"
"""Columns of a version: the first and the last time at which it is the one to be met."""


@dataclass(frozen=True, slots=True)
class Versions:
    """Rows of a group are versions, one after the other by their times."""

    keys: tuple[str, ...]
    time: str
    """Columns of a SELECT, or outputs of a join."""
    comparison: Comparison
    """What a time must be to the time of a version that it meets."""
    until: int | None = None
    """If rows look versions up only once they are final: how many microseconds before the watermark of the last batch
    the earliest of them may be.  Versions that ended before are forgotten.  None if all are kept, and may change."""
    step: int = 1
    """Microseconds in one step of a time that is a whole number."""
    gone: str | None = None
    """A column that says that nothing is met from this time on."""
    order: tuple[str, ...] = ()
    """Columns that say which of several rows with one time is the last; without any, the greatest one counts."""


RankKind = OneOf["row_number", "rank", "dense_rank"]
"""How the rows of a group are numbered; they differ in what rows get that stand at the same place."""


@dataclass(frozen=True, slots=True)
class Sorted:
    """A column by which rows are ordered."""

    column: str
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class Ranking:
    """The rows of a group are in the view, each with its number: the only value of a group is `#a0`.

    Rows that the order does not tell apart are ordered by all their columns, so the answer depends on the rows alone.
    """

    kind: RankKind
    order: tuple[Sorted, ...]
    """Outputs of the join."""
    most: int | None = None
    """The greatest number that anyone reads; None if all are."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """How joined rows become groups, and groups become rows of the view."""

    keys: tuple[str, ...]
    """Outputs of the join that name a group; NULL is a value like any other here."""
    aggregates: tuple[Aggregate, ...]
    outputs: tuple[Output, ...]
    """Columns of the view, over the finished columns of a group."""
    having: Expr | None = None
    """Which groups are in the view, over the same columns; None means all."""
    window: TimeWindow | None = None
    changing: bool = field(default=False, repr=False)
    """Whether joined rows may be taken back.  The streams say so: it is no part of what names the groups."""
    multiset: bool = field(default=False, repr=False)
    """Whether a group is in the view as often as it counts: it is a joined row with all its columns."""
    closing: Closing | None = field(default=None, repr=False)
    """When a group is final, if its row comes only then; None if rows come at once."""
    grows: str | None = field(default=None, repr=False)
    """The output that says how often the row of a group counts, if that never falls and nothing else changes."""

    latest: bool = field(default=False, repr=False)
    """Whether a group is a key, whose last row is in the view (`weft.query.upserts`)."""
    ranking: Ranking | None = field(default=None, repr=False)
    """How the rows of a group are numbered, if its rows are in the view (`weft.query.ranking`)."""

    versions: Versions | None = field(default=None, repr=False)
    """How the rows of a group follow each other, if each of them is in the view with its times (`weft.query.versions`).
    None for other groups."""

    @property
    def is_distinct(self) -> bool:
        """Whether the row of a group never changes once it is there."""
        return bool(self.keys) and not self.aggregates and not self.changing and self.ranking is None

    @property
    def is_named(self) -> bool:
        """Whether the row of a group says its keys and nothing else: it comes and leaves, and is never another."""
        read = {column.field for output in self.outputs for column in columns(output.expr)}
        return not self.keeps_rows and read <= set(self.keys)

    @property
    def keeps_rows(self) -> bool:
        """Whether groups keep whole rows instead of numbers."""
        return self.latest or self.ranking is not None or self.versions is not None

    @property
    def can_leave(self) -> bool:
        """Whether a group may leave the view."""
        return self.having is not None or self.changing

    @property
    def named_by(self) -> tuple[str, ...]:
        """The keys that changes of the view have beside its columns; the columns of a joined row name it already."""
        return () if self.multiset else self.keys

    @property
    def schema(self) -> pa.Schema:
        """Schema of the view."""
        return pa.schema([(output.name, output.expr.type) for output in self.outputs])

    def changes_schema(self, joined: tuple[Output, ...]) -> pa.Schema:
        """Schema of what a batch changes, given the outputs of the join: a row of the view, its keys, what happened."""
        types = {output.name: output.expr.type for output in joined} | ({self.window.key: START} if self.window else {})
        return pa.schema([*self.schema, *((name, types[name]) for name in self.named_by), (OP, pa.string())])
