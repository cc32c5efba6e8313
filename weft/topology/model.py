"""A topology: what is kept where, and which tuples look into which stores, in which order.

    stream --edge--> worker:  keep in stores, start probes
    probe  --route-> worker:  look into one store, hand the matches on, keep them as an intermediate result, emit them

The *way* of a tuple is the line of nodes (probes, keeps, an emit) that it passes.  A relation may have several starts:
one way to the results of a query, others that fill intermediate stores in another order.  A *wave* is one exchange of
tuples between workers and the work after it; a batch runs all its waves one after the other.

Everything a host needs is here, and nothing else: no queries, no statistics.

Names say what a thing is, not who asked for it.  A relation of a query (a stream or table after its selections) has a
*label*: the stream's name, a digest of the selections if there are any, and a number if the query has it twice.  A
store, a start and a probe are named by a digest of all that makes their rows: a probe by the way of its tuples so far,
the store and the question.  So two queries, or two plans, that need the same thing get the same name, and ways that
begin alike share their first nodes: a node hands its tuples on to whatever follows in any query.

A flowing record batch has one field per live column, called "label.column".  Columns of a stream's store carry no
label, so that all relations over the stream can share it; those of an intermediate store do.  `#t` is the event time in
microseconds.  `#w` is the weight: how often a row counts; where it is absent every row counts once.  `#late c` says
whether a row, or a member of it, came too late for the queries of clock c; where it is absent none did.  `#copy` says,
in a store whose rows are copied to several workers, whether a row is a copy of one that lies elsewhere.

Exactly once: the stamp of a tuple is (batch, position of its relation), that of a joined one the largest of its
members'.  A tuple that starts with stamp (N, i) meets in every store only rows with a smaller stamp, so every
combination is made by its newest member and by no other.  The newest member is where the row's way began, its *origin*.
So whether a row of batch N is visible depends only on two origins, and the plan knows both: `Probe.sees` names the
origins of this batch's rows that a probe may see.  Rows of a stream have no origin but themselves; they all have the
origin ROWS.  Positions are places in one order of all labels, tables first: so queries that share an intermediate
result agree on which member is the newest in it.

Order within a wave: first rows are stored, then tuples go on by the position of their origin.

A *derived* stream has the results of some queries as its rows: their emits say so, and hand rows to its edges instead
of giving them out.  Its stores are filled, and its tuples start, in a later wave of the same batch.  Labels of derived
streams come after those of all streams they are made of.  So a tuple of an input sees no row of a derived stream of its
own batch, and a tuple of a derived stream sees all rows of the inputs: stamps need no other rule.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal as OneOf

import pyarrow as pa

from weft.expr.model import Expr, text_of
from weft.query.grouping import OP, Grouping
from weft.query.model import COPY, HASH, MEASURE, PAIR, TIME, WEIGHT, Output, Stream
from weft.topology.matching import Matching, Sieve
from weft.topology.measures import parts, travelling_name
from weft.topology.spread import Spread

__all__ = [
    "COPY", "FIRST", "HASH", "MEASURE", "NEVER_LATE", "OP", "PAIR", "ROWS", "SHOWN", "TIME", "WEIGHT", "Bound", "Clock",
    "Edge", "Emit", "Epoch", "Groups", "Keep", "Key", "Measure", "Node", "Probe", "Route", "Start", "Store", "Topology",
]  # fmt: skip

EARLIEST = -(2**63)
"""The earliest possible event time; no row is earlier."""
ROWS = ""
"""The origin of all rows of a stream."""
FIRST = -1
"""Position of what is handled before all probes."""
SHOWN = "#s"
"""Beginning of the names of columns that hold what a group has shown."""
NEVER_LATE = ""
"""The clock of users for whom no row is ever late; it has no watermark and no marks."""

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
    queries: tuple[str, ...] = ()
    """The queries for which it says what is late."""

    def watermark(self, newest: Mapping[str, int], idle: Collection[str] = ()) -> int | None:
        """Newest event time minus lateness, of the slowest or the fastest stream; None while a stream has no rows.

        Idle streams have no part in it.  If all are idle, the fastest of them decides: none waits for another.
        """
        awake = [given for given in self.streams if given[0] not in idle]
        if any(stream not in newest for stream, _ in awake):
            return None
        known = awake or [given for given in self.streams if given[0] in newest]
        choose = min if awake and self.policy == "min" else max
        return max((EARLIEST, choose(newest[s] - lateness for s, lateness in known))) if known else None


@dataclass(frozen=True, slots=True)
class Key:
    """What an index orders rows by; expressions over the store's own columns."""

    equal: tuple[Expr, ...] = ()
    range: Expr | None = None
    also: tuple[Expr, ...] = ()
    """Further dimensions, beside `range`."""

    @property
    def ranges(self) -> tuple[Expr, ...]:
        """All range dimensions; a bound says which of them it limits."""
        return () if self.range is None else (self.range, *self.also)

    @property
    def name(self) -> str:
        """What the index is called in a segment: two stores can use one segment if it has what both ask for."""
        return _key_name(self)


