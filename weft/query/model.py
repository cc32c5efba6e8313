"""Queries as plain data, after all names and types are known.

A query joins relations (aliases of streams) by a conjunction of predicates.  Which predicates are
selections on one alias and which join several is read off the aliases they mention; it is not stored.
Times are microseconds.  A window is the *exclusive* bound on the age of a tuple when the newest tuple of
a result arrives (strict rule): newest - time < window.  None is full history.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal as OneOf

import pyarrow as pa

from weft.errors import QueryError, Span
from weft.expr.model import Expr, aliases
from weft.query.changes import Changes
from weft.query.duration import format_duration
from weft.query.grouping import EVER, OP, Grouping
from weft.query.names import suggestion
from weft.query.parameters import Subscribers

TIME = "#t"
"""Name of the hidden column that holds a row's event time in microseconds."""

WEIGHT = "#w"
"""Name of the hidden column that says how often a row counts; where it is absent every row counts once."""

BATCH = "#n"
"""Name of the hidden column that holds the number of the batch in which a row came."""

NOW = "#now"
"""Name of the hidden column that holds the time at which that batch began."""

COPY = "#copy"
"""Name of the hidden column that says whether a row that lies on several workers is a copy of the first one."""

LATE = "#late "
"""Beginning of the names of hidden columns that mark late rows; the rest is the name of a clock."""

HASH = "#h"
"""Name of the hidden column that says which worker owns a group: a code of its keys."""

PAIR = "#p"
"""Name of the hidden column that holds a code of the keys of a group and one of its values."""

MEASURE = "#m "
"""Beginning of the names of hidden columns that hold sums, least and greatest values."""

LONGEST = 2**63 - 2
"""The longest window in microseconds; a closed one is longer by one."""

Unit = OneOf["s", "ms", "us"]
"""Unit of an integer event-time column."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A named input."""

    name: str
    schema: pa.Schema
    event_time: str | None = None
    """Column with the event time; None means the stream takes no part in windows."""
    unit: Unit = "s"
    """What one step of an integer event time is; ignored for timestamps."""
    lateness: int = 0
    """By how many microseconds a row may be older than the newest one and still be accepted."""
    unique: tuple[str, ...] = ()
    """Columns that identify a row, if declared."""
    table: bool = False
    """Whether it is a table: its rows come before those of all streams.  It takes no part in the watermark, and rows of
    streams are not kept to wait for its rows."""
    weight: str | None = None
    """Column that says how often a row counts; None means once."""
    changes: Changes | None = None
    """How rows are taken back; None means never."""
    idle: int | None = None
    """After so many microseconds without a row, others' watermark goes on without the stream; None means never."""
    depth: int = 0
    """0 for an input.  A derived stream is made of streams of lesser depths, in the same batch."""
    made: tuple[Query, ...] = field(default=(), compare=False, repr=False)
    """The queries whose results are the rows of a derived stream.  Its name says what they are."""

    @property
    def rank(self) -> int:
        """What orders the rows of one batch: those of tables, of streams, then of derived streams by depth."""
        return 0 if self.table else 1 + self.depth

    @property
    def is_fixed(self) -> bool:
        """Whether it is a table that never changes: it is read once, by the first batch."""
        return self.table and self.changes is None

    @property
    def is_looked_up(self) -> bool:
        """Whether it is a table that changes: rows of streams meet what is there when they come."""
        return self.table and self.changes is not None

    @property
    def is_final(self) -> bool:
        """Whether it is versions that are looked up when they are final, and all kept: a row always meets the same."""
        made = None if not self.made else self.made[0].grouping
        return made is not None and made.versions is not None and (made.versions.until or 0) >= EVER

    @property
    def source(self) -> pa.Schema:
        """The columns that are read."""
        return self.schema if self.changes is None or self.changes.source is None else self.changes.source

    def __repr__(self) -> str:
        shown = [f"{field.name} {field.type}" for field in self.schema if not field.name.startswith("#")]
        columns = ", ".join(shown[:6]) + (f" and {len(shown) - 6} more columns" if len(shown) > 6 else "")
        late = f", up to {format_duration(self.lateness)} late" if self.lateness else ""
        timed = f"; event time {self.event_time}{late}" if self.event_time else ""
        return f"<{'table' if self.table else 'stream'} {self.name}: {columns}{timed}>"

    def __post_init__(self) -> None:
        _refuse_duplicates(f'column of stream "{self.name}"', self.schema.names, "rename it where it is written.")
        for column in self.schema.names:
            if column in (TIME, WEIGHT, BATCH, NOW, COPY, HASH, PAIR, OP) or column.startswith((LATE, MEASURE)):
                raise QueryError(
                    f'column name "{column}" of stream "{self.name}" is reserved', hint="rename the column."
                )
        if self.table and self.event_time is not None and not (self.changes and self.changes.is_log):
            raise QueryError(
                f'table "{self.name}" has an event time',
                detail="only a table with a key has versions at event times.",
                hint="give it a key, leave event_time out, or declare it as a stream.",
            )
        for named in (self.event_time, self.weight, *self.unique):
            if named is not None and named not in self.schema.names:
                raise QueryError(
                    f'stream "{self.name}" has no column "{named}"',
                    detail=f"its columns are: {', '.join(self.schema.names)}.",
                    hint=suggestion(named, self.schema.names) or "event_time and unique name columns of the stream.",
                )
        if self.event_time is not None:
            kind = self.schema.field(self.event_time).type
            if not (pa.types.is_timestamp(kind) or pa.types.is_integer(kind) or pa.types.is_date(kind)):
                raise QueryError(
                    f'event time "{self.event_time}" of stream "{self.name}" has type {kind}',
                    detail="an event time is a timestamp, a date or an integer column.",
                    hint='for an integer column give its unit: unit="s", "ms" or "us".',
                )
        if self.unit not in ("s", "ms", "us"):
            raise QueryError(f'unit "{self.unit}" is unknown', hint='use "s", "ms" or "us".')
        if self.lateness < 0:
            raise QueryError(f'lateness of stream "{self.name}" is negative', hint="use 0 or a positive duration.")
        if self.idle is not None and (self.idle <= 0 or self.event_time is None):
            raise QueryError(
                f'idle of stream "{self.name}" ' + ("is not positive" if self.idle <= 0 else "needs an event time"),
                detail="it says after how long without rows a stream no longer holds the watermark of others.",
                hint='give a duration such as idle="30 seconds", and event_time.',
            )


