"""A topology: what is kept where, and who asks whom in which order.

    stream --edge--> worker:  keep in stores, start probes
    probe  --route-> worker:  look into one store, hand the matches on, keep them as an intermediate result, emit them

Everything a host needs is here, and nothing else: no queries, no statistics.  A flowing record batch has
one field per live column, called "alias.column".  Columns of a stream's store carry no alias, so that aliases
of one stream, and queries, can share it; those of an intermediate store do.  `#t` is the event time in microseconds.

Exactly once: the stamp of a tuple is (batch, position of its alias), that of a joined one the largest of its members'.
A tuple that starts with stamp (N, i) meets in every store only rows with a smaller stamp, so every combination is made
by its newest member and by no other.  The newest member is where the row's way began, its *origin*.  So whether a
row of batch N is visible is a property of two origins, and known to the plan: `Probe.sees` names the origins of this
batch's rows that a probe may see.  Rows of a stream have no origin but themselves; they are all called ROWS.

Order within a wave: what comes to be kept is kept first, then tuples go on by the position of their origin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

from weft.expr.model import Expr
from weft.query.model import TIME, Output, Stream
from weft.topology.spread import Spread

__all__ = [
    "ROWS", "TIME", "Bound", "Clock", "Edge", "Emit", "Keep", "Key", "Node", "Probe", "Route", "Start", "Store",
    "Topology",
]  # fmt: skip

EARLIEST = -(2**63)
"""The first microsecond that an event time can name; no row lies before it."""
ROWS = ""
"""The origin of all rows of a stream."""

Policy = OneOf["min", "max"]
"""How the watermarks of several streams make one."""

Route = OneOf["local", "key", "broadcast", "scatter", "spread"]
"""How tuples travel: stay, to the owner of their key, to every worker, to any one worker, as a spread says."""


@dataclass(frozen=True, slots=True)
class Clock:
    """A set of streams whose event times move one watermark."""

    id: str
    streams: tuple[tuple[str, int], ...]
    """(stream name, lateness in microseconds), sorted by name."""
    policy: Policy = "min"
    """Whether the slowest or the fastest stream decides."""

    def watermark(self, newest: dict[str, int]) -> int | None:
        """Newest event time minus lateness, of the slowest or the fastest stream; None while one has shown nothing."""
        if any(stream not in newest for stream, _ in self.streams):
            return None
        marks = [newest[stream] - lateness for stream, lateness in self.streams]
        return max(EARLIEST, min(marks) if self.policy == "min" else max(marks))


@dataclass(frozen=True, slots=True)
class Key:
    """What an index orders rows by; expressions over the store's own columns."""

    equal: tuple[Expr, ...] = ()
    range: Expr | None = None


