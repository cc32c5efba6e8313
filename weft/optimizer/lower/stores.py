"""Stores while a topology is put together: users that want the same rows in the same place share one store.

    rows of a stream        the stream, which of its rows (`lower.unite`), where they lie
    rows of a join          the labels of its members, the predicates among them, where rows lie

Columns and indexes of all users are united.  Rows are kept as long as any user needs them, by the clock of that user:
each probe checks its own window, and rows that are late for some users are marked.  The id of a store is its name and a
digest of what makes its rows, columns and indexes included.  Until when rows are kept is not part of it.

What must hold: a store is filled once.  Of two plans that keep the same join, the first fills it, in its own way, and
the second looks into it: rows of a join are the same, whichever way makes them.  So it is where windows of the members
differ: a plan looks into a join that was made with wider windows, and checks its own on the rows found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cached_property

from weft.expr.implied import Selection
from weft.expr.model import Expr, aliases, columns, text_of
from weft.optimizer.graph.layout import Home, names
from weft.optimizer.graph.predicates import window_predicates
from weft.optimizer.lower.groups import window_clock
from weft.optimizer.lower.labels import digest, predicate_text, shorten
from weft.optimizer.lower.places import place_of_store
from weft.optimizer.lower.unite import United
from weft.optimizer.lower.ways import Ways
from weft.query.model import COPY, TIME, Query
from weft.query.timebounds import reason
from weft.topology.clock import NEVER_LATE, Clock, Policy
from weft.topology.label import label_since
from weft.topology.spread import Spread
from weft.topology.store import Key, Store

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
    since: int = 0
    content: str = ""
    """What else decides its rows: predicates of a join, and where its members lie."""
    measures: tuple[str, ...] | None = None
    """Measures of a counted join; None if rows are kept one by one."""
    copied: bool = False
    """Whether rows of its members lie on several workers."""
    windows: tuple[int | None, ...] = ()
    """Windows of the members of a join; None is full history."""
    loose: str = ""
    """What decides its rows besides the windows, and where they lie."""
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

    def want(self, clock: str, keep: int | None, why: Callable[[], str]) -> None:
        """One more user, who needs rows for some time after their own; None is for ever.

        The reason is that of the first user who needs them longest.
        """
        self.clocks.add(clock)
        if keep is not None:
            self.kept[clock] = max(keep, self.kept.get(clock, keep))
        if not self.reason or (self.retention is not None and (keep is None or keep > self.retention)):
            self.retention, self.reason = keep, why()

    @cached_property
    def ordered(self) -> tuple[Key, ...]:
        """The indexes, once all users are known, in an order that does not depend on who came first."""
        return tuple(sorted(self.indexes, key=lambda key: key.name))

    @cached_property
    def held(self) -> tuple[str, ...]:
        """The columns, once all users are known; with the time if rows can be late or expire."""
        timed = self.retention is not None if self.members else NEVER_LATE not in self.clocks
        hidden = ({TIME} if timed else set()) | ({COPY} if self.spread else set())
        return tuple(sorted(self.columns | hidden))

    @cached_property
    def id(self) -> str:
        """Its name, once all users are known."""
        return f"{shorten(self.name)}-{digest(self.key, [*self.held], [key.name for key in self.ordered])}"

    @property
    def _join(self) -> str:
        """What decides the rows of a join, wherever they lie."""
        return "" if self.copied or not self.members else digest(self.members, self.content)

    def finish(self) -> Store:
        """The store, once all users are known."""
        # A joined row has one time for all clocks, which allows for the longest retention.
        kept = dict.fromkeys(self.kept, self.retention or 0) if self.members else self.kept
        expires = self.retention is not None
        return Store(
            self.id, self.stream, self.filter, self.held, self.placement, self.ordered,
            tuple(sorted(kept.items())) if expires else (), self.reason, tuple(self.users), self.tasks, self.members,
            tuple(sorted(self.ends)) if expires else (), self.spread, self.key, self.since, tuple(sorted(self.clocks)),
            self._join, "" if self.measures is None else "join", self.measures or (),
        )  # fmt: skip


class StoreDrafts:
    """All stores of a topology, by their keys."""

    def __init__(self, united: United, kept: AbstractSet[str] | None) -> None:
        """`kept` are the contents of the stores that there are, None if there is no state."""
        self.united, self.kept = united, kept
        self._drafts: dict[str, StoreDraft] = {}
        self._joins: dict[str, list[StoreDraft]] = {}

    @property
    def drafts(self) -> tuple[StoreDraft, ...]:
        """All of them."""
        return tuple(self._drafts.values())

    def relation(self, plan: Ways, label: str, home: Home) -> StoreDraft:
        """The store of one relation in a place.

        If it keeps more than the relation wants, it has all that the selection reads: another plan may keep less.
        """
        draft = self._share(_draft_rows(plan, label, home, self.united.store(plan, label, home)))
        if (own := plan.selections[label]) != draft.filter:
            draft.columns |= {column.name for part in own for column in columns(part)}
        return draft

    def find_join(self, plan: Ways, store: int, home: Home) -> StoreDraft | None:
        """The store of an intermediate result in a place, if it is there already; windows may be wider."""
        made = draft_join(plan, store, home)
        wider = (known for known in self._joins.get(made.loose, ()) if self._serves(known, made))
        return self._drafts.get(made.key) or next(wider, None)

    def _serves(self, known: StoreDraft, made: StoreDraft) -> bool:
        """Whether a join with other windows has the rows.  What state keeps apart stays apart: to fill a wider join
        may take rows that were never kept."""
        there = self.kept is None or (known.key in self.kept and made.key not in self.kept)
        return there and is_wider(known.windows, made.windows)

    def join(self, plan: Ways, store: int, home: Home) -> StoreDraft:
        """The store of an intermediate result in a place."""
        made = draft_join(plan, store, home)
        if made.key not in self._drafts:
            self._joins.setdefault(made.loose, []).append(made)
        return self._share(made)

    def _share(self, made: StoreDraft) -> StoreDraft:
        return self._drafts.setdefault(made.key, made)

    def stores(self) -> tuple[Store, ...]:
        """All stores, once all users are known."""
        return tuple(draft.finish() for draft in self._drafts.values())


def want_rows(draft: StoreDraft, plan: Ways, label: str, query: Query) -> None:
    """A user of the rows of a relation; `query` is as its owner wrote it."""
    own = clock_of(plan, label)
    keep = None if own == NEVER_LATE else plan.retention[label]
    draft.want(own, keep, lambda: reason(query, query.aliases[plan.query.position(label)]))


def want_joined(draft: StoreDraft, plan: Ways, query: Query) -> None:
    """A user of an intermediate result: it needs a row until the first of its members goes (K-06)."""
    ends = tuple((label, keep) for label in draft.members if (keep := plan.retention[label]) is not None)
    own = plan.clock
    if own is None or not ends:
        draft.want(NEVER_LATE if own is None else own.id, None, lambda: "full history")
        return
    first, keep = min(ends, key=lambda end: end[1])
    alias = query.aliases[plan.query.position(first)]
    draft.ends[ends] = None
    draft.want(own.id, keep, lambda: f"as long as all its members; {reason(query, alias)}")


def clocks(plans: Sequence[Ways], policy: Policy) -> tuple[Clock, ...]:
    """All clocks of some queries."""
    found: dict[str, Clock] = {}
    for plan in plans:
        if (own := plan.clock) is not None:
            known = found.get(own.id, replace(own, policy=policy))
            found[own.id] = replace(known, queries=(*known.queries, plan.name))
        if (own := window_clock(plan, policy)) is not None:
            found.setdefault(own.id, own)
    return tuple(found.values())


def clock_of(plan: Ways, alias: str) -> str:
    """The clock that decides whether rows of a relation are late."""
    found = plan.clock
    timed = plan.query.relation(alias).stream.event_time is not None
    return found.id if found is not None and timed else NEVER_LATE


def _draft_rows(plan: Ways, label: str, home: Home, chosen: Selection) -> StoreDraft:
    relation = plan.query.relation(label)
    stream, since = relation.stream.name, relation.since
    _, placement, tasks, spread = place_of_store(plan, label, home)
    name = label_since(stream, since, relation.apart)
    return StoreDraft(name, stream, chosen, placement, tasks, spread=spread, since=since)


def draft_join(plan: Ways, store: int, home: Home) -> StoreDraft:
    """The store of an intermediate result as one plan wants it."""
    members = tuple(sorted(names(plan.query, store), key=lambda label: plan.stamps[label]))
    copied, tasks = any(label in plan.spreads for label in members), plan.tasks(store)
    joins, windows = (_inside(asked, members) for asked in (plan.query.joins, window_predicates(plan.query)))
    loose = digest(members, [*map(text_of, home)], tasks, _content(plan, members, joins))
    return StoreDraft(
        "+".join(members), "", (), home, tasks, members, content=_content(plan, members, [*joins, *windows]),
        measures=_measures(plan, members), copied=copied,
        windows=tuple(plan.query.relation(label).window for label in members), loose=loose,
    )  # fmt: skip


def _measures(plan: Ways, members: tuple[str, ...]) -> tuple[str, ...] | None:
    """Measures of a join that an aggregate query keeps; None for other queries."""
    if plan.query.grouping is None:
        return None
    return tuple(sorted(measure.name for label in members for measure in plan.measures.get(label, ())))


def check_windows(plan: Ways, draft: StoreDraft) -> tuple[Expr, ...]:
    """The windows of a plan among the members of a join that was made with wider ones."""
    wider = dict(zip(draft.members, draft.windows, strict=True))
    narrow = {label for label in draft.members if plan.query.relation(label).window != wider[label]}
    asked = window_predicates(plan.query, narrow) if narrow else ()
    return tuple(sorted(_inside(asked, draft.members), key=text_of))


def is_wider(windows: Sequence[int | None], others: Sequence[int | None]) -> bool:
    """Whether windows hold all that others do."""
    pairs = zip(windows, others, strict=True)
    return all(mine is None or (other is not None and other <= mine) for mine, other in pairs)


def _inside(asked: Iterable[Expr], members: Iterable[str]) -> list[Expr]:
    inside = frozenset(members)
    return [predicate for predicate in asked if aliases(predicate) <= inside]


def _content(plan: Ways, members: tuple[str, ...], asked: Sequence[Expr]) -> str:
    """What decides the rows of a join: the predicates among its members, and the workers they meet on."""
    held = sorted(map(predicate_text, asked))
    lie = [plan.spreads.get(label) for label in members]
    timed = [(label, plan.query.relation(label).stream.event_time) for label in members]
    return repr((held, lie if any(lie) else None, timed, _measures(plan, members)))
