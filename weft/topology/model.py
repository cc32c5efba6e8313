"""A topology: what is kept where, and who asks whom in which order.

    stream --edge--> worker:  keep in stores, start probes
    probe  --route-> worker:  look into one store, hand the matches on, or emit them

Everything a host needs is here, and nothing else: no queries, no statistics.  A flowing record batch has
one field per live column, called "alias.column".  A store's own columns carry no alias, so that aliases
of one stream, and queries, can share it.  `#t` is the event time in microseconds.

Exactly once: a probe started by alias i sees in the store of alias j all rows of earlier batches, and
this batch's rows iff j stands before i in the query (`sees_delta`).  So a result is made by its newest
tuple in the order (batch, position), and by no other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOf

from weft.expr.model import Expr
from weft.query.model import TIME, Output, Stream

__all__ = ["TIME", "Bound", "Clock", "Edge", "Emit", "Key", "Probe", "Route", "Start", "Store", "Topology"]

Policy = OneOf["min", "max"]
"""How the watermarks of several streams make one."""

Route = OneOf["local", "key", "broadcast", "scatter"]
"""How tuples travel: stay, to the owner of their key, to every worker, to any one worker."""


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
        return min(marks) if self.policy == "min" else max(marks)


@dataclass(frozen=True, slots=True)
class Key:
    """What an index orders rows by; expressions over the store's own columns."""

    equal: tuple[Expr, ...] = ()
    range: Expr | None = None


@dataclass(frozen=True, slots=True)
class Store:
    """The kept rows of one stream after a selection."""

    id: str
    stream: str
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
    alias: str
    """The alias whose tuple is found here."""
    store: str
    wave: int
    """The wave in which workers run it."""
    route: Route
    route_key: tuple[Expr, ...]
    """Values of the probing tuple that name the worker, for route "key"."""
    sees_delta: bool
    """Whether rows of the same micro-batch are visible."""
    index: int
    """Which of the store's indexes is used."""
    equal: tuple[Expr, ...]
    """Values of the probing tuple, one per equality column of the index."""
    low: tuple[Bound, ...]
    high: tuple[Bound, ...]
    residual: tuple[Expr, ...]
    """What the index does not decide by itself and must be checked on each candidate pair."""
    carry: tuple[str, ...]
    """Fields that live on after this step."""
    then: str
    """Id of the next probe or of the emit."""


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
    columns: tuple[str, ...]
    then: str
    """Id of the first probe, or of the emit of a query over one stream."""


@dataclass(frozen=True, slots=True)
class Edge:
    """How rows of a stream reach the workers: selected, cut to columns, routed once for all who want them."""

    id: str
    stream: str
    filter: tuple[Expr, ...]
    columns: tuple[str, ...]
    route: Route
    route_key: tuple[Expr, ...]
    clock: str | None
    stores: tuple[str, ...]
    starts: tuple[str, ...]


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

    @property
    def waves(self) -> int:
        """How many waves follow the reading of the input."""
        return max([1, *(probe.wave for probe in self.probes), *(emit.wave for emit in self.emits)])

    def store(self, name: str) -> Store:
        """The store with this id."""
        return next(store for store in self.stores if store.id == name)