@dataclass(frozen=True, slots=True)
class Relation:
    """One alias of a stream in a query."""

    alias: str
    stream: Stream
    window: int | None = None
    """Exclusive age bound in microseconds; None is full history."""
    since: int = 0
    """The first batch whose rows count."""
    apart: int = 0
    """Relations with different numbers share no store: old state may have the columns of each and not of both."""
    span: Span | None = field(default=None, compare=False, repr=False)
    """Where it stands in FROM."""
    inside: tuple[tuple[str, str], ...] = field(default=(), compare=False, repr=False)
    """The derived tables, WITHs and views that it was put in place of, outer ones first: what each is called, for
    people, and its alias in the whole query."""

    def __post_init__(self) -> None:
        if self.window is None:
            return
        if self.window <= 0:
            raise QueryError(f'window of "{self.alias}" is not positive', hint="use WITHIN with a positive interval.")
        if self.window > LONGEST:
            raise QueryError(
                f'window of "{self.alias}" is too long',
                detail="times are 64-bit numbers of microseconds, which is about 292,000 years.",
                hint="leave WITHIN out to keep rows for ever.",
            )
        if self.stream.table:
            raise QueryError(
                f'table "{self.stream.name}" has no window',
                detail="a table is read once, and its rows join whatever comes, whenever it comes.",
                hint=f'leave WITHIN out after "{self.alias}".',
            )
        if self.stream.event_time is None:
            raise QueryError(
                f'stream "{self.stream.name}" has no event time',
                detail=f'alias "{self.alias}" is joined within a window, and a window needs an event time.',
                hint=f'declare it: s.stream("{self.stream.name}", source, event_time="...").',
            )


@dataclass(frozen=True, slots=True)
class Output:
    """One column of the result."""

    name: str
    expr: Expr


