"""Stage "candidates": what was considered, and by which numbers and prices."""

from __future__ import annotations

from dataclasses import dataclass

from weft.explain.pages.chosen import TreeNode
from weft.explain.pages.sharing import TogetherFacts


@dataclass(frozen=True, slots=True)
class InputNumbers:
    """The size of an alias that was used, known or assumed."""

    alias: str
    stream: str
    rows: float
    rows_a_second: float | None
    assumed: bool
    """Whether it depends on a default, because something is unknown."""
    source: str
    """Where it is from: given, measured in this checkpoint, sampled, or assumed."""


@dataclass(frozen=True, slots=True)
class PairNumbers:
    """The selectivity of the predicates between two aliases that was used, known or assumed."""

    aliases: tuple[str, ...]
    selectivity: float
    assumed: bool
    source: str


@dataclass(frozen=True, slots=True)
class AskedNumbers:
    """What the dimensions of some relations leave of subscriptions."""

    aliases: tuple[str, ...]
    wanted: float
    """Share of the tuples over them for which a subscription is left."""
    left: float
    """Subscriptions that a tuple leaves, on average."""


@dataclass(frozen=True, slots=True)
class CandidateNumbers:
    """A plan that was considered, with its expected numbers."""

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
    """The part of it that waves cost, however much they carry."""
    chosen: bool


@dataclass(frozen=True, slots=True)
class CandidatesOfQuery:
    """All plans that were considered for a query."""

    query: str
    strategy: str
    statistics: bool
    """Whether there were any."""
    counted: str
    """What tuples and rows are counted over."""
    budget: float | None
    budget_unit: str
    inputs: tuple[InputNumbers, ...]
    pairs: tuple[PairNumbers, ...]
    considered: int
    candidates: tuple[CandidateNumbers, ...]
    """The cheapest first; if there are many, only the first ones and those with a name."""
    most_micros_an_input_row: float
    """Of the most expensive plan that was considered."""
    chosen: str
    because: str
    tree: TreeNode
    subscriptions: float | None = None
    """How many there are; None where there are none, or too little is known of them."""
    asked: tuple[AskedNumbers, ...] = ()
    """What they leave, for each set of relations that a tuple may hold."""


@dataclass(frozen=True, slots=True)
class PriceList:
    """The prices that candidates were compared by."""

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
    together: TogetherFacts | None = None
    """None where every query was planned alone."""