@dataclass(frozen=True, slots=True)
class Measure:
    """A number of a relation's rows that travels with them, instead of the columns that it is worked out of."""

    name: str
    """The hidden column."""
    number: str
    """What it is, see weft.topology.measures."""
    expr: Expr
    """The argument, over the fields of the relation."""


@dataclass(frozen=True, slots=True)
class Store:
    """The kept rows of one stream after a selection, or of the join of some relations.

    A *counted* store keeps no two rows with equal columns in one segment: they are one row, whose weight and measures
    are the sums of theirs.  A segment has the sums of its own batches; what a group is worth is the sum over all.
    """

    id: str
    stream: str
    """Empty for an intermediate result."""
    filter: tuple[Expr, ...]
    columns: tuple[str, ...]
    placement: tuple[Expr, ...]
    """Rows live on the worker that owns these values; empty means anywhere, so probes go everywhere."""
    indexes: tuple[Key, ...]
    expiry: tuple[tuple[str, int], ...]
    """(Clock, retention): a row may go once the watermark of each clock is later than its time plus the retention of
    that clock; empty means never."""
    reason: str
    """Why rows are kept that long, for people."""
    users: tuple[str, ...]
    """"query.alias" of all users that share the store."""
    tasks: int = 1
    """On how many workers, from the first on, rows lie."""
    members: tuple[str, ...] = ()
    """Labels of the members of an intermediate result, by position."""
    ends: tuple[tuple[tuple[str, int], ...], ...] = ()
    """For each kind of user (member, its retention): a user needs an intermediate row until the first of these goes.
    The row goes when no user needs it; its `#t` is computed to match."""
    spread: Spread | None = None
    """Where copies of a stream's rows lie, instead of a placement."""
    content: str = ""
    """Digest of all that decides which rows it holds and where: everything but its columns and indexes."""
    since: int = 0
    """The first batch whose rows it holds; other than 0 for queries that join only what came after they were added."""
    clocks: tuple[str, ...] = (NEVER_LATE,)
    """Clocks of all users, sorted.  A row that is late for all of them is not kept; late for some, it is marked."""
    join: str = ""
    """Digest of what decides which rows an intermediate store holds, wherever they lie; empty if there are copies."""
    counted: OneOf["", "join", "groups"] = ""
    """Empty if rows are kept one by one.  Else equal rows are one: those of a join, or the groups of a query."""
    measures: tuple[str, ...] = ()
    """Hidden columns that rows of a counted join have beside their weight."""
    ended_by: tuple[str, ...] = ()
    """Columns that name a subscription: a row that is marked as removed ends all earlier ones with these values."""

    @property
    def is_fed_by_rows(self) -> bool:
        """Whether its rows can be sent to it one by one: those of a stream, or parts of groups."""
        return not self.members or self.counted == "groups"

    @property
    def label(self) -> str:
        """What a store of a stream holds, before selections."""
        return label_since(self.stream, self.since)

    @property
    def retention(self) -> int | None:
        """How long past its time a row is kept at most, by the clock that keeps it longest; None is for ever."""
        return max((kept for _, kept in self.expiry), default=None)


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a range, computed from the probing tuple."""

    expr: Expr
    strict: bool
    loose: bool = False
    """Whether it admits more than the predicate, which is then checked again; a NaN bound then admits everything."""
    dimension: int = 0
    """Which of the ranges of the index it limits."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One look into a store."""

    id: str
    users: tuple[str, ...]
    """Queries whose tuples look here."""
    origin: str
    """Label of the relation where the probing tuples began."""
    position: int
    """Place of the origin in the order of labels."""
    members: tuple[str, ...]
    """Labels of the relations whose tuples are found here; more than one in an intermediate store."""
    store: str
    wave: int
    """The wave in which workers run it; tuples that arrive earlier wait."""
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
    measures: tuple[Measure, ...] = ()
    """Numbers of the rows that are found here."""
    folds: bool = False
    """Whether tuples with equal fields become one before they look: all users add their results up."""
    sieve: Sieve | None = None
    """Which tuples need not look, since nobody wants what they would find; None if all do."""

    @property
    def gathers(self) -> bool:
        """Whether tuples wait for others before they go on."""
        return self.folds


