"""Stores while a topology is put together: users that want the same rows in the same place share one store.

    rows of a stream        the stream, its selections, where rows lie, the clock that expires them
    rows of a join          the labels of its members, the predicates among them, where rows lie, clock and retention

Columns and indexes of all users are united, and the longest retention wins: each probe checks its own window.  The id
of a store is its name and a digest of all that, columns and indexes included, so equal ids mean equal state.

What must hold: a store is filled once.  Two plans that keep the same join but make its rows in different ways would
fill it twice.  So the second plan gets a store of its own, marked ".2".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa

from weft.expr.model import Call, Column, Expr, aliases, text_of, without_alias
from weft.optimizer.graph.layout import names
from weft.optimizer.graph.predicates import window_predicates
from weft.optimizer.lower.labels import digest, predicate_text, shorten
from weft.optimizer.lower.relabel import with_keys
from weft.optimizer.lower.ways import Ways
from weft.query.model import Query
from weft.query.timebounds import reason
from weft.topology.model import COPY, TIME, Clock, Key, Store, label_since
from weft.topology.spread import Spread


@dataclass
class StoreDraft:
    """A store while its users are still being collected."""

    name: str
    """What its rows are: a stream, or labels."""
    stream: str
    filter: tuple[Expr, ...]
    placement: tuple[Expr, ...]
    clock: str | None
    tasks: int
    members: tuple[str, ...] = ()
    ends: tuple[tuple[str, int], ...] = ()
    spread: Spread | None = None
    since: int = 0
    content: str = ""
    """What else decides its rows: predicates of a join, and where its members lie."""
    copied: bool = False
    """Whether rows of its members lie on several workers."""
    columns: set[str] = field(default_factory=set)
    indexes: set[Key] = field(default_factory=set)
    retention: int | None = 0
    reason: str = ""
    users: list[str] = field(default_factory=list)
    feeding: Mapping[str, str] = field(default_factory=dict)
    """Origin -> the node whose tuples become rows of an intermediate store."""

    @cached_property
    def key(self) -> str:
        """Equal for two stores that are the same, whichever plan uses them."""
        place = [text_of(expr) for expr in self.placement]
        chosen = [text_of(expr) for expr in self.filter]
        return digest(self.name, chosen, place, self.clock, self.tasks, self.ends, self.spread, self.content)

    @cached_property
    def ordered(self) -> tuple[Key, ...]:
        """The indexes, once all users are known, in an order that does not depend on who came first."""
        return tuple(sorted(self.indexes, key=lambda key: key.name))

    @cached_property
    def id(self) -> str:
        """Its name, once all users are known."""
        return f"{shorten(self.name)}-{digest(self.key, sorted(self.columns), [key.name for key in self.ordered])}"

    @property
    def _join(self) -> str:
        """What decides the rows of a join, wherever they lie."""
        return "" if self.copied or not self.members else digest(self.members, self.clock, self.ends, self.content)

    def finish(self) -> Store:
        """The store, once all users are known."""
        return Store(
            self.id, self.stream, self.filter, tuple(sorted(self.columns)), self.placement, self.ordered,
            self.clock, self.retention, self.reason, tuple(self.users), self.tasks, self.members, self.ends,
            self.spread, self.key, self._join, self.since,
        )  # fmt: skip


class StoreDrafts:
    """All stores of a topology, by their keys."""

    def __init__(self) -> None:
        self._drafts: dict[str, StoreDraft] = {}

    def relation(self, plan: Ways, position: int, query: Query) -> StoreDraft:
        """The store of one relation; `query` is as its owner wrote it."""
        label = plan.query.aliases[position]
        draft = self._share(_draft_rows(plan, label))
        draft.columns |= {f.split(".", 1)[1] for f in plan.fields[1 << position]}
        keep = plan.retention[label] if draft.clock else None
        longer = keep is None or (draft.retention is not None and keep >= draft.retention)
        if longer and (draft.retention is not None or not draft.reason):
            draft.retention, draft.reason = keep, reason(query, query.aliases[position])
        return _add_time(draft)

    def join(self, plan: Ways, store: int, feeding: Mapping[str, str], query: Query) -> StoreDraft:
        """The store of an intermediate result whose rows are made in a certain way."""
        made = _draft_join(plan, store)
        if made.ends:
            first = min(made.ends, key=lambda end: end[1])[0]
            why = reason(query, query.aliases[plan.query.position(first)])
            made.reason = f"as long as all its members; {why}"
        base, number = made.name, 2
        while (known := self._drafts.get(made.key)) is not None and known.feeding != feeding:
            made = replace(made, name=f"{base}.{number}")
            number += 1
        draft = self._share(made)
        draft.feeding = feeding
        draft.columns |= set(plan.fields[store])
        return _add_time(draft)

    def _share(self, made: StoreDraft) -> StoreDraft:
        return self._drafts.setdefault(made.key, made)

    def stores(self) -> tuple[Store, ...]:
        """All stores, once all users are known."""
        return tuple(draft.finish() for draft in self._drafts.values())


def _add_time(draft: StoreDraft) -> StoreDraft:
    draft.columns |= {TIME} if draft.clock else set()
    draft.columns |= {COPY} if draft.spread else set()
    return draft


def clock(plan: Ways) -> Clock | None:
    """The clock of a query: all its streams with an event time, if anything ever expires."""
    if not plan.clocked:
        return None
    timed = {r.stream.name: r.stream.lateness for r in plan.query.relations if r.stream.event_time is not None}
    streams = tuple(sorted(timed.items()))
    return Clock(f"clock-{digest(streams)}", streams)


def clock_of(plan: Ways, alias: str) -> str | None:
    """The clock that decides whether rows of a relation are late."""
    found = clock(plan)
    timed = plan.query.relation(alias).stream.event_time is not None
    return found.id if found is not None and timed else None


def selection(plan: Ways, alias: str) -> tuple[Expr, ...]:
    """The selections of a relation, in an order that does not depend on the query's."""
    own = (without_alias(p) for p in plan.query.selections(alias))
    return (*sorted(own, key=text_of), *_require_time(plan, alias))