@dataclass(frozen=True, slots=True)
class Store:
    """The kept rows of one stream after a selection, or of the join of some aliases of one query."""

    id: str
    stream: str
    """Empty for an intermediate result."""
    filter: tuple[Expr, ...]
    columns: tuple[str, ...]
    placement: tuple[Expr, ...]
    """Rows live on the worker that owns these values; empty means anywhere, so probes go everywhere."""
    indexes: tuple[Key, ...]
    clock: str | None
    """The clock that expires rows and refuses late ones; None means rows stay for ever."""
    retention: int | None
    """A row may go once the watermark is later than its time plus this; None means never."""
    reason: str
    """Why rows are kept that long, for people."""
    users: tuple[str, ...]
    """"query.alias" of everyone who shares the store."""
    tasks: int = 1
    """On how many workers, from the first on, rows lie."""
    aliases: tuple[str, ...] = ()
    """Members of an intermediate result, in query order."""
    ends: tuple[tuple[str, int], ...] = ()
    """(member, its retention): an intermediate row goes when the first of these does; its `#t` is made to say so."""
    spread: Spread | None = None
    """Where copies of a stream's rows lie, instead of a placement."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a range, computed from the probing tuple."""

    expr: Expr
    strict: bool
    loose: bool = False
    """Whether it admits more than the predicate does, which is checked again; NaN then bounds nothing."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One look into a store."""

    id: str
    query: str
    origin: str
    """The alias where the probing tuples began."""
    position: int
    """Place of the origin in its query."""
    aliases: tuple[str, ...]
    """The aliases whose tuples are found here; more than one in an intermediate store."""
    store: str
    wave: int
    """The wave in which workers run it; tuples that come earlier wait."""
    route: Route
    route_key: tuple[Expr, ...]
    """Values of the probing tuple that name the worker, for route "key"."""
    tasks: int
    """Among how many workers the tuples are routed."""
    sees: tuple[str, ...]
    """Origins of those rows of the same micro-batch that are visible."""
    index: int
    """Which of the store's indexes is used."""
    equal: tuple[Expr, ...]
    """Values of the probing tuple, one per equality column of the index."""
    low: tuple[Bound, ...]
    high: tuple[Bound, ...]
    residual: tuple[Expr, ...]
    """What the index does not decide by itself and must be checked on each candidate pair."""
    fields: tuple[str, ...]
    """Fields of the probing tuple that are read here or live on."""
    carry: tuple[str, ...]
    """Fields that live on after this step."""
    then: tuple[str, ...]
    """Ids of what comes next: probes, keeps, emits."""


@dataclass(frozen=True, slots=True)
class Keep:
    """Joined tuples go into an intermediate store here."""

    id: str
    query: str
    origin: str
    store: str
    wave: int
    """The wave in which they are stored."""
    route: Route
    route_key: tuple[Expr, ...]
    tasks: int
    fields: tuple[str, ...]
    """Fields that the store needs."""


@dataclass(frozen=True, slots=True)
class Emit:
    """Results of a query leave here."""

    id: str
    query: str
    outputs: tuple[Output, ...]
    wave: int


@dataclass(frozen=True, slots=True)
class Start:
    """Tuples of an alias begin their way here."""

    id: str
    query: str
    alias: str
    position: int
    """Place of the alias in its query."""
    columns: tuple[str, ...]
    then: tuple[str, ...]
    """Ids of what comes first: a probe, or the emit of a query over one stream."""


@dataclass(frozen=True, slots=True)
class Edge:
    """How rows of a stream reach the workers: selected, cut to columns, routed once for all who want them."""

    id: str
    stream: str
    filter: tuple[Expr, ...]
    columns: tuple[str, ...]
    route: Route
    route_key: tuple[Expr, ...]
    tasks: int
    """Among how many workers rows are routed."""
    clock: str | None
    stores: tuple[str, ...]
    starts: tuple[str, ...]
    spread: Spread | None = None
    """For route "spread"."""
    watch: tuple[tuple[str, Expr], ...] = ()
    """(Name, join key): values that are counted as they come, so that skew is seen."""


Node = Probe | Keep | Emit
"""What tuples can come to."""


@dataclass(frozen=True, slots=True)
class Topology:
    """The plan of a session."""

    workers: int
    streams: tuple[Stream, ...]
    clocks: tuple[Clock, ...]
    stores: tuple[Store, ...]
    edges: tuple[Edge, ...]
    starts: tuple[Start, ...]
    probes: tuple[Probe, ...]
    emits: tuple[Emit, ...]
    keeps: tuple[Keep, ...] = ()

    @property
    def waves(self) -> int:
        """How many waves follow the reading of the input."""
        return max([1, *(node.wave for node in self.nodes.values())])

    @property
    def nodes(self) -> dict[str, Node]:
        """All that tuples can come to, by id."""
        found: tuple[Node, ...] = (*self.probes, *self.keeps, *self.emits)
        return {node.id: node for node in found}

    def store(self, name: str) -> Store:
        """The store with this id."""
        return next(store for store in self.stores if store.id == name)