@dataclass(frozen=True, slots=True)
class Keep:
    """Joined tuples go into an intermediate store here."""

    id: str
    users: tuple[str, ...]
    origin: str
    store: str
    wave: int
    """The wave in which they are stored."""
    route: Route
    route_key: tuple[Expr, ...]
    tasks: int
    fields: tuple[str, ...]
    """Fields that the store needs."""

    @property
    def position(self) -> int:
        """Rows are stored before any probe looks."""
        return FIRST

    @property
    def gathers(self) -> bool:
        """Rows are stored as they come."""
        return False


@dataclass(frozen=True, slots=True)
class Groups:
    """What an aggregate query makes of joined tuples: they are added up in a counted store, whose rows are the view."""

    store: str
    grouping: Grouping
    clock: str = ""
    """Says when a window of event time is closed; empty if there is none."""
    stream: str = ""
    """The stream of that event time."""
    values: tuple[tuple[str, str], ...] = ()
    """(Argument, counted store of its values in each group) of aggregates that need the values."""
    shown: str = ""
    """The store of the rows that groups have shown to those who read them; empty if they can be worked out again."""
    again: bool = False
    """Whether groups that are there come again, in a migration: what they have shown is all that they show."""

    @property
    def stores(self) -> tuple[str, ...]:
        """All stores of the groups."""
        return (self.store, *(store for _, store in self.values), *((self.shown,) if self.shown else ()))


@dataclass(frozen=True, slots=True)
class Emit:
    """Results of a query leave here, where they are made, or on the worker that a route names."""

    id: str
    query: str
    outputs: tuple[Output, ...]
    fields: tuple[str, ...]
    """Fields that the outputs read; at least one."""
    aliases: tuple[tuple[str, str], ...]
    """(Label, alias) of all relations, in query order."""
    wave: int = 1
    """The first wave in which results may leave."""
    route: Route = "local"
    route_key: tuple[Expr, ...] = ()
    tasks: int = 1
    groups: Groups | None = None
    """What is made of the tuples; None if they are the results."""
    matching: Matching | None = None
    """Whom the tuples are matched with; None if they are for all."""
    into: str = ""
    """The derived stream whose rows the results are; empty if they leave."""

    @property
    def users(self) -> tuple[str, ...]:
        """The query."""
        return (self.query,)

    @property
    def measures(self) -> frozenset[str]:
        """Hidden columns of tuples that are read here."""
        if self.groups is None:
            return frozenset()
        exprs = {output.name: output.expr for output in self.outputs}
        kept = parts(self.groups.grouping, {name: expr.type for name, expr in exprs.items()})
        return frozenset(travelling_name(part.number, exprs[part.argument]) for part in kept)

    @property
    def schema(self) -> pa.Schema:
        """The columns of results.  Changes of a view also have the keys of their groups, and what changes."""
        if self.groups is None:
            shown = self.outputs if self.matching is None else self.matching.outputs
            return pa.schema([(output.name, output.expr.type) for output in shown])
        grouping = self.groups.grouping
        return grouping.schema if grouping.is_distinct or self.into else grouping.changes_schema(self.outputs)

    @property
    def position(self) -> int:
        """No probe waits for results."""
        return FIRST

    @property
    def gathers(self) -> bool:
        """Whether tuples are added up before they leave."""
        return self.groups is not None


@dataclass(frozen=True, slots=True)
class Start:
    """Tuples of a relation begin their way here."""

    id: str
    label: str
    position: int
    """Place of the label in the order of labels."""
    columns: tuple[str, ...]
    then: tuple[str, ...]
    """Ids of what comes first: probes, or the emit of a query over one stream."""
    users: tuple[tuple[str, str], ...]
    """(Query, alias) of all users whose tuples begin here."""
    filter: tuple[Expr, ...] = ()
    """What tuples must pass here, where the edge brings rows that others want."""
    measures: tuple[Measure, ...] = ()
    """Numbers of the tuples that begin here."""


