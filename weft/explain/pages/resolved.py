"""Stage "resolved": queries with names, types, windows, and how long rows are kept."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TypedName:
    """A column with its type."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class KnownRelation:
    """An alias with everything that follows for it from the query."""

    alias: str
    stream: str
    columns: tuple[TypedName, ...]
    """Those that the query reads."""
    event_time: str | None
    lateness_micros: int
    window_micros: int | None
    window: str
    selections: tuple[str, ...]
    retention_micros: int | None
    """How much older than the watermark a row must be to expire; None is never."""
    retention: str
    because: str


@dataclass(frozen=True, slots=True)
class KnownJoin:
    """Predicates over the same two or more aliases."""

    aliases: tuple[str, ...]
    predicates: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KnownOutput:
    """A column of the result."""

    name: str
    type: str
    expression: str


@dataclass(frozen=True, slots=True)
class KnownGroups:
    """What is made of joined rows."""

    keys: tuple[str, ...]
    aggregates: tuple[str, ...]
    having: str | None
    changes: bool
    """Whether the row of a group changes once it is there."""


@dataclass(frozen=True, slots=True)
class KnownQuery:
    """A query after names and types are known."""

    query: str
    cross_product: bool
    relations: tuple[KnownRelation, ...]
    joins: tuple[KnownJoin, ...]
    outputs: tuple[KnownOutput, ...]
    groups: KnownGroups | None
    """None if the joined rows are the results."""


@dataclass(frozen=True, slots=True)
class ResolvedPage:
    """Stage "resolved"."""

    stage: str
    queries: tuple[KnownQuery, ...]
