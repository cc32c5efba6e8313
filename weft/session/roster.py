"""The queries of a session and their plan: all that can change while it runs.

What must hold: the plan is that of the queries as they are; whoever changes one of them calls `replan`.  A change never
takes away what a query has: `fit` sees to that before anything is written.
"""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from weft.errors import PlanError, QueryError, WeftError, not_too_deep
from weft.host.state.checkpoint import FILES, Checkpoint, describe, describe_query, is_same_query
from weft.host.state.manifest import Manifest
from weft.host.work import Work
from weft.optimizer.choose import Choice
from weft.optimizer.cost.prices import Prices
from weft.optimizer.plan import Sharing, topology
from weft.optimizer.wishes import Wishes, inherited
from weft.query.derived import apart_of, begin_at, hidden, keep_apart, reads
from weft.query.model import Query
from weft.query.views import View, Views
from weft.session.catalog import Catalog
from weft.session.complete import as_moment, complete_from, say_moment
from weft.session.fit import Fit, refuse_incomplete, refuse_loss
from weft.session.notes import noting
from weft.session.planning import Inputs, Request, SeenBefore, merge_statistics, plan_queries, remember_choice
from weft.session.query import QueryHandle
from weft.session.snapshot import Snapshot
from weft.stats.model import Statistics
from weft.topology.clock import Policy
from weft.topology.model import Topology


