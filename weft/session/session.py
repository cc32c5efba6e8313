"""A session: streams, queries, sinks, one checkpoint, one run.

s = weft.Session(checkpoint="state")
s.stream("orders", weft.read.parquet("in/orders"), event_time="o_ts", lateness="10 seconds")
q = s.query("late_orders", "SELECT ...")
q.to_parquet("out/late_orders")
print(s.run())
"""

from __future__ import annotations

import datetime
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa

from weft.errors import PlanError, QueryError
from weft.explain import Subject, explain
from weft.explain.uneven import uneven_load
from weft.host.crash import CrashPoint
from weft.host.results.sink import Sink
from weft.host.run import Run
from weft.host.sources.folders import BadFiles
from weft.host.sources.refreshed import CHANGE
from weft.host.sources.source import Source
from weft.host.state.checkpoint import Checkpoint
from weft.host.state.manifest import Manifest
from weft.host.state.room import telling_room
from weft.host.work import Work
from weft.observe.counters import Counters
from weft.observe.live import Live, choose_live
from weft.observe.notice import Notice
from weft.observe.report import RunReport
from weft.optimizer.choose import Choice
from weft.optimizer.cost.papers import Arrival
from weft.optimizer.plan import SHARINGS, Sharing
from weft.optimizer.wishes import read_statistics, read_wishes
from weft.optimizer.written.plan import Plan
from weft.query.changes import Format
from weft.query.draft import Draft
from weft.query.duration import parse_duration
from weft.query.model import Stream, Unit
from weft.query.parameters import Strategy
from weft.read import as_source
from weft.session.adapting import Following, open_adaptation, promise_cure, show_switches
from weft.session.arguments import (
    check_choice,
    check_name,
    check_spark,
    check_whole,
    read_bad_files,
    read_idle,
    read_timing,
    refuse_static,
)
from weft.session.catalog import Catalog, refuse_frame
from weft.session.changes import SessionChanges
from weft.session.changing import (
    read_changes,
    read_names,
    read_refreshed,
    refuse_dated_envelopes,
    refuse_old_rows,
    require_all_rows,
)
from weft.session.following import listen
from weft.session.improve import improve, is_unfinished
from weft.session.outlets import check_sinks, claim_sinks, publish_results_left, visit_sinks
from weft.session.planning import (
    read_measured,
    read_observed,
)
from weft.session.query import QueryHandle
from weft.session.roster import Roster
from weft.session.run import Handle, Journal, Watch
from weft.session.shown import markup_session, show_session
from weft.session.snapshot import Snapshot
from weft.session.subscriptions import STRATEGIES, Asked, Subscriptions, read_key, read_subscriptions
from weft.session.window import Window
from weft.stats.drawn import ROWS
from weft.stats.model import Statistics
from weft.topology.model import Policy, Topology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from weft.console.serve import Console


POLICIES: tuple[Policy, ...] = ("min", "max")
STARTS = ("state", "now")


