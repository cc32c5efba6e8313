"""What is said about a plan, as plain data; text, JSON and mermaid are three ways to print it.

A page is the answer for one stage.  Its fields are what people and programs get to know: names of fields are the keys
of the JSON, and a number's name or the `unit` beside it says what is counted.  Unknown is None.  Expressions are text
by now, so that no format can say something else than another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from weft.observe.counters import Counters
from weft.observe.notice import Notice
from weft.optimizer.choose import Choice
from weft.query.draft import Draft
from weft.query.model import Query
from weft.stats.model import Statistics
from weft.topology.model import Topology


@dataclass(frozen=True, slots=True)
class Measured:
    """What the committed batches of a run did."""

    batches: int
    counters: Counters
    held: Mapping[str, int]
    """Store -> rows in its live segments; expired ones that were not merged away yet are among them."""
    seen: Statistics = field(default_factory=Statistics)
    """What the streams have shown."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What can be explained; plans are made only for the stages that show them."""

    queries: Mapping[str, Query]
    drafts: Mapping[str, Draft]
    """The queries as they were written, where that is known."""
    choose: Callable[[], tuple[Choice, ...]]
    lay: Callable[[], Topology]
    analyze: bool = False
    measured: Measured | None = None
    """None if nothing was committed, or nobody asked."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A number as it was expected and as it came."""

    unit: str
    estimated: float | None = None
    measured: int | None = None

    @property
    def ratio(self) -> float | None:
        """Measured by estimated."""
        if self.measured is None or not self.estimated:
            return None
        return self.measured / self.estimated


# ------------------------------------------------------------------------------------------------ parsed


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


@dataclass(frozen=True, slots=True)
class ParsedPage:
    """Stage "parsed"."""

    stage: str
    queries: tuple[WrittenQuery, ...]


# ---------------------------------------------------------------------------------------------- resolved


@dataclass(frozen=True, slots=True)
class TypedName:
    """A column with its type."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class KnownRelation:
    """An alias with all that follows for it from the query."""

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
    """How much older than the watermark a row must be before it goes; None is never."""
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
class KnownQuery:
    """A query after names and types are known."""

    query: str
    cross_product: bool
    relations: tuple[KnownRelation, ...]
    joins: tuple[KnownJoin, ...]
    outputs: tuple[KnownOutput, ...]


@dataclass(frozen=True, slots=True)
class ResolvedPage:
    """Stage "resolved"."""

    stage: str
    queries: tuple[KnownQuery, ...]


# -------------------------------------------------------------------------------------------- candidates


@dataclass(frozen=True, slots=True)
class InputNumbers:
    """What is known of an alias, or taken for known."""

    alias: str
    stream: str
    rows: float
    rows_a_second: float | None
    assumed: bool
    """Whether a default stands in for something unknown."""


@dataclass(frozen=True, slots=True)
class PairNumbers:
    """What is known of the predicates between two aliases."""

    aliases: tuple[str, ...]
    selectivity: float
    assumed: bool


@dataclass(frozen=True, slots=True)
class CandidateNumbers:
    """A plan that was considered, with what it was expected to do."""

    name: str
    tree: str
    tuples_sent: float
    """To probes, copies counted: the PCost of the papers."""
    tuples_exchanged: float
    """Through the exchange between workers."""
    rows_stored: float
    waves: int
    micros_an_input_row: float
    waves_micros_an_input_row: float
    """The part of it that waves cost, whatever they carry."""
    chosen: bool


@dataclass(frozen=True, slots=True)
class TreeNode:
    """A relation, a kept join, or the result at the root."""

    kind: str
    aliases: tuple[str, ...]
    stream: str | None
    placement: tuple[str, ...]
    """Rows lie on the worker that owns these values; none means anywhere."""
    workers: int | None
    rows: Figure
    children: tuple[TreeNode, ...]
    spread: str | None = None
    """Where copies of rows lie, instead of a placement."""


@dataclass(frozen=True, slots=True)
class CandidatesOfQuery:
    """Everything that was considered for a query."""

    query: str
    strategy: str
    statistics: bool
    """Whether any were there."""
    counted: str
    """What tuples and rows are counted over."""
    budget: float | None
    budget_unit: str
    inputs: tuple[InputNumbers, ...]
    pairs: tuple[PairNumbers, ...]
    considered: int
    candidates: tuple[CandidateNumbers, ...]
    """The cheapest first; of many only the first, and those with a name."""
    most_micros_an_input_row: float
    """Of the dearest of all that were considered."""
    chosen: str
    because: str
    tree: TreeNode


@dataclass(frozen=True, slots=True)
class PriceList:
    """What candidates were weighed with."""

    source: str
    wave_millis: float
    batch_millis: float
    sent_nanos: float
    probed_nanos: float
    checked_nanos: float
    matched_nanos: float
    stored_nanos: float
    emitted_nanos: float


@dataclass(frozen=True, slots=True)
class CandidatesPage:
    """Stage "candidates"."""

    stage: str
    workers: int
    prices: PriceList
    queries: tuple[CandidatesOfQuery, ...]


# ------------------------------------------------------------------------------------------------ chosen


@dataclass(frozen=True, slots=True)
class Hop:
    """A probe or a keep on the way of new tuples."""

    kind: str
    target: tuple[str, ...]
    """Aliases of the store."""
    wave: int
    route: str
    route_key: tuple[str, ...]
    workers: int
    tuples_in: Figure
    """Copies counted."""
    matches: Figure | None
    """None for a keep."""


@dataclass(frozen=True, slots=True)
class ProbeOrder:
    """What new tuples of an alias do."""

    alias: str
    hops: tuple[Hop, ...]


@dataclass(frozen=True, slots=True)
class ChosenPlan:
    """The plan of a query."""

    query: str
    plan: str
    shape: str
    counted: str
    tree: TreeNode
    orders: tuple[ProbeOrder, ...]
    input_rows: Figure
    tuples_sent: float | None
    tuples_exchanged: float | None
    rows_stored: float | None
    waves: int
    micros_an_input_row: float | None


@dataclass(frozen=True, slots=True)
class ChosenPage:
    """Stage "chosen"."""

    stage: str
    workers: int
    batches_measured: int | None
    queries: tuple[ChosenPlan, ...]
    notices: tuple[Notice, ...]


# ---------------------------------------------------------------------------------------------- topology


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
    """A look into a store."""

    kind: str
    id: str
    store: str
    aliases: tuple[str, ...]
    wave: int
    route: str
    route_key: tuple[str, ...]
    workers: int
    asks: tuple[str, ...]
    """What the index is asked for; nothing means every row."""
    checks: tuple[str, ...]
    tuples_in: Figure
    matches: Figure


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


@dataclass(frozen=True, slots=True)
class WayFacts:
    """What new tuples of an alias do."""

    alias: str
    parts: tuple[ProbeFacts | KeepFacts, ...]


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """How a query is answered."""

    query: str
    counted: str | None
    """What estimates are counted over; None where nothing is known."""
    ways: tuple[WayFacts, ...]
    results: Figure


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


Page = ParsedPage | ResolvedPage | CandidatesPage | ChosenPage | TopologyPage
"""The answer for one stage."""
