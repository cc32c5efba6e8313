"""What queries have in common, and what that saves."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TogetherFacts:
    """How the plans of many queries were chosen together."""

    queries: int
    """Queries whose plans were open."""
    used: bool
    """Whether the plan for all is used; if not, each query's own plan is as cheap."""
    cheaper_percent: float
    """How much cheaper it is than the queries' own plans with equal parts once."""
    ended: str
    """How the search for it ended: "optimal", "gap", "time limit" or "search"."""
    gap_percent: float | None
    """By how much the plan may miss the best; None if nothing was proven."""
    planning_seconds: float | None
    """None where nothing measured is shown."""


@dataclass(frozen=True, slots=True)
class QuerySharing:
    """What a query uses, and how much of it others use too; estimates."""

    query: str
    rows_stored: float
    rows_stored_shared: float
    tuples_probed: float
    tuples_probed_shared: float


@dataclass(frozen=True, slots=True)
class ProbeTree:
    """A probe, with those that follow it in any query."""

    store: str
    members: tuple[str, ...]
    """Streams, or labels where a query has one twice or selects from it."""
    queries: tuple[str, ...]
    then: tuple[ProbeTree, ...]
    ends: tuple[str, ...]
    """Stores that are filled here, and "results of" queries."""


@dataclass(frozen=True, slots=True)
class StartTree:
    """All that begins with new tuples of a relation, brought to one place, for several queries."""

    label: str
    queries: tuple[str, ...]
    then: tuple[ProbeTree, ...]


@dataclass(frozen=True, slots=True)
class SharingFacts:
    """What several queries have in common."""

    stores: int
    stores_shared: int
    probes: int
    probes_shared: int
    together: TogetherFacts | None
    """None where every query was planned alone."""
    rows_stored: float | None
    """Estimates; None without statistics for all queries."""
    rows_stored_apart: float | None
    """The same plans with nothing shared."""
    tuples_probed: float | None
    tuples_probed_apart: float | None
    queries: tuple[QuerySharing, ...]
    trees: tuple[StartTree, ...]
    """Probe trees that several queries share."""