@dataclass(frozen=True, slots=True)
class Edge:
    """How rows of a stream reach the workers: selected, cut to the needed columns, routed once for all users."""

    id: str
    stream: str
    filter: tuple[Expr, ...]
    columns: tuple[str, ...]
    route: Route
    route_key: tuple[Expr, ...]
    tasks: int
    """Among how many workers rows are routed."""
    clocks: tuple[str, ...]
    """Clocks of all users, sorted.  A row that is late for all of them is dropped, one that is late for some is marked.
    """
    stores: tuple[str, ...]
    starts: tuple[str, ...]
    spread: Spread | None = None
    """For route "spread"."""
    watch: tuple[tuple[str, Expr, tuple[Expr, ...]], ...] = ()
    """(Name, join key, selection): values of these keys are counted on arrival, so that skew is noticed."""
    wave: int = 1
    """The wave in which its rows are stored and start; later than 1 for a derived stream."""


Node = Probe | Keep | Emit
"""What tuples can be sent to.  All have an id, users, a position, a wave, a route and the fields they need."""


@dataclass(frozen=True)
class Topology:
    """The plan of a session.  What is asked for often is computed once."""

    workers: int
    streams: tuple[Stream, ...]
    clocks: tuple[Clock, ...]
    stores: tuple[Store, ...]
    edges: tuple[Edge, ...]
    starts: tuple[Start, ...]
    probes: tuple[Probe, ...]
    emits: tuple[Emit, ...]
    keeps: tuple[Keep, ...] = ()
    derived: tuple[Stream, ...] = ()
    """Streams whose rows are results of queries."""

    @cached_property
    def waves(self) -> int:
        """How many waves follow the reading of the input."""
        return max([1, *(node.wave for node in self.nodes.values()), *(edge.wave for edge in self.edges)])

    @cached_property
    def stores_late(self) -> bool:
        """Whether rows are stored after wave 1: then workers handle what comes to them in the order of its rank."""
        return bool(self.keeps or self.derived)

    @cached_property
    def late_stores(self) -> frozenset[str]:
        """Stores that are filled after wave 1."""
        made = {stream.name for stream in self.derived}
        return frozenset(store.id for store in self.stores if store.members or store.stream in made)

    @cached_property
    def nodes(self) -> Mapping[str, Node]:
        """All nodes, by id."""
        found: tuple[Node, ...] = (*self.probes, *self.keeps, *self.emits)
        return {node.id: node for node in found}

    @cached_property
    def start_by_id(self) -> Mapping[str, Start]:
        """All starts, by id."""
        return {start.id: start for start in self.starts}

    @cached_property
    def edge_by_id(self) -> Mapping[str, Edge]:
        """All edges, by id."""
        return {edge.id: edge for edge in self.edges}

    @cached_property
    def store_by_id(self) -> Mapping[str, Store]:
        """All stores, by id."""
        return {store.id: store for store in self.stores}

    @cached_property
    def emit_of(self) -> Mapping[str, Emit]:
        """Query -> where its results leave."""
        return {emit.query: emit for emit in self.emits}

    @cached_property
    def clocks_at(self) -> Mapping[str, tuple[str, ...]]:
        """Start or node -> the clocks of all queries that use it, sorted."""
        own = {query: clock.id for clock in self.clocks for query in clock.queries}
        found = {name: {own.get(query, NEVER_LATE) for query in node.users} for name, node in self.nodes.items()}
        found |= {start.id: {own.get(query, NEVER_LATE) for query, _ in start.users} for start in self.starts}
        return {name: tuple(sorted(clocks)) for name, clocks in found.items()}

    @cached_property
    def tables(self) -> frozenset[str]:
        """Labels of relations that are tables."""
        tables = {stream.name for stream in (*self.streams, *self.derived) if stream.table}
        labels = {label for emit in self.emits for label, _ in emit.aliases} | {probe.origin for probe in self.probes}
        return frozenset(label for label in labels if stream_of(label) in tables)

    @cached_property
    def looked_up(self) -> frozenset[str]:
        """Stores of tables that change, and of joins of tables of which one does."""
        changing = {stream.name for stream in (*self.streams, *self.derived) if stream.is_looked_up}
        tables = {stream.name for stream in (*self.streams, *self.derived) if stream.table}
        named = {s.id: {stream_of(m) for m in s.members} or {s.stream} for s in self.stores if s.counted != "groups"}
        return frozenset(store for store, streams in named.items() if streams & changing and streams <= tables)

    def stamp(self, label: str) -> tuple[int, str]:
        """What orders the rows of one batch."""
        return self._ranks[stream_of(label)], label

    @cached_property
    def _ranks(self) -> Mapping[str, int]:
        return {stream.name: stream.rank for stream in (*self.streams, *self.derived)}

    @cached_property
    def measures_at(self) -> Mapping[str, frozenset[str]]:
        """Node -> the measures of its tuples that somebody after it wants."""
        found: dict[str, frozenset[str]] = {keep.id: frozenset(self.store(keep.store).measures) for keep in self.keeps}
        found |= {emit.id: emit.measures for emit in self.emits}
        for probe in sorted(self.probes, key=lambda probe: -self.depth[probe.id]):
            found[probe.id] = frozenset().union(*(found[name] for name in probe.then))
        return found

    @cached_property
    def depth(self) -> Mapping[str, int]:
        """Node -> how many nodes a tuple passes before it, at most."""
        found: dict[str, int] = {}
        ahead = [(name, 0) for start in self.starts for name in start.then]
        while ahead:
            name, depth = ahead.pop()
            if found.get(name, -1) < depth:
                found[name] = depth
                node = self.nodes[name]
                ahead += [(after, depth + 1) for after in (node.then if isinstance(node, Probe) else ())]
        return found

    def store(self, name: str) -> Store:
        """The store with this id."""
        return self.store_by_id[name]

    def starts_of(self, query: str) -> dict[str, Start]:
        """Alias -> where its tuples begin on their way to the results; a table has no way of its own."""
        return {alias: starts[0] for alias, starts in self._starts.get(query, {}).items()}

    def all_starts_of(self, query: str) -> dict[str, list[Start]]:
        """Alias -> all places where its tuples begin; the one on the way to the results first."""
        return self._starts.get(query, {})

    @cached_property
    def _starts(self) -> dict[str, dict[str, list[Start]]]:
        before: dict[str, list[str]] = {}
        then = {**{start.id: start.then for start in self.starts}, **{probe.id: probe.then for probe in self.probes}}
        for node, following in then.items():
            for name in following:
                before.setdefault(name, []).append(node)
        found: dict[str, dict[str, list[Start]]] = {}
        for emit in self.emits:
            reached, ahead = set[str](), [emit.id]
            while ahead:
                ahead = [name for after in ahead for name in before.get(after, ())]
                reached.update(ahead)
            mine = found.setdefault(emit.query, {})
            for start in sorted(self._used_by.get(emit.query, ()), key=lambda start: start.id not in reached):
                for alias in (alias for query, alias in start.users if query == emit.query):
                    mine.setdefault(alias, []).append(start)
        return found

    @cached_property
    def _used_by(self) -> dict[str, list[Start]]:
        """Query -> its starts."""
        found: dict[str, list[Start]] = {}
        for start in self.starts:
            for query in dict.fromkeys(query for query, _ in start.users):
                found.setdefault(query, []).append(start)
        return found

    def aliases_of(self, query: str) -> dict[str, str]:
        """Label -> alias, as one query calls the relations."""
        return dict(self.emit_of[query].aliases)

    def __getstate__(self) -> dict[str, object]:
        """Only the plan itself is pickled; the receiver computes the cached values anew."""
        return {name: value for name, value in self.__dict__.items() if name in self.__dataclass_fields__}


@lru_cache(maxsize=4096)
def _key_name(key: Key) -> str:
    also = tuple(map(text_of, key.also))
    return repr(([*map(text_of, key.equal)], key.range and text_of(key.range), *also))


def stream_of(label: str) -> str:
    """The stream behind a label; a stream's name has no tilde."""
    return label.partition("~")[0]


def since_of(label: str) -> int:
    """The first batch whose rows count for a label."""
    return int(label.rpartition("~@")[2].partition(":")[0]) if "~@" in label else 0


def label_since(label: str, since: int, apart: int = 0) -> str:
    """The label of the rows that came in a batch or later, kept apart from others by a number."""
    return f"{label}~@{since}:{apart}" if apart else f"{label}~@{since}" if since else label


@dataclass(frozen=True, slots=True)
class Epoch:
    """A topology and the batches that run under it: from its number to that of the next epoch."""

    number: int
    topology: Topology
