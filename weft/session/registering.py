"""The queries of a session: registered, dropped, and changed while it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType

from weft.errors import placed, whole
from weft.host.results.sink import Sink
from weft.host.state.checkpoint import Checkpoint
from weft.optimizer.cost.papers import Arrival
from weft.optimizer.wishes import read_statistics, read_wishes
from weft.optimizer.written.plan import Plan
from weft.query.draft import Draft
from weft.query.parameters import Strategy
from weft.session.arguments import check_choice, check_flags, check_name
from weft.session.changing import refuse_old_rows, require_all_rows
from weft.session.declarations import Declarations
from weft.session.query import QueryHandle
from weft.session.roster import Roster
from weft.session.running import Running
from weft.session.subscriptions import STRATEGIES, Asked, Subscriptions, read_key, read_subscriptions
from weft.stats.model import Statistics

STARTS = ("state", "now")


class Registering(Declarations):
    """Queries over what is declared, each with its sinks."""

    checkpoint: Checkpoint
    _roster: Roster
    _running: Running

    def drop(self, name: str) -> None:
        """Take a query out of the session.  What only it needed is removed from the state with the next batch or run.

        Its results stay where they are.  A query of the checkpoint that the session does not have can be dropped too.
        """
        self._roster.check_drop(name, running=self.is_running)
        with self._changing():
            self._roster.queries.pop(name, None)
            self._roster.dropped.add(name)

    def query(
        self,
        name: str,
        query: str | Draft,
        *,
        cross_product: bool = False,
        closed: bool = False,
        strategy: str | Plan | None = None,
        statistics: Statistics | None = None,
        budget: float | str | None = None,
        placement: str | None = None,
        capacity: float | None = None,
        arrival: Arrival | None = None,
        parallelism: Mapping[str, int] | None = None,
        skewed: Mapping[str, bool] | None = None,
        start: str = "state",
        backfill: bool = False,
        complete: bool = False,
    ) -> QueryHandle:
        """Register a query, as SQL text or from the builder.  A running session answers it from its next batch on.

        If the session has read rows before, `start` says what the query begins with.  "state" joins new rows with what
        other queries have kept of old ones; `backfill` produces results among old rows too, once.  "now" joins only
        rows that come from now on.  `q.complete_from` says from which event time on nothing is missing; `complete`
        refuses the query if anything would be.
        `closed` makes windows closed: a row that is exactly as old as its window still joins.
        `strategy` says which plan to run: "auto" (the one with the lowest estimated cost), "flat", "left_deep", "tree",
        "exhaustive", "views", a cube such as "hypercube:hash" or "hypercube:hash+views", or a `weft.Plan` written by
        hand.  Plans are chosen by `statistics`.  `budget` limits what stores of inputs and intermediate results may
        hold together, in rows (a number) or bytes ("2 GB").
        `placement` is "keyed", or "scattered" to route without keys.  `capacity` is how many rows of a store one worker
        should hold.  `parallelism` says, by alias, on how many workers its store is placed; by default on all.
        `skewed` says, by "alias.column", whether the values of a key are uneven; for cubes, it overrides statistics.
        `arrival` picks the arrival factor of the cost model: "history", "window" or "none".
        """
        check_name("query", name, self._roster.queries)
        check_choice("start", start, STARTS)
        check_flags(cross_product=cross_product, closed=closed, backfill=backfill, complete=complete)
        handle = self._catalog.read_query(name, query, cross_product, closed, self._roster.readable())
        handle.start, handle.backfill, handle.must_be_complete = start, backfill, complete
        require_all_rows(handle)
        handle.wishes = read_wishes(strategy, budget, placement, capacity, arrival, parallelism, skewed)
        handle.statistics = read_statistics(statistics)
        self._register(handle)
        return handle

    def _register(self, handle: QueryHandle) -> None:
        """Add a query to the session."""
        name, handle.asked = handle.name, handle.query
        known = self._roster.known().get(name)
        if known is None and self.checkpoint.last >= 0:
            refuse_old_rows(handle)
        handle.query = self._roster.begin_at(handle, known, self.checkpoint.last + 1)
        handle.on_sink, handle.find_start = self._add_sink, self._roster.complete_from
        with self._changing(added=name):
            self._roster.queries[name] = handle

    def subscriptions(
        self,
        name: str,
        query: str,
        *,
        parameters: object,
        key: str | Sequence[str],
        operation: str | None = None,
        window: str | None = None,
        start: str = "now",
        strategy: Strategy = "auto",
    ) -> Subscriptions:
        """Register one query for many subscribers, who differ in its parameters (`:name`): see docs/subscriptions.md.

        `parameters` brings a row for each subscription; `key` names the columns that tell subscriptions apart.
        Results have these columns first.  `a.add(table)` and `a.remove(keys)` change subscriptions, also while the
        session runs, from the next batch on.  Rows of `parameters` may do the same by a column that `operation` names:
        "insert", "delete" or "update".
        A subscription meets rows that come after it; with `start="state"` these also join with older ones.  A condition
        with a parameter that is NULL always holds.  `window` names a column with a window of the subscription's own, in
        seconds.
        `strategy` is "narrow" (subscriptions are asked before every join), "join" (after it), "auto" (whichever is
        cheaper) or "naive" (after the join, one by one; for comparison).
        """
        check_name("query", name, self._roster.queries)
        check_choice("start", start, STARTS)
        asked = Asked(name, read_key(key), operation, window, check_choice("strategy", strategy, STRATEGIES), start)
        with self.lock, placed(whole(query)):
            handle = read_subscriptions(self._catalog, asked, query, parameters, self.checkpoint.root)
        self._register(handle)
        return handle

    @contextmanager
    def _changing(self, added: str | None = None) -> Iterator[None]:
        """A change of the session.  If it runs, the change is planned at once: if that fails, nothing has changed."""
        with self.lock:
            before = self._roster.snapshot()
            try:
                yield
                self._roster.replan()
                if self.is_running:
                    self.fit()
            except BaseException:
                self._roster.restore(before)
                raise
            if self.is_running:
                self._running.ask(added)
                self._running.improve()

    @property
    def is_running(self) -> bool:
        """Whether a run is going on."""
        return self._running.is_active

    @property
    def queries(self) -> Mapping[str, QueryHandle]:
        """The registered queries by name."""
        return MappingProxyType(self._roster.queries)

    def fit(self) -> None:
        """Fit new queries to the state that is there now."""
        self._roster.fit()

    def _add_sink(self, handle: QueryHandle, sink: Sink) -> None:
        """Add a sink.  While the session runs, its place is reserved at once, and it gets results of later batches."""
        with self.lock:
            if self.is_running:
                sink.claim(self.checkpoint.id, published=False, last=self.checkpoint.last)
            handle.sinks.append(sink)
            self._running.ask()
