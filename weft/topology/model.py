"""A topology: what is kept where, and which tuples look into which stores, in which order.

    stream --edge--> worker:  keep in stores, start probes
    probe  --route-> worker:  look into one store, hand the matches on, keep them as an intermediate result, emit them

The *way* of a tuple is the line of nodes (probes, keeps, an emit) that it passes.  A relation may have several starts:
one way to the results of a query, others that fill intermediate stores in another order.  A *wave* is one exchange of
tuples between workers and the work after it; a batch runs all its waves one after the other.

Everything a host needs is in this folder, and nothing else: no queries, no statistics.  Here are the topology itself,
and how rows come to the workers (edges) and begin their way (starts).  `store` says what is kept, `node` what tuples
pass, `clock` what is late, `label` how relations are called.

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

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from weft.expr.model import Expr
from weft.query.model import Stream
from weft.topology.clock import NEVER_LATE, Clock
from weft.topology.label import stream_of
from weft.topology.node import Emit, Keep, Measure, Node, Probe, Route
from weft.topology.spread import Spread
from weft.topology.store import Store


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

    def all_starts_of(self, query: str) -> dict[str, list[Start]]:
        """Alias -> all places where its tuples begin, the one on the way to the results first; a table has none."""
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


@dataclass(frozen=True, slots=True)
class Epoch:
    """A topology and the batches that run under it: from its number to that of the next epoch."""

    number: int
    topology: Topology
