"""Stores while a topology is put together: users that want the same rows in the same place share one store.

    rows of a stream        the stream, its selections, where rows lie
    rows of a join          the labels of its members, the predicates among them, where rows lie

Columns and indexes of all users are united.  Rows are kept as long as any user needs them, by the clock of that user:
each probe checks its own window, and rows that are late for some users are marked.  The id of a store is its name and a
digest of what makes its rows, columns and indexes included.  Until when rows are kept is not part of it.

What must hold: a store is filled once.  Of two plans that keep the same join, the first fills it, in its own way, and
the second looks into it: rows of a join are the same, whichever way makes them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from weft.expr.model import Call, Column, Expr, aliases, text_of, without_alias
from weft.optimizer.graph.layout import Home, names
from weft.optimizer.graph.predicates import window_predicates
from weft.optimizer.lower.labels import digest, predicate_text, shorten
from weft.optimizer.lower.places import place_of_store, spread_of
from weft.optimizer.lower.ways import Ways
from weft.query.model import Query
from weft.query.timebounds import reason
from weft.topology.model import NEVER_LATE, TIME, Clock, Key, Store
from weft.topology.spread import Spread

Ends = tuple[tuple[str, int], ...]
"""(Member, its retention) of the members of a join that do not stay for ever."""


@dataclass
class StoreDraft:
    """A store while its users are still being collected."""

    name: str
    """What its rows are: a stream, or labels."""
    stream: str
    filter: tuple[Expr, ...]
    placement: tuple[Expr, ...]
    tasks: int
    members: tuple[str, ...] = ()
    spread: Spread | None = None
    content: str = ""
    """What else decides its rows: predicates of a join, and where its members lie."""
    columns: set[str] = field(default_factory=set)
    indexes: set[Key] = field(default_factory=set)
    clocks: set[str] = field(default_factory=set)
    """Clocks of all users."""
    kept: dict[str, int] = field(default_factory=dict)
    """Clock -> longest retention of its users."""
    ends: dict[Ends, None] = field(default_factory=dict)
    retention: int | None = 0
    """The longest of all."""
    reason: str = ""
    users: dict[str, None] = field(default_factory=dict)

    @cached_property
    def key(self) -> str:
        """Equal for two stores that are the same, whichever plan uses them."""
        place = [text_of(expr) for expr in self.placement]
        chosen = [text_of(expr) for expr in self.filter]
        return digest(self.name, chosen, place, self.tasks, self.spread, self.content)

    def want(self, clock: str, keep: int | None, why: str) -> None:
        """One more user, who needs rows for some time after their own; None is for ever."""
        self.clocks.add(clock)
        if keep is not None:
            self.kept[clock] = max(keep, self.kept.get(clock, keep))
        longer = keep is None or (self.retention is not None and keep >= self.retention)
        if longer and (self.retention is not None or not self.reason):
            self.retention, self.reason = keep, why

    @cached_property
    def ordered(self) -> tuple[Key, ...]:
        """The indexes, once all users are known, in an order that does not depend on who came first."""
        return tuple(sorted(self.indexes, key=_key_text))

    @cached_property
    def held(self) -> tuple[str, ...]:
        """The columns, once all users are known; with the time if rows can be late or expire."""
        timed = self.retention is not None if self.members else NEVER_LATE not in self.clocks
        return tuple(sorted(self.columns | ({TIME} if timed else set())))

    @cached_property
    def id(self) -> str:
        """Its name, once all users are known."""
        return f"{shorten(self.name)}-{digest(self.key, [*self.held], [*map(_key_text, self.ordered)])}"

    def finish(self) -> Store:
        """The store, once all users are known."""
        # A joined row has one time for all clocks, which allows for the longest retention.
        kept = dict.fromkeys(self.kept, self.retention or 0) if self.members else self.kept
        expires = self.retention is not None
        return Store(
            self.id, self.stream, self.filter, self.held, self.placement, self.ordered,
            tuple(sorted(kept.items())) if expires else (), self.reason, tuple(self.users), self.tasks, self.members,
            tuple(sorted(self.ends)) if expires else (), self.spread,
        )  # fmt: skip


def _key_text(key: Key) -> str:
    return repr(([*map(text_of, key.equal)], key.range and text_of(key.range)))


class StoreDrafts:
    """All stores of a topology, by their keys."""

    def __init__(self) -> None:
        self._drafts: dict[str, StoreDraft] = {}

    @property
    def drafts(self) -> tuple[StoreDraft, ...]:
        """All of them."""
        return tuple(self._drafts.values())

    def relation(self, plan: Ways, label: str, home: Home) -> StoreDraft:
        """The store of one relation in a place."""
        return self._share(_draft_rows(plan, label, home))

    def find_join(self, plan: Ways, store: int, home: Home) -> StoreDraft | None:
        """The store of an intermediate result in a place, if it is there already."""
        return self._drafts.get(_draft_join(plan, store, home).key)

    def join(self, plan: Ways, store: int, home: Home) -> StoreDraft:
        """The store of an intermediate result in a place."""
        return self._share(_draft_join(plan, store, home))

    def _share(self, made: StoreDraft) -> StoreDraft:
        return self._drafts.setdefault(made.key, made)

    def stores(self) -> tuple[Store, ...]:
        """All stores, once all users are known."""
        return tuple(draft.finish() for draft in self._drafts.values())


def want_rows(draft: StoreDraft, plan: Ways, label: str, query: Query) -> None:
    """A user of the rows of a relation; `query` is as its owner wrote it."""
    own = clock_of(plan, label)
    keep = None if own == NEVER_LATE else plan.retention[label]
    draft.want(own, keep, reason(query, query.aliases[plan.query.position(label)]))


def want_joined(draft: StoreDraft, plan: Ways, query: Query) -> None:
    """A user of an intermediate result: it needs a row until the first of its members goes (K-06)."""
    ends = tuple((label, keep) for label in draft.members if (keep := plan.retention[label]) is not None)
    own = clock(plan)
    if own is None or not ends:
        draft.want(NEVER_LATE if own is None else own.id, None, "full history")
        return
    first, keep = min(ends, key=lambda end: end[1])
    why = reason(query, query.aliases[plan.query.position(first)])
    draft.ends[ends] = None
    draft.want(own.id, keep, f"as long as all its members; {why}")


def clock(plan: Ways) -> Clock | None:
    """The clock of a query: all its streams with an event time, if anything ever expires."""
    if not plan.clocked:
        return None
    timed = {r.stream.name: r.stream.lateness for r in plan.query.relations if r.stream.event_time is not None}
    streams = tuple(sorted(timed.items()))
    return Clock(f"clock-{digest(streams)}", streams)


def clock_of(plan: Ways, alias: str) -> str:
    """The clock that decides whether rows of a relation are late."""
    found = clock(plan)
    timed = plan.query.relation(alias).stream.event_time is not None
    return found.id if found is not None and timed else NEVER_LATE


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


def _draft_rows(plan: Ways, alias: str, home: Home) -> StoreDraft:
    stream = plan.query.relation(alias).stream.name
    _, placement, tasks, spread = place_of_store(plan, alias, home)
    return StoreDraft(stream, stream, selection(plan, alias), placement, tasks, spread=spread)


def _draft_join(plan: Ways, store: int, home: Home) -> StoreDraft:
    members = tuple(sorted(names(plan.query, store), key=lambda label: plan.stamps[label]))
    return StoreDraft("+".join(members), "", (), home, plan.tasks(store), members, content=_content(plan, members))


def _content(plan: Ways, members: tuple[str, ...]) -> str:
    """What decides the rows of a join: the predicates among its members, and the workers they meet on."""
    inside = frozenset(members)
    asked = (*plan.query.joins, *window_predicates(plan.query))
    held = sorted(predicate_text(p) for p in asked if aliases(p) <= inside)
    lie = [spread_of(plan, label) for label in members]
    timed = [(label, plan.query.relation(label).stream.event_time) for label in members]
    return repr((held, lie if any(lie) else None, timed))
