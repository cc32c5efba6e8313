"""What a new plan can use of the state of the old one: store by store, before anything is changed.

    take    the old store holds these rows in these places, with at least these columns and indexes: nothing is copied
    move    an old store of the stream or join holds these rows, elsewhere or with more: they are read and sent anew
    reread  a table that no old store has whole: its source is read again, as far as it was read before
    fill    an intermediate result: it is joined from the stores of its members, started from one of them
    lack    no old store has the rows: the new one begins empty

What must hold: after the migration a store has exactly the rows that it would have had under the new plan from the
first batch on, as far as rows are kept at all.  Where that cannot be, `partial` says from which event time on the store
is whole: it has all rows that are later than that, or all joined rows whose members all are.

Rows of an old store can be used for a relation of the same stream if the relation's selection implies that of the
store, and the store has the columns that are needed.

A store drops rows that are late for all its clocks, and marks those that are late for some.  So it does not tell which
rows are late by another clock.  `untold` names the clocks of a new store by which other old stores do.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from weft.expr.implied import implies
from weft.expr.model import Expr, columns
from weft.host.migration.cascade import Cascade, Derivation
from weft.host.migration.ways import Way, remaining, ways_to
from weft.host.state.compaction import horizon
from weft.host.state.manifest import EVER, NEVER, Manifest
from weft.query.model import COPY, TIME
from weft.topology.label import since_of, stream_of
from weft.topology.model import Topology
from weft.topology.node import Probe
from weft.topology.store import Store


@dataclass(frozen=True, slots=True)
class Fill:
    """An intermediate store is filled from all rows of one member, along one way."""

    store: str
    way: Way
    source: str
    """The old store that has the member's rows; empty if the member is a table that is read again."""


@dataclass(frozen=True)
class Comparison:
    """How each store of the new plan is made."""

    takes: Mapping[str, str] = field(default_factory=dict)
    """New store -> the old one that becomes it."""
    moves: Mapping[str, str] = field(default_factory=dict)
    """New store -> the old one whose rows are sent anew."""
    rereads: tuple[str, ...] = ()
    """New stores of tables whose sources are read again."""
    fills: tuple[Fill, ...] = ()
    """Smaller joins first."""
    lacks: tuple[str, ...] = ()
    """New stores that begin empty although their streams have been read."""
    partial: Mapping[str, int] = field(default_factory=dict)
    """New store -> the event time after which it is whole; NEVER if its rows have no event time."""
    untold: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """New store -> clocks by which it would have rows that are late, or lack rows that are not."""
    cascade: Cascade | None = None
    """How rows of derived streams are made."""

    @property
    def derivations(self) -> tuple[Derivation, ...]:
        """How rows of derived streams are made, in order."""
        return () if self.cascade is None else self.cascade.derivations


def compare(old: Topology, new: Topology, manifest: Manifest, wanted: Collection[str] = ()) -> Comparison:
    """How the stores of `new` are made from the state of `old`, and from tables that are read again.

    `wanted` are new queries whose results among old rows are wanted.
    """
    return Sources(old, new, manifest).compare(wanted)


