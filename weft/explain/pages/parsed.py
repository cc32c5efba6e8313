"""Stage "parsed": queries as they were written."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WrittenRelation:
    """A table factor of FROM."""

    alias: str
    stream: str
    within: str | None
    """As a duration, "unbounded", or None where nothing was said."""


@dataclass(frozen=True, slots=True)
class WrittenOutput:
    """An entry of the SELECT list."""

    name: str | None
    expression: str


@dataclass(frozen=True, slots=True)
class WrittenQuery:
    """A query before names are looked up."""

    query: str
    relations: tuple[WrittenRelation, ...]
    within: str | None
    """The window of relations that state none."""
    predicates: tuple[str, ...]
    predicate_names: tuple[tuple[str, ...], ...]
    """Aliases that each predicate names; a column without alias names none yet."""
    outputs: tuple[WrittenOutput, ...]
    distinct: bool
    group_by: tuple[str, ...]
    having: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ParsedPage:
    """Stage "parsed"."""

    stage: str
    queries: tuple[WrittenQuery, ...]