class Roster:
    """The queries, what is wished of their plans, and the plan."""

    def __init__(
        self, checkpoint: Checkpoint, catalog: Catalog, lock: threading.RLock, cores: Callable[[], int]
    ) -> None:
        self.checkpoint, self.catalog, self.lock, self._cores = checkpoint, catalog, lock, cores
        self.queries: dict[str, QueryHandle] = {}
        self.dropped: set[str] = set()
        """Queries of the checkpoint that are meant to go."""
        self.asked_workers: int | None = None
        self.policy: Policy = "min"
        self.sharing: Sharing = "global"
        self.wishes, self.prices = Wishes(), Prices.load()
        self.given = Statistics()
        """Given by hand."""
        self.statistics: Statistics | None = None
        """Given by hand or measured, for all queries."""
        self.planned: tuple[Choice, ...] | None = None
        self.assembled: Topology | None = None

    def replan(self) -> None:
        """Forget the plan: it is made anew when it is asked for."""
        self.planned = self.assembled = None

    @property
    def workers(self) -> int:
        """How many workers the plan is made for: as asked, else those of the checkpoint, else one per core."""
        if self.asked_workers is not None:
            return self.asked_workers
        known = self.checkpoint.workers()
        return self._cores() if known is None else known

    @property
    @not_too_deep
    def topology(self) -> Topology:
        """The plan of all queries."""
        with self.lock:
            if self.assembled is None:
                state = Fit.read(self.checkpoint.root)
                old = None if state is None else state.old
                self.assembled = topology(self.choices, self.policy, self.sharing, old)
            return self.assembled

    @property
    @not_too_deep
    def choices(self) -> tuple[Choice, ...]:
        """The plan of each query, and what it was chosen from."""
        if not self.queries:
            raise PlanError("the session has no query", hint='add one: s.query("name", "SELECT ...").')
        if self.planned is None:
            # Sorted by name, not by registration: a session that resumes must get the plan its state was made by.
            requests = {name: self._request(self.queries[name]) for name in sorted(self.queries)}
            requests |= self._parts(requests)
            kept = self.kept()
            kept |= hidden(kept)
            made = {name: plan for name, plan in self.checkpoint.plans().items() if name in kept}
            self.planned = plan_queries(
                requests, self.workers, self.prices, self.inputs(), self.given, made, self.sharing,
                SeenBefore.read(self.checkpoint) if made else None,
            )  # fmt: skip
        return self.planned

    def _parts(self, requests: Mapping[str, Request]) -> dict[str, Request]:
        """What queries read and nobody registered, each with the strategy of the first query that reads it."""
        found: dict[str, Request] = {}
        for name, request in requests.items():
            for part, query in hidden({name: request.query}).items():
                wishes = inherited(request.wishes, query)
                found.setdefault(part, Request(query, wishes, self.statistics, self.given))
        return {name: found[name] for name in sorted(found)}

    def readable(self) -> Views:
        """The queries that others may read FROM, as views; a name of a stream or a view means that."""
        shown = {name: handle for name, handle in self.queries.items() if handle.query.subscribers is None}
        own = {name: View(handle.draft, (), handle.views) for name, handle in shown.items()}
        return {name: view for name, view in own.items() if name not in self.catalog.streams} | dict(self.catalog.views)

    def readers(self, name: str) -> list[str]:
        """The queries that read a query."""
        if name in self.catalog.streams or name in self.catalog.views:
            return []
        return sorted(other for other, handle in self.queries.items() if name in reads(handle.draft))

    def check_drop(self, name: str, *, running: bool) -> None:
        """Refuse to drop a query that is not there, that others read, or that is the last one of a run."""
        if name not in self.queries and name not in self.checkpoint.queries():
            known = sorted({*self.queries, *self.checkpoint.queries()})
            raise QueryError(
                f'the session has no query "{name}"',
                detail=f"its queries are {', '.join(known) or 'none'}.",
                hint="drop one of these." if known else "leave the drop out.",
            )
        if readers := self.readers(name):
            raise QueryError(
                f'query "{name}" is read by others',
                detail=f"they are: {', '.join(readers)}.",
                hint=f'drop them first: s.drop("{readers[0]}").',
            )
        if running and {*self.queries} == {name}:
            raise PlanError(
                f'query "{name}" is the last one of a running session',
                detail="a session without a query has nothing to do.",
                hint="add another query first, or stop the run: h.stop().",
            )

    def _request(self, handle: QueryHandle) -> Request:
        """A query with its wishes and statistics, and those of the session."""
        wishes = replace(self.wishes, **handle.wishes)
        given = merge_statistics(self.given, handle.statistics)
        return Request(handle.query, wishes, merge_statistics(self.statistics, handle.statistics), given)

    def inputs(self) -> Inputs:
        """What statistics are measured on."""
        return Inputs(self.catalog.streams, self.catalog.sources, self.catalog.functions)

    def _plans(self) -> dict[str, dict[str, str]]:
        """Query -> the strategy that was asked for, and the plan that was made."""
        return {choice.name: remember_choice(choice, self.sharing) for choice in self.choices}

    def kept(self) -> dict[str, Query]:
        """The queries that the checkpoint has too, as they are.  One that was replaced is a new query."""
        known = self.checkpoint.queries()
        own = {name: handle.query for name, handle in self.queries.items()}
        same = (name for name in own if name in known and is_same_query(known[name], describe_query(own[name])))
        return {name: own[name] for name in same}

    def describe(self) -> dict[str, Any]:
        """What the checkpoint must know of the session."""
        queries = {name: handle.query for name, handle in self.queries.items()}
        mine = describe(self.topology, queries, self.catalog.sources, self._plans())
        brought = self.checkpoint.brought()
        return {
            **mine,
            "streams": {**self.checkpoint.streams(), **mine["streams"]},
            "brought": self._brought() if brought is None else brought,
        }

    def _brought(self) -> list[str]:
        """What Spark's Structured Streaming brings: all DataFrames that are declared when the first batch is read, and
        FILES if there are files besides.  Spark cannot add any later.
        """
        frames = [name for name, source in self.catalog.sources.items() if source.frame is not None]
        return [*([FILES] if len(frames) < len(self.catalog.sources) else []), *frames] if frames else []

    def snapshot(self) -> Snapshot:
        """All that can change while the session runs."""
        with self.lock:
            return Snapshot(
                dict(self.queries), frozenset(self.dropped), self.asked_workers, self.wishes, self.given,
                self.statistics, self.planned, self.assembled,
            )  # fmt: skip

    def restore(self, before: Snapshot) -> None:
        """Undo all changes since a snapshot."""
        with self.lock:
            self.queries, self.dropped = dict(before.queries), {*before.dropped}
            self.asked_workers, self.wishes = before.workers, before.wishes
            self.given, self.statistics = before.given, before.statistics
            self.planned, self.assembled = before.planned, before.assembled

    def adopt(self, found: tuple[Choice, ...]) -> bool:
        """Go on with other plans of the same queries; if they do not fit the state, nothing changes."""
        with self.lock:
            before = self.snapshot()
            try:
                self.planned, self.assembled = found, None
                self.fit()
            except WeftError:
                self.restore(before)
                return False
            return True

    def forget(self, name: str) -> None:
        """Take a new query out again, as if it had never been added."""
        with self.lock:
            del self.queries[name]
            self.replan()

    def note_made(self, change: Snapshot) -> None:
        """The checkpoint has the session as it was at a snapshot: the queries dropped until then are gone."""
        with self.lock:
            self.dropped -= change.dropped

    def work(self) -> Work:
        """What a run works on now."""
        with self.lock:
            sinks = {name: tuple(handle.sinks) for name, handle in self.queries.items()}
            kept = self.kept()
            new = (name for name, handle in self.queries.items() if handle.backfill and name not in kept)
            note = noting(self.topology, self.policy, self.queries, self.choices, kept, self.checkpoint.notes())
            functions, sources = self.catalog.functions, dict(self.catalog.sources)
            return Work(self.topology, functions, sinks, sources, self.describe(), tuple(new), note=note)

    def incomplete(self, plan: Topology, manifest: Manifest) -> dict[str, str]:
        """Query -> from when on it is complete, for queries that lack old rows."""
        queries = {name: handle.query for name, handle in self.queries.items() if name in plan.emit_of}
        found = complete_from(plan, queries, manifest.newest, manifest.partial, self.policy, manifest.idle)
        return {name: say_moment(moment) for name, moment in found.items()}

    def complete_from(self, handle: QueryHandle) -> datetime.datetime | None:
        """From which event time on results of a query are complete; before it runs, what a run now would say."""
        state = Fit.read(self.checkpoint.root)
        if state is None:
            return None
        plan = state.old if handle.name in self.kept() else self.topology
        found = state.complete_from(plan, {handle.name: handle.query}, self.policy)
        return as_moment(found[handle.name]) if found else None

    def fit(self) -> None:
        """Fit new queries to the state that is there now.

        No query may lose what it has.  Where queries would share a store that cannot be made whole for both, they get
        stores of their own.
        """
        state = Fit.read(self.checkpoint.root)
        if state is None:
            return
        self.checkpoint.check_streams(self.describe())
        known = self.known()
        for name, handle in self.queries.items():
            self._begin_query(handle, self.begin_at(handle, known.get(name), state.manifest.batch + 1))
        new = {*self.queries} - {*self.kept()}
        while hurt := state.hurt(self.topology, self._asked(lambda handle: handle.name not in new), self.policy):
            apart = state.keep_apart(self.topology, self._asked(), new, hurt)
            if not apart:
                raise refuse_loss(hurt)
            for name, query in apart.items():
                self._begin_query(self.queries[name], query)
        strict = self._asked(lambda handle: handle.name in new and handle.must_be_complete)
        refuse_incomplete(state.complete_from(self.topology, strict, self.policy))
        state.refuse_lost_past(self.topology, [name for name in strict if self.queries[name].backfill])

    def _asked(self, which: Callable[[QueryHandle], bool] = lambda _: True) -> dict[str, Query]:
        return {name: handle.query for name, handle in self.queries.items() if which(handle)}

    def begin_at(self, handle: QueryHandle, known: Mapping[str, Any] | None, batch: int) -> Query:
        """A query as the checkpoint has it, or one that begins with a batch."""
        if known is not None:
            return keep_apart(begin_at(handle.asked, known["since"]), known["apart"])
        return begin_at(handle.asked, dict.fromkeys(handle.asked.aliases, batch) if handle.start == "now" else {})

    def _begin_query(self, handle: QueryHandle, query: Query) -> None:
        """Set the batches from which on rows count for a query."""
        if query != handle.query or apart_of(query) != apart_of(handle.query):
            handle.query = query
            self.replan()

    def known(self) -> dict[str, Any]:
        """The queries of the checkpoint that stay as they are."""
        return {name: said for name, said in self.checkpoint.queries().items() if name not in self.dropped}