class Sources:
    """Finds rows for the new plan in the stores of the old one."""

    def __init__(self, old: Topology, new: Topology, manifest: Manifest) -> None:
        self.old, self.new, self.manifest = old, new, manifest
        self._marks = {**manifest.watermarks(old), **manifest.watermarks(new)}
        self._held = manifest.held
        self._by_content = {store.content: store for store in old.stores}
        self._streams = {stream.name: stream for stream in (*new.streams, *new.derived)}
        self._partial: dict[str, int] = {}
        self._untold: dict[str, frozenset[str]] = {}

    def compare(self, wanted: Collection[str] = ()) -> Comparison:
        """How each new store is made; `wanted` are new queries whose results among old rows are wanted."""
        takes: dict[str, str] = {}
        moves: dict[str, str] = {}
        fills: list[Fill] = []
        lacks: list[str] = []
        rereads: list[str] = []
        for store in sorted(self.new.stores, key=lambda s: (len(s.members), s.id)):
            known = self._taken(store)
            sure = known is not None and not self._not_told(known, store.clocks)
            source = None if sure else self._source_of(store)
            if known is not None and (source is None or self._tells_no_less(known, source, store)):
                takes[store.id] = known.id
                self._note(store, self._whole_from(known, store), known)
            elif source is not None:
                moves[store.id] = source.id
                self._note(store, self._whole_from(source, store), source)
            elif store.members and (fill := self._fill(store)) is not None:
                fills.append(fill)
                self._note(store, self._whole_way(fill), self.old.store(fill.source) if fill.source else None)
            elif self._was_read(store) and not store.members and self._is_read(store.stream):
                rereads.append(store.id)
            elif self._was_read(store) and store.counted != "groups":
                lacks.append(store.id)
                self._note(store, self._newest(store))
        there = {*takes, *moves, *rereads, *(fill.store for fill in fills)}
        cascade = Cascade(self.new, there, self._start, wanted)
        self._note_derived(cascade)
        return Comparison(
            takes, moves, tuple(rereads), tuple(fills), tuple(lacks), self._partial, self._untold, cascade
        )

    # ---------------------------------------------------------------------------------------- rows

    def find(
        self, label: str, chosen: tuple[Expr, ...], needs: frozenset[str], clocks: tuple[str, ...] = ()
    ) -> Store | None:
        """The old store that has the rows of a relation: the most complete one, then the smallest.

        One with the same clocks has refused and marked the same late rows, and is taken before others.
        """
        usable = [store for store in self.old.stores if self._has(store, label, chosen, needs)]
        return min(
            usable,
            key=lambda store: (self._lacks_more(store, clocks), self._whole_from(store), self._held.get(store.id, 0)),
            default=None,
        )

    def _lacks_more(self, store: Store, clocks: tuple[str, ...]) -> tuple[bool, bool]:
        partial = store.id in self.manifest.partial
        return partial or bool(self._not_told(store, clocks)), partial or not {*clocks} <= {*store.clocks}

    def _taken(self, store: Store) -> Store | None:
        """The old store that can become a new one as it is."""
        known = self._by_content.get(store.content)
        return known if known is not None and _covers(known, store) else None

    def _tells_no_less(self, one: Store, other: Store, new: Store) -> bool:
        return self._not_told(one, new.clocks) <= self._not_told(other, new.clocks)

    def _not_told(self, store: Store, clocks: Collection[str]) -> frozenset[str]:
        """Clocks by which rows were late that this old store does not tell from others, and another one does."""
        totals, streams = self.manifest.totals, {stream_of(label) for label in store.members or (store.label,)}
        if not any(totals.late.get(stream) or totals.untimed.get(stream) for stream in streams):
            return frozenset()
        same = (store.join, store.stream, since_of(store.label))
        alike = (s for s in self.old.stores if (s.join, s.stream, since_of(s.label)) == same)
        return frozenset(clock for s in alike for clock in s.clocks if clock in clocks and clock not in store.clocks)

    def _source_of(self, store: Store) -> Store | None:
        if store.members:
            return self._same_join(store)
        keys = [*store.placement, *(store.spread.keys if store.spread else ())]
        needs = {*store.columns, *(c.name for expr in keys for c in columns(expr))}
        return self.find(store.label, store.filter, frozenset(needs), store.clocks)

    def _same_join(self, store: Store) -> Store | None:
        """The old store of the same join, elsewhere; where its members are copied, so are its rows."""
        keys = (c.field for expr in store.placement for c in columns(expr))
        needs = {*store.columns, *keys, *(f"{label}.{TIME}" for kept in store.ends for label, _ in kept)}
        usable = [
            known
            for known in self.old.stores
            if store.join and known.join == store.join and _is_kept_alike(known, store) and needs <= {*known.columns}
        ]
        return min(
            usable,
            key=lambda known: (len(self._not_told(known, store.clocks)), self._whole_from(known, store), known.id),
            default=None,
        )

    def _start(self, way: Way) -> Store | None:
        return self.find(way.start.label, way.selection, way.needs, way.clocks)

    def _note_derived(self, cascade: Cascade) -> None:
        """Remember which groups, and which stores of derived streams, begin without rows that were read before."""
        for query in sorted(cascade.lacking):
            emit = self.new.emit_of[query]
            if any(self.manifest.totals.rows_in.get(stream_of(label)) for label, _ in emit.aliases):
                stores = [s.id for s in self.new.stores if s.stream == emit.into and s.id not in cascade.there]
                stores += (
                    [emit.groups.store] if emit.groups is not None and emit.groups.store not in cascade.there else []
                )
                self._partial.update(dict.fromkeys(stores, NEVER))

    def _has(self, store: Store, label: str, chosen: tuple[Expr, ...], needs: frozenset[str]) -> bool:
        if store.stream != stream_of(label) or since_of(store.label) != since_of(label):
            return False
        there, time = {*store.columns, COPY}, {TIME, self._streams[store.stream].event_time}
        there |= {name for name in time if name is not None} if there & time else set()
        reads = {c.name for expr in remaining(chosen, store.filter) for c in columns(expr)}
        return needs | reads <= there and implies(chosen, store.filter)

    def _fill(self, store: Store) -> Fill | None:
        """From which member a join is filled: the one with the fewest rows."""
        ways = [
            way for keep in self.new.keeps if keep.store == store.id for way in ways_to(self.new, keep.origin, keep.id)
        ]
        found = [
            Fill(store.id, way, source.id)
            for way in ways
            if (source := self.find(way.start.label, way.selection, way.needs, store.clocks)) is not None
        ]
        if not found:
            found = [Fill(store.id, way, "") for way in ways if self._is_read(way.edge.stream)]
        return min(found, key=lambda fill: self._fill_price(fill, store), default=None)

    def _fill_price(self, fill: Fill, store: Store) -> tuple[int, int, str]:
        untold = self._not_told(self.old.store(fill.source), store.clocks) if fill.source else ()
        return len(untold), self._held.get(fill.source, 0), fill.way.start.id

    def _is_read(self, stream: str) -> bool:
        """Whether it is a table whose rows can be read again."""
        return self._streams[stream].table and not self._streams[stream].depth

    # ------------------------------------------------------------------------------------ wholeness

    def _note(self, store: Store, whole: int, source: Store | None = None) -> None:
        """Remember what a store lacks: rows up to some time, unless it needs none of them, and clocks of late rows."""
        if whole > self._needless(store):
            self._partial[store.id] = whole
        if source is not None and (untold := self._not_told(source, store.clocks)):
            self._untold[store.id] = untold

    def _whole_from(self, store: Store, new: Store | None = None) -> int:
        """The event time after which an old store is whole: by how it began and by what it has dropped.

        A join is compared with one that keeps the same rows by other clocks.
        """
        began, dropped = self.manifest.partial.get(store.id, EVER), horizon(store, self._marks)
        if store.members and new is not None:
            limit = horizon(new, self._marks)
            dropped = None if dropped is None or (limit is not None and limit >= dropped) else dropped
        return began if dropped is None else max(began, dropped - 1)

    def _needless(self, store: Store) -> int:
        """No row that the store needs has this event time or an earlier one, nor has any member of a joined row."""
        limit = horizon(store, self._marks)
        if limit is None or any(len(kept) < len(store.members) for kept in store.ends):
            return EVER
        longest = max((keep for kept in store.ends for _, keep in kept), default=store.retention or 0)
        return max(EVER, limit + (store.retention or 0) - longest - 1)

    def _whole_way(self, fill: Fill) -> int:
        """A join is whole where all the stores that make it have the rows of their members that it needs."""
        store = self.new.store(fill.store)
        needs = self._member_needs(store)
        found: list[tuple[tuple[str, ...], int]] = [
            ((fill.way.start.label,), self._whole_from(self.old.store(fill.source)) if fill.source else EVER)
        ]
        met = (node for node in fill.way.nodes if isinstance(node, Probe))
        found += [(node.members, self._partial.get(node.store, EVER)) for node in met]
        return max((w for labels, w in found if any(w > needs.get(label, EVER) for label in labels)), default=EVER)

    def _member_needs(self, store: Store) -> dict[str, int]:
        """Member of a join -> the join needs no row of it with this event time or an earlier one."""
        limit, found = horizon(store, self._marks), dict[str, int]()
        for label in store.members if limit is not None else ():
            keeps = [dict(kept).get(label) for kept in store.ends]
            if limit is not None and keeps and None not in keeps:
                found[label] = limit + (store.retention or 0) - max(keep for keep in keeps if keep is not None) - 1
        return found

    def _was_read(self, store: Store) -> bool:
        return any(self.manifest.totals.rows_in.get(stream_of(label)) for label in store.members or (store.label,))

    def _newest(self, store: Store) -> int:
        """Rows of a store that come from now on may all be later than this; NEVER if a stream has no event time."""
        streams = {stream_of(label) for label in store.members or (store.label,)}
        read = [name for name in streams if self.manifest.totals.rows_in.get(name)]
        return max(self.manifest.newest.get(name, NEVER) for name in read)


def _covers(old: Store, new: Store) -> bool:
    """Whether segments of an old store can be used as those of a new one that holds the same rows.

    The times of joined rows are computed from how long their members are kept.
    """
    asked = {key.name for key in new.indexes}
    return _is_kept_alike(old, new) and {*new.columns} <= {*old.columns} and asked <= {key.name for key in old.indexes}


def _is_kept_alike(old: Store, new: Store) -> bool:
    """Whether the times of rows mean the same in two stores."""
    return (old.ends, old.retention) == (new.ends, new.retention) if new.members else True
