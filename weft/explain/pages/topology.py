"""Stage "topology": stores, ways and waves of all queries together."""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.explain.pages.figure import Figure
from weft.explain.pages.sharing import SharingFacts
from weft.observe.notice import Notice


@dataclass(frozen=True, slots=True)
class StoreFacts:
    """A store."""

    name: str
    """s0, s1, ...: what the rest of the page calls it."""
    id: str
    of: str
    stream: str | None
    """None for an intermediate result."""
    users: tuple[str, ...]
    placement: tuple[str, ...]
    workers: int
    retention_micros: int | None
    retention: str
    because: str
    where: tuple[str, ...]
    columns: tuple[str, ...]
    indexes: tuple[str, ...]
    rows: Figure
    spread: str | None = None
    """Where copies of rows lie, instead of a placement."""


@dataclass(frozen=True, slots=True)
class EdgeFacts:
    """How rows of a stream reach the workers."""

    stream: str
    where: tuple[str, ...]
    route: str
    route_key: tuple[str, ...]
    workers: int
    stores: tuple[str, ...]
    starts: tuple[str, ...]
    """"query.alias" of the ways that begin here."""


@dataclass(frozen=True, slots=True)
class ProbeFacts:
    """A probe: tuples look for partners in a store."""

    kind: str
    id: str
    store: str
    aliases: tuple[str, ...]
    wave: int
    route: str
    route_key: tuple[str, ...]
    workers: int
    asks: tuple[str, ...]
    """What the index is searched for; nothing means every row."""
    checks: tuple[str, ...]
    tuples_in: Figure
    matches: Figure
    shared_with: tuple[str, ...] = ()
    """Other queries that it is done for too."""
    candidates: float | None = None
    """Expected share of the rows, of those with equal keys if there are any, that the ranges of the index leave to be
    looked at; given where the index has several ranges."""


@dataclass(frozen=True, slots=True)
class KeepFacts:
    """Joined tuples go into an intermediate store."""

    kind: str
    id: str
    store: str
    wave: int
    route: str
    route_key: tuple[str, ...]
    workers: int
    shared_with: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WayFacts:
    """What new tuples of an alias do, in order."""

    alias: str
    parts: tuple[ProbeFacts | KeepFacts, ...]
    fills: str | None = None
    """The store that this way only fills; None for the way to the results."""


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """How a query is answered."""

    query: str
    counted: str | None
    """What estimates are counted over; None where there are none."""
    ways: tuple[WayFacts, ...]
    results: Figure


@dataclass(frozen=True, slots=True)
class SummaryFacts:
    """A query in short: what is kept and how long, what a new row costs, and what the plan was chosen against."""

    query: str
    keeps: tuple[str, ...]
    looks: int
    """Stores that a new row looks into, at most."""
    rounds: int
    """Waves that this takes, at most."""
    work_micros_an_input_row: float | None
    """Of all workers, without what a round itself takes; None without statistics."""
    plan: str
    because: str
    results: str = ""
    """When results come and whether they stay, where that is not clear."""


@dataclass(frozen=True, slots=True)
class TopologyPage:
    """Stage "topology"."""

    stage: str
    kind: str
    workers: int
    waves: int
    batches_measured: int | None
    edges: tuple[EdgeFacts, ...]
    stores: tuple[StoreFacts, ...]
    queries: tuple[QueryFacts, ...]
    notices: tuple[Notice, ...] = field(default=())
    sharing: SharingFacts | None = None
    """None for one query."""
    summaries: tuple[SummaryFacts, ...] = ()
    """Each query in short."""