def _require_time(plan: Ways, alias: str) -> tuple[Expr, ...]:
    """A row without event time is in no window.  Edges with a clock drop it; without one this selection does."""
    relation = plan.query.relation(alias)
    if plan.clocked or relation.window is None or len(plan.query.relations) == 1:
        return ()
    name = str(relation.stream.event_time)
    missing = Call("is_null", (Column("", name, relation.stream.schema.field(name).type),), pa.bool_())
    return (Call("not", (missing,), pa.bool_()),)


def spread_of(plan: Ways, alias: str) -> Spread | None:
    """Where copies of a relation's rows go, in terms of its stream."""
    found = plan.layout.spread.get(1 << plan.query.position(alias))
    return None if found is None else with_keys(found, without_alias)


def _draft_rows(plan: Ways, alias: str) -> StoreDraft:
    relation = plan.query.relation(alias)
    store, stream = 1 << plan.query.position(alias), relation.stream.name
    placement = tuple(without_alias(expr) for expr in plan.layout.placement.get(store, ()))
    return StoreDraft(
        label_since(stream, relation.since, relation.apart), stream, selection(plan, alias), placement,
        clock_of(plan, alias), plan.tasks(store), spread=spread_of(plan, alias), since=relation.since,
    )  # fmt: skip


def _draft_join(plan: Ways, store: int) -> StoreDraft:
    """The store of an intermediate result: a row goes when the first of its members does (K-06)."""
    members = tuple(sorted(names(plan.query, store), key=lambda label: plan.stamps[label]))
    ends = tuple((label, keep) for label in members if (keep := plan.retention[label]) is not None)
    first = min(ends, key=lambda end: end[1], default=None)
    own = clock(plan)
    return StoreDraft(
        "+".join(members),
        "",
        (),
        plan.layout.placement.get(store, ()),
        own.id if own is not None and ends else None,
        plan.tasks(store),
        members,
        ends,
        content=_content(plan, members),
        copied=any(spread_of(plan, label) for label in members),
        retention=None if first is None else first[1],
        reason="full history",
    )


def _content(plan: Ways, members: tuple[str, ...]) -> str:
    """What decides the rows of a join: the predicates among its members, and the workers they meet on."""
    inside = frozenset(members)
    asked = (*plan.query.joins, *window_predicates(plan.query))
    held = sorted(predicate_text(p) for p in asked if aliases(p) <= inside)
    lie = [spread_of(plan, label) for label in members]
    timed = [(label, plan.query.relation(label).stream.event_time) for label in members]
    return repr((held, lie if any(lie) else None, timed))