@dataclass(frozen=True)
class Query:
    """A multi-way join: relations, a conjunction of predicates, output columns.

    No slots: the optimizer asks for joins and selections thousands of times, so they are cached.
    """

    relations: tuple[Relation, ...]
    predicates: tuple[Expr, ...]
    outputs: tuple[Output, ...]
    cross_product: bool = False
    """Whether parts that no predicate connects may be multiplied."""
    grouping: Grouping | None = None
    """What is made of the joined rows; None if they are the results."""
    subscribers: Subscribers | None = None
    """Whom the joined rows are matched with; None if they are for all."""
    late_by: tuple[tuple[str, int], ...] = ()
    """(Stream, lateness) of the streams whose watermark says which rows are late; its own if there are none."""

    def __post_init__(self) -> None:
        _refuse_duplicates("alias", [relation.alias for relation in self.relations], _NAMED)
        if dotted := [relation.alias for relation in self.relations if "." in relation.alias]:
            raise QueryError(f"alias {dotted[0]!r} has a dot in it", hint="give it another name with AS.")
        made = self.grouping or self.subscribers
        shown = self.outputs if made is None else made.outputs
        _refuse_duplicates("output name", [output.name for output in shown], _NAMED)
        if any(output.name == WEIGHT for output in shown):
            raise QueryError(
                f'output name "{WEIGHT}" is reserved',
                detail="a hidden column of this name says how often a result counts.",
                hint="give the output another name with AS.",
            )
        known = {relation.alias for relation in self.relations}
        for expr in (*self.predicates, *(output.expr for output in self.outputs)):
            if unknown := aliases(expr) - known:
                raise QueryError(f"unknown alias {min(unknown)!r}", detail=f"the query has {', '.join(sorted(known))}.")

    @cached_property
    def aliases(self) -> tuple[str, ...]:
        """All aliases in query order; the place in this order is the alias's position."""
        return tuple(relation.alias for relation in self.relations)

    def relation(self, alias: str) -> Relation:
        """The relation called `alias`."""
        return self.relations[self.position(alias)]

    def position(self, alias: str) -> int:
        """Where `alias` stands in the query."""
        return self.aliases.index(alias)

    def selections(self, alias: str) -> tuple[Expr, ...]:
        """Predicates over `alias` alone; those over no alias at all are checked with the first one."""
        return self._selections.get(alias, ())

    @cached_property
    def _selections(self) -> dict[str, tuple[Expr, ...]]:
        found: dict[str, tuple[Expr, ...]] = {}
        for predicate in self.predicates:
            if len(aliases(predicate)) < 2:
                alias = next(iter(aliases(predicate)), self.relations[0].alias)
                found[alias] = (*found.get(alias, ()), predicate)
        return found

    @cached_property
    def joins(self) -> tuple[Expr, ...]:
        """Predicates over two or more aliases."""
        return tuple(p for p in self.predicates if len(aliases(p)) >= 2)

    def closed(self) -> Query:
        """The query with windows that include their end: times are whole microseconds, so windows grow by one."""
        wider = (replace(r, window=None if r.window is None else r.window + 1) for r in self.relations)
        return replace(self, relations=tuple(wider))

    @property
    def is_changing(self) -> bool:
        """Whether joined rows may be taken back.  A change of a table is met only by later rows of streams."""
        streams = [relation.stream for relation in self.relations]
        own = [stream for stream in streams if not stream.table] or streams
        return any(stream.changes is not None and not stream.changes.is_log for stream in own)

    @property
    def gives_changes(self) -> bool:
        """Whether its results, as rows of a derived stream, may be taken back."""
        if self.grouping is None:
            return self.is_changing
        if self.grouping.closing is not None:
            return False
        stays = self.grouping.is_distinct or self.grouping.grows is not None
        return self.is_changing or not stays

    @property
    def is_view(self) -> bool:
        """Whether results change: those of a join, or different rows, are there for good."""
        return self.grouping is not None and not self.grouping.is_distinct

    @property
    def schema(self) -> pa.Schema:
        """Schema of the result."""
        if (made := self.grouping or self.subscribers) is not None:
            return made.schema
        return pa.schema([(output.name, output.expr.type) for output in self.outputs])


def begin_at(query: Query, since: Mapping[str, int]) -> Query:
    """The query over rows that come in a batch or later, by alias; tables are always whole."""
    relations = (r if r.stream.table else replace(r, since=since.get(r.alias, r.since)) for r in query.relations)
    return replace(query, relations=tuple(relations))


def keep_apart(query: Query, numbers: Mapping[str, int]) -> Query:
    """The query with relations, by alias, that share stores only with those of the same number."""
    relations = (replace(r, apart=numbers.get(r.alias, r.apart)) for r in query.relations)
    return replace(query, relations=tuple(relations))


_NAMED = "give each a name of its own with AS."


def _refuse_duplicates(kind: str, names: list[str], hint: str) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise QueryError(
            f"duplicate {kind} {twice[0]!r}", detail=f"these appear more than once: {', '.join(twice)}.", hint=hint
        )