class Session:
    """Streams and the queries that join them, run from one checkpoint."""

    def __init__(
        self,
        checkpoint: str | os.PathLike[str],
        spark: SparkSession | None = None,
        workers: int | None = None,
        *,
        progress: bool | Live | None = None,
    ) -> None:
        """Open a session on a checkpoint folder.

        If `spark` is None, a local Spark session is started.  If `workers` is None, the number is that of the
        checkpoint, or one worker per core.  `progress` shows a live line; None shows it on a terminal only.
        Or it is an object that shows the run: see `weft.observe.live.Live`.
        """
        check_spark(spark)
        self.checkpoint = Checkpoint(checkpoint)
        self._spark = spark
        self.lock = threading.RLock()
        """Held while the session changes, and while a run takes it as it is."""
        self._catalog = Catalog()
        self._roster = Roster(self.checkpoint, self._catalog, self.lock, self._cores)
        self._roster.asked_workers = None if workers is None else check_whole("workers", workers)
        self._progress = progress
        self._following = Following()
        self._handle: Handle | None = None
        self._changes: SessionChanges | None = None
        self._window = Window()
        self.crash_point: CrashPoint | None = None
        """Where the next run dies; for tests."""

    def stream(
        self,
        name: str,
        source: object,
        *,
        event_time: str | None = None,
        unit: Unit = "s",
        lateness: str | datetime.timedelta | float | None = None,
        unique: Sequence[str] = (),
        bad_files: BadFiles = "fail",
        changes: str | None = None,
        key: str | Sequence[str] = (),
        format: Format = "rows",  # noqa: A002 - the word that sources use
        idle: str | datetime.timedelta | float | None = None,
        static: bool = False,
    ) -> Stream:
        """Declare an input.  `source` is a Spark streaming DataFrame or one of `weft.read`.

        Of a DataFrame with `withWatermark`, its column and delay are the event time and the lateness, unless others
        are given here.  Without a lateness, rows that are older than the newest one of their stream may be dropped.
        `bad_files` says what happens if a file cannot be read: "fail" ends the run and says which, "skip" leaves the
        file out, says so in the report, and goes on.
        `changes` names a column that says what happens to its row: insert or delete, +I, -U, +U or -D, +1 or -1.
        `key` names columns: a new row with the same key replaces the old one; a row that is deleted, or in which all
        other columns are NULL, takes it away.  `format="debezium"` reads envelopes with the rows before and after.
        Queries over a stream that changes are views: what is deleted takes back its results; see docs/changes.md.
        `idle` says after how long without a row the watermark of others goes on without this stream; rows that come
        too late when it wakes are dropped and counted.  `static` declares a table, see :meth:`table`.
        """
        if static:
            refuse_static(name, event_time, lateness, idle)
            return self.table(name, source, key=key, changes=changes, format=format)
        self._catalog.check_free("stream", name)
        read = read_bad_files(name, as_source(name, source), bad_files)
        event_time, late = read_timing(read, event_time, lateness)
        named = read_names(unique)
        schema, how = read_changes(name, read.schema, changes, format, read_names(key), event_time)
        stream = Stream(name, schema, event_time, unit, late, named, changes=how, idle=read_idle(idle))
        with self.lock:
            self._catalog.add_stream(stream, read)
        if self._spark is None and read.frame is not None:
            self._spark = read.frame.sparkSession
        return stream

    def table(
        self,
        name: str,
        source: object,
        *,
        key: str | Sequence[str] = (),
        changes: str | None = None,
        format: Format = "rows",  # noqa: A002 - the word that sources use
        event_time: str | None = None,
        unit: Unit = "s",
        lateness: str | datetime.timedelta | float | None = None,
        idle: str | datetime.timedelta | float | None = None,
        refresh: bool = False,
    ) -> Stream:
        """Declare a table: rows of streams are looked up in it, and need not be stored for it.

        Without more it is read once, whole, by the first batch.  With `key` it may change: what comes later replaces
        the row with the same key, or takes it away, as in :meth:`stream`; so do `changes` and `format`.  With `refresh`
        its files are read again when they change, and the table is what they say.
        A row of a stream meets the table as it is in the batch in which the row comes; what changes later changes no
        result.  A table takes no part in the watermark.
        With a key and an `event_time` it has versions, and a query may ask for the one at a time: FOR SYSTEM_TIME AS
        OF.  Only there its `lateness` and `idle` count.  Envelopes have no versions.  See docs/tables.md.
        """
        self._catalog.check_free("table", name)
        read = as_source(name, source)
        named = read_names(key)
        if read.frame is not None and not named and changes is None and format == "rows":
            raise refuse_frame(name)
        if event_time is not None and format == "debezium":
            raise refuse_dated_envelopes(name)
        if refresh:
            read, changes = read_refreshed(name, read, named, changes or event_time or (format != "rows")), CHANGE
        schema, how = read_changes(name, read.schema, changes, format, () if refresh else named, None)
        late = 0 if lateness is None else parse_duration(lateness)
        stream = Stream(name, schema, event_time, unit, late, table=True, changes=how, idle=read_idle(idle))
        with self.lock:
            shown = self._catalog.add_stream(stream, read)
        if self._spark is None and read.frame is not None:
            self._spark = read.frame.sparkSession
        return shown

    def view(self, name: str, query: str | Draft) -> None:
        """Give a SELECT a name.  Queries and later views may read FROM it; it is put in place where it is named."""
        self._catalog.check_free("view", name)
        with self.lock:
            self._catalog.add_view(name, query)

    def function(self, name: str, function: Callable[..., pa.Array], returns: pa.DataType | None = None) -> None:
        """Register a vectorised Python function for use in queries: Arrow arrays in, one array of `returns` out."""
        with self.lock:
            self._catalog.add_function(name, function, returns)

    def options(
        self,
        *,
        workers: int | None = None,
        watermark: Policy | None = None,
        sharing: Sharing | None = None,
        strategy: str | Plan | None = None,
        statistics: Statistics | None = None,
        budget: float | str | None = None,
        placement: str | None = None,
        capacity: float | None = None,
        arrival: Arrival | None = None,
        adapt: bool | None = None,
        epoch: str | datetime.timedelta | float | None = None,
        threshold: float | None = None,
    ) -> Session:
        """Set options for planning, for the whole session.  An option that is not given keeps its value.

        While the session runs, its plan changes with them, from the next batch on; `watermark` cannot change then.
        `watermark` says whether the slowest ("min", the default) or the fastest ("max") stream of a query decides
        which rows are late.  `sharing` says what queries have in common: "global" (the default) chooses the plans of
        all queries together, "local" gives each its own best plan and has equal parts once, "none" runs every query as
        if it were alone.  The other options are explained at :meth:`query`.

        `adapt` says whether plans follow the data; without it they do in :meth:`start` and do not in :meth:`run`.  An
        `epoch` is what statistics are made of: "10 seconds", "1 minute of events" or "20 batches".  A plan is changed
        if another one is predicted to save more than the part `threshold` of the work.  These three count from the
        next run on.
        """
        self._following = self._following.having(adapt, epoch, threshold)
        others = (workers, watermark, sharing, strategy, statistics, budget, placement, capacity, arrival)
        if all(other is None for other in others):
            return self
        if watermark is not None:
            self._check_idle("a watermark policy")
        with self._changing():
            if workers is not None:
                self._roster.asked_workers = check_whole("workers", workers)
            if watermark is not None:
                self._roster.policy = check_choice("watermark", watermark, POLICIES)
            if sharing is not None:
                self._roster.sharing = check_choice("sharing", sharing, SHARINGS)
            self._roster.wishes = replace(
                self._roster.wishes, **read_wishes(strategy, budget, placement, capacity, arrival)
            )
            if (given := read_statistics(statistics)) is not None:
                self._roster.given = self._roster.statistics = given
        return self

    def rescale(self, workers: int) -> None:
        """Go on with another number of workers: from the next batch on, or from the next run on."""
        self.options(workers=workers)

    def drop(self, name: str) -> None:
        """Take a query out of the session.  What only it needed is removed from the state with the next batch or run.

        Its results stay where they are.  A query of the checkpoint that the session does not have can be dropped too.
        """
        if name not in self._roster.queries and name not in self.checkpoint.queries():
            known = sorted({*self._roster.queries, *self.checkpoint.queries()})
            raise QueryError(
                f'the session has no query "{name}"',
                detail=f"its queries are {', '.join(known) or 'none'}.",
                hint="drop one of these.",
            )
        if readers := self._roster.readers(name):
            raise QueryError(
                f'query "{name}" is read by others',
                detail=f"they are: {', '.join(readers)}.",
                hint=f'drop them first: s.drop("{readers[0]}").',
            )
        if self.is_running and {*self._roster.queries} == {name}:
            raise PlanError(
                f'query "{name}" is the last one of a running session',
                detail="a session without a query has nothing to do.",
                hint="add another query first, or stop the run: h.stop().",
            )
        with self._changing():
            self._roster.queries.pop(name, None)
            self._roster.dropped.add(name)

    def analyze(self, sample: int = 100_000, seed: int = 0) -> Statistics:
        """Measure statistics for the queries registered so far, use them for planning, and return them.

        At most `sample` rows of each stream are kept; the same seed draws the same rows.  What was given by
        `options(statistics=...)` wins.  A Spark DataFrame cannot be sampled: its statistics stay unknown.
        """
        queries = [handle.query for handle in self._roster.queries.values()]
        found = self._roster.inputs().measure(queries, self._roster.given, check_whole("sample", sample), seed)
        self._roster.statistics, self._roster.planned = found, None
        return found

    def observed(self) -> Statistics:
        """Statistics from committed batches: rows of all streams, and frequent and distinct values of join keys.

        Pass them to a later session, directly or as JSON: `s.options(statistics=earlier.observed())`.
        """
        return read_observed(self.checkpoint)

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
        `strategy` says which plan to run: "auto" (the cheapest by the prices of the host), "flat", "left_deep", "tree",
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
        with self.lock:
            handle = read_subscriptions(self._catalog, asked, query, parameters, self.checkpoint.root)
        self._register(handle)
        return handle

    @contextmanager
    def _changing(self, added: str | None = None) -> Iterator[None]:
        """A change of the session.  If it runs, the change is planned at once: if that fails, nothing has changed."""
        with self.lock:
            before = self.snapshot()
            try:
                yield
                self._roster.replan()
                if self.is_running:
                    self.fit()
            except BaseException:
                self.restore(before)
                raise
            if self.is_running and self._changes is not None:
                self._changes.ask(added)
                self._improve()

    def _improve(self) -> None:
        """Go on looking for a plan for all queries if there was too little time."""
        chosen = self._roster.planned
        if chosen is None or not is_unfinished(chosen):
            return

        def use(found: tuple[Choice, ...]) -> None:
            with self.lock:
                if self._roster.planned is not chosen or not self.is_running or self._changes is None:
                    return
                if self.adopt(found):
                    self._changes.ask()

        improve(chosen, use)

    @property
    def is_running(self) -> bool:
        """Whether a run is going on."""
        return self._handle is not None and self._handle.active

    def _check_idle(self, what: str) -> None:
        if self.is_running:
            raise PlanError(
                f"{what} was given while the session is running",
                detail="which rows are late would change in the middle; this run goes on without the change.",
                hint="stop the run first: h.stop(), or s.close().",
            )

    @property
    def streams(self) -> Mapping[str, Stream]:
        """The streams by name."""
        return MappingProxyType(self._catalog.streams)

    @property
    def sources(self) -> Mapping[str, Source]:
        """Stream -> where its rows come from."""
        return MappingProxyType(self._catalog.sources)

    @property
    def functions(self) -> Mapping[str, Callable[..., pa.Array]]:
        """The registered functions by name, in lower case."""
        return self._catalog.functions

    @property
    def queries(self) -> Mapping[str, QueryHandle]:
        """The registered queries by name."""
        return MappingProxyType(self._roster.queries)

    @property
    def watermark(self) -> Policy:
        """Whether the slowest ("min") or the fastest ("max") stream of a query decides which rows are late."""
        return self._roster.policy

    @property
    def sharing(self) -> Sharing:
        """What queries have in common."""
        return self._roster.sharing

    @property
    def workers(self) -> int:
        """How many workers the plan is made for."""
        return self._roster.workers

    def _cores(self) -> int:
        """How many workers there are if nobody says it."""
        return int(self._spark.sparkContext.defaultParallelism) if self._spark is not None else os.cpu_count() or 1

    @property
    def topology(self) -> Topology:
        """The plan of all queries."""
        return self._roster.topology

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The plan of each query, and what it was chosen from."""
        return self._roster.choices

    def explain(self, stage: str = "topology", format: str = "text", analyze: bool = False) -> str:  # noqa: A002
        """The plan after a stage of planning, in a format for people or programs.

        Stages are "parsed" (the query as written), "resolved" (what it means), "candidates" (the plans that were
        considered, and why one won), "chosen" (that plan as a tree) and "topology" (stores, how long they keep rows
        and why, and what each arriving tuple does).  Formats are "text", "json", "mermaid", "svg" and "html".  In the
        stages "chosen" and "topology", `analyze` shows what the committed batches of the checkpoint did, beside what
        was expected.
        """
        subject = Subject(
            {name: handle.query for name, handle in self._roster.queries.items()},
            {name: handle.draft for name, handle in self._roster.queries.items()},
            lambda: self.choices,
            lambda: self.topology,
            analyze,
            read_measured(self.checkpoint) if analyze else None,
        )
        shown, made = explain(subject, stage, format), show_switches(self.checkpoint.root)
        return (
            "\n".join([shown, "", "plans that followed the data", *(f"  {line}" for line in made)])
            if (made and analyze and format == "text")
            else shown
        )

    def run(self, *, console: bool | Console = False) -> RunReport:
        """Join everything that is available now, then return.  Ctrl-C or SIGTERM stops after the current batch.

        `console` shows the run in a browser, see :meth:`start`.
        """
        return self._begin(None, console).finish()

    def start(self, every: str | datetime.timedelta | float = "1 second", *, console: bool | Console = False) -> Handle:
        """Run in the background until stopped, looking for new input this often.

        `console=True` shows the session in a browser: the address is printed, and is `h.console.url`.  With
        `weft.Console(...)` you choose the port, the address, and whether the page may change the session.  The console
        stays open when the run has ended, until `s.close()` or the end of the process.
        """
        return self._begin(parse_duration(every) / 1_000_000, console)

    def close(self) -> None:
        """Stop the run, if there is one, release the checkpoint, and close the console."""
        try:
            if self._handle is not None:
                self._handle.stop()
        finally:
            self._window.close()

    def __repr__(self) -> str:
        return show_session(self)

    def _repr_html_(self) -> str:
        return markup_session(self)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @telling_room()
    def _begin(self, every: float | None, console: bool | Console) -> Handle:
        if self._handle is not None:
            if self._handle.active:
                raise PlanError("the session is already running", hint="stop it first: h.stop(), or s.close().")
            self._handle.stop()  # raises if that run failed in the background: report it before another one begins
        check_sinks(self._roster.queries)
        self.claim()
        try:
            self.fit()
            kept = self._roster.kept()
            publish_results_left(self.checkpoint, kept)
            claim_sinks(self.checkpoint, self._roster.queries, kept)
            watch = Watch(lambda: self.workers, self._uneven)
            journal = Journal(choose_live(self._progress), watch, listen(self))
            self._changes = changes = SessionChanges(self, journal.tell)
            if self._following.is_on(every is not None):
                changes.adaptation = open_adaptation(
                    self, self._following, lambda why: changes.ask(why=why), lambda: changes.is_busy
                )
            handle = Handle(self.checkpoint, self._run(journal), journal, self._changes)
            handle.console = self._window.open(self, handle, console)
            self._handle = handle
        except BaseException:
            self.checkpoint.release()
            raise
        handle.begin(every)
        if every is not None:
            self._improve()
        self._roster.dropped.clear()
        return handle

    def _uneven(self, workers: int, load: Counters) -> Notice | None:
        """The notice of uneven load; where plans follow the data, it says when that will be cured."""
        found = uneven_load(load, workers, self.choices, self.observed)
        following = self._changes.adaptation if self._changes is not None else None
        return found if following is None else promise_cure(found, following.epoch)

    def claim(self) -> None:
        """Take the checkpoint for this session, as a run does, or refuse.  `s.checkpoint.release()` releases it."""
        self.checkpoint.claim(self._roster.describe(), self._roster.dropped)

    def check(self) -> None:
        """Refuse what a run would refuse because of the checkpoint or the places of results.  Writes nothing."""
        check_sinks(self._roster.queries)
        self.checkpoint.check(self._roster.describe(), self._roster.dropped)
        self.fit()
        if self.checkpoint.exists():
            visit_sinks(self.checkpoint, self._roster.queries, self._roster.kept(), lambda sink: sink.check)

    # ---------------------------------------------------------------------------------------- changes

    def fit(self) -> None:
        """Fit new queries to the state that is there now."""
        self._roster.fit()

    def snapshot(self) -> Snapshot:
        """All that can change while the session runs."""
        return self._roster.snapshot()

    def restore(self, before: Snapshot) -> None:
        """Undo all changes since a snapshot."""
        self._roster.restore(before)

    def adopt(self, found: tuple[Choice, ...]) -> bool:
        """Go on with other plans of the same queries; if they do not fit the state, nothing changes."""
        return self._roster.adopt(found)

    @property
    def following(self) -> Following:
        """What is wished of plans that follow the data."""
        return self._following

    def forget(self, name: str) -> None:
        """Take a new query out again, as if it had never been added."""
        self._roster.forget(name)

    def note_made(self, change: Snapshot) -> None:
        """The checkpoint has the session as it was at a snapshot: the queries dropped until then are gone."""
        self._roster.note_made(change)

    def incomplete(self, plan: Topology, manifest: Manifest) -> dict[str, str]:
        """Query -> from when on it is complete, for queries that lack old rows."""
        return self._roster.incomplete(plan, manifest)

    def work(self) -> Work:
        """What a run works on now."""
        return self._roster.work()

    def _add_sink(self, handle: QueryHandle, sink: Sink) -> None:
        """Add a sink.  While the session runs, its place is reserved at once, and it gets results of later batches."""
        with self.lock:
            if self.is_running:
                sink.claim(self.checkpoint.id, published=False, last=self.checkpoint.last)
            handle.sinks.append(sink)
            if self.is_running and self._changes is not None:
                self._changes.ask()

    def _run(self, journal: Journal) -> Run:
        from weft.host.spark.run import SparkBatches, SparkRun
        from weft.launch.spark import local_session

        if self._spark is None:
            self._spark = local_session(self.workers)
        assert self._changes is not None
        batches = SparkBatches(
            self._spark,
            self.work(),
            self.checkpoint.place,
            self.checkpoint.ledger,
            self._changes,
            on_progress=journal.note,
            on_failure=journal.fail,
            crash=self.crash_point,
            sample=0 if self._changes.adaptation is None else ROWS,
        )
        return SparkRun(batches)
