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
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from weft.errors import PlanError, QueryError, SinkError, WeftError
from weft.explain import Subject, explain
from weft.explain.uneven import uneven_load
from weft.expr.types import normalize
from weft.host.crash import CrashPoint
from weft.host.results.left import publish_left
from weft.host.results.sink import Sink
from weft.host.run import Run
from weft.host.sources.folders import BadFiles
from weft.host.sources.source import Source
from weft.host.state.checkpoint import FILES, Checkpoint, describe, describe_query, is_same_query, note_query
from weft.host.state.manifest import Ledger, Manifest
from weft.host.work import Work
from weft.observe.live import LiveLine
from weft.observe.report import RunReport
from weft.optimizer.choose import Choice
from weft.optimizer.cost.papers import Arrival
from weft.optimizer.cost.prices import Prices
from weft.optimizer.plan import SHARINGS, Sharing, topology
from weft.optimizer.wishes import Wishes, read_statistics, read_wishes
from weft.optimizer.written.plan import Plan
from weft.query.draft import Draft, Named
from weft.query.duration import parse_duration
from weft.query.model import Query, Stream, Unit, begin_at, keep_apart
from weft.query.resolve import FunctionSignature, Views, add_views, is_built_in
from weft.read import as_source
from weft.session.arguments import check_choice, check_name, check_spark, check_whole, read_bad_files, read_timing
from weft.session.changes import SessionChanges
from weft.session.complete import as_moment, complete_from, say_moment
from weft.session.fit import Fit, refuse_incomplete, refuse_loss
from weft.session.following import listen
from weft.session.improve import improve, is_unfinished
from weft.session.planning import (
    Inputs,
    Request,
    SeenBefore,
    merge_statistics,
    plan_queries,
    read_measured,
    read_observed,
    remember_choice,
)
from weft.session.query import QueryHandle, read_draft, read_query
from weft.session.run import Handle, Journal, Watch
from weft.session.shown import show_session
from weft.session.snapshot import Snapshot
from weft.sql import resolve
from weft.stats.model import Statistics
from weft.topology.model import Policy, Topology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
        progress: bool | None = None,
    ) -> None:
        """Open a session on a checkpoint folder.

        If `spark` is None, a local Spark session is started.  If `workers` is None, the number is that of the
        checkpoint, or one worker per core.  `progress` shows a live line; None shows it on a terminal only.
        """
        check_spark(spark)
        self.checkpoint = Checkpoint(Path(checkpoint))
        self._spark = spark
        self._workers = None if workers is None else check_whole("workers", workers)
        self._policy: Policy = "min"
        self._sharing: Sharing = "global"
        self._wishes, self._prices = Wishes(), Prices.load()
        self._given = Statistics()
        """Given by hand."""
        self._statistics: Statistics | None = None
        """Given by hand or measured, for all queries."""
        self._planned: tuple[Choice, ...] | None = None
        self._assembled: Topology | None = None
        self._progress = progress
        self._streams: dict[str, Stream] = {}
        self._sources: dict[str, Source] = {}
        self._views: Views = {}
        self._functions: dict[str, tuple[FunctionSignature, Callable[..., pa.Array]]] = {}
        self._queries: dict[str, QueryHandle] = {}
        self._handle: Handle | None = None
        self._changes: SessionChanges | None = None
        self._dropped: set[str] = set()
        """Queries of the checkpoint that are meant to go."""
        self.lock = threading.RLock()
        """Held while the session changes, and while a run takes it as it is."""
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
    ) -> Stream:
        """Declare an input.  `source` is a Spark streaming DataFrame or one of `weft.read`.

        Of a DataFrame with `withWatermark`, its column and delay are the event time and the lateness, unless others
        are given here.  Without a lateness, rows that are older than the newest one of their stream may be dropped.
        `bad_files` says what happens if a file cannot be read: "fail" ends the run and says which, "skip" leaves the
        file out, says so in the report, and goes on.
        """
        check_name("stream", name, {**self._streams, **self._views})
        read = read_bad_files(name, as_source(name, source), bad_files)
        event_time, late = read_timing(read, event_time, lateness)
        stream = Stream(
            name, read.schema, event_time, unit, late, tuple([unique] if isinstance(unique, str) else unique)
        )
        with self.lock:
            self._streams[name], self._sources[name] = stream, read
        if self._spark is None and read.frame is not None:
            self._spark = read.frame.sparkSession
        return stream

    def table(self, name: str, source: object) -> Stream:
        """Declare a table: it is read once, whole, by the first batch, and joined like a stream.

        Rows of streams are looked up in it, and need not be stored for it.  It takes no part in the watermark.
        """
        check_name("table", name, {**self._streams, **self._views})
        read = as_source(name, source)
        if read.frame is not None:
            raise QueryError(
                f'table "{name}" is a streaming DataFrame',
                detail="a table is read once, and a streaming DataFrame has no end.",
                hint="use weft.read.parquet, .csv, .json or .batches, or declare it as a stream.",
            )
        with self.lock:
            self._streams[name], self._sources[name] = Stream(name, read.schema, table=True), read
        return self._streams[name]

    def view(self, name: str, query: str | Draft) -> None:
        """Give a SELECT a name.  Queries and later views may read FROM it; it is put in place where it is named."""
        check_name("view", name, {**self._streams, **self._views})
        draft = read_draft("view", query)
        resolve(draft, self._streams, self._signatures, True, self._views)  # what is wrong in it is said here
        with self.lock:
            self._views = add_views(self._views, [Named(name, draft)])

    @property
    def _signatures(self) -> dict[str, FunctionSignature]:
        return {name: signature for name, (signature, _) in self._functions.items()}

    def function(self, name: str, function: Callable[..., pa.Array], returns: pa.DataType | None = None) -> None:
        """Register a vectorised Python function for use in queries: Arrow arrays in, one array of `returns` out."""
        check_name("function", name, ())
        check_name("function", name.lower(), self._functions)  # SQL ignores case in names of functions
        if is_built_in(name):
            raise QueryError(
                f'"{name}" is a function of SQL',
                detail="a function of that name would change what queries mean that others have written.",
                hint=f'choose another name, such as "my_{name}".',
            )
        kind = normalize(returns if returns is not None else pa.bool_())
        with self.lock:
            self._functions[name.lower()] = (FunctionSignature(name.lower(), kind), function)

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
    ) -> Session:
        """Set options for planning, for the whole session.  An option that is not given keeps its value.

        While the session runs, its plan changes with them, from the next batch on; `watermark` cannot change then.
        `watermark` says whether the slowest ("min", the default) or the fastest ("max") stream of a query decides
        which rows are late.  `sharing` says what queries have in common: "global" (the default) chooses the plans of
        all queries together, "local" gives each its own best plan and has equal parts once, "none" runs every query as
        if it were alone.  The other options are explained at :meth:`query`.
        """
        if watermark is not None:
            self._check_idle("a watermark policy")
        with self._changing():
            if workers is not None:
                self._workers = check_whole("workers", workers)
            if watermark is not None:
                self._policy = check_choice("watermark", watermark, POLICIES)
            if sharing is not None:
                self._sharing = check_choice("sharing", sharing, SHARINGS)
            self._wishes = replace(self._wishes, **read_wishes(strategy, budget, placement, capacity, arrival))
            if (given := read_statistics(statistics)) is not None:
                self._given = self._statistics = given
        return self

    def rescale(self, workers: int) -> None:
        """Go on with another number of workers: from the next batch on, or from the next run on."""
        self.options(workers=workers)

    def drop(self, name: str) -> None:
        """Take a query out of the session.  What only it needed is removed from the state with the next batch or run.

        Its results stay where they are.  A query of the checkpoint that the session does not have can be dropped too.
        """
        if name not in self._queries and name not in self.checkpoint.queries():
            known = sorted({*self._queries, *self.checkpoint.queries()})
            raise QueryError(
                f'the session has no query "{name}"',
                detail=f"its queries are {', '.join(known) or 'none'}.",
                hint="drop one of these.",
            )
        if self.is_running and {*self._queries} == {name}:
            raise PlanError(
                f'query "{name}" is the last one of a running session',
                detail="a session without a query has nothing to do.",
                hint="add another query first, or stop the run: h.stop().",
            )
        with self._changing():
            self._queries.pop(name, None)
            self._dropped.add(name)

    def analyze(self, sample: int = 100_000, seed: int = 0) -> Statistics:
        """Measure statistics for the queries registered so far, use them for planning, and return them.

        At most `sample` rows of each stream are kept; the same seed draws the same rows.  What was given by
        `options(statistics=...)` wins.  A Spark DataFrame cannot be sampled: its statistics stay unknown.
        """
        queries = [handle.query for handle in self._queries.values()]
        found = self._inputs().measure(queries, self._given, check_whole("sample", sample), seed)
        self._statistics, self._planned = found, None
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
        check_name("query", name, self._queries)
        check_choice("start", start, STARTS)
        handle = read_query(name, query, self._streams, self._signatures, self._views, cross_product, closed)
        handle.asked, handle.start = handle.query, start
        handle.query = self._begin_at(handle, self._known().get(name), self.checkpoint.last + 1)
        handle.wishes = read_wishes(strategy, budget, placement, capacity, arrival, parallelism, skewed)
        handle.statistics = read_statistics(statistics)
        handle.backfill, handle.must_be_complete = backfill, complete
        handle.on_sink, handle.find_start = self._add_sink, self._complete_from
        with self._changing(added=name):
            self._queries[name] = handle
        return handle

    @contextmanager
    def _changing(self, added: str | None = None) -> Iterator[None]:
        """A change of the session.  If it runs, the change is planned at once: if that fails, nothing has changed."""
        with self.lock:
            before = self.snapshot()
            try:
                yield
                self._planned = self._assembled = None
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
        chosen = self._planned
        if chosen is None or not is_unfinished(chosen):
            return

        def use(found: tuple[Choice, ...]) -> None:
            with self.lock:
                if self._planned is not chosen or not self.is_running or self._changes is None:
                    return
                before = self.snapshot()
                try:
                    self._planned, self._assembled = found, None
                    self.fit()
                except WeftError:
                    self.restore(before)  # the plan that runs is good enough
                else:
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
        return MappingProxyType(self._streams)

    @property
    def sources(self) -> Mapping[str, Source]:
        """Stream -> where its rows come from."""
        return MappingProxyType(self._sources)

    @property
    def functions(self) -> Mapping[str, Callable[..., pa.Array]]:
        """The registered functions by name, in lower case."""
        return {name: function for name, (_, function) in self._functions.items()}

    @property
    def queries(self) -> Mapping[str, QueryHandle]:
        """The registered queries by name."""
        return MappingProxyType(self._queries)

    def _kept(self) -> dict[str, Query]:
        """The queries that the checkpoint has too, as they are.  One that was replaced is a new query."""
        known = self.checkpoint.queries()
        own = {name: handle.query for name, handle in self._queries.items()}
        same = (name for name in own if name in known and is_same_query(known[name], describe_query(own[name])))
        return {name: own[name] for name in same}

    @property
    def watermark(self) -> Policy:
        """Whether the slowest ("min") or the fastest ("max") stream of a query decides which rows are late."""
        return self._policy

    @property
    def sharing(self) -> Sharing:
        """What queries have in common."""
        return self._sharing

    @property
    def workers(self) -> int:
        """How many workers the plan is made for."""
        if self._workers is not None:
            return self._workers
        known = self.checkpoint.workers()
        if known is not None:
            return known
        return int(self._spark.sparkContext.defaultParallelism) if self._spark is not None else os.cpu_count() or 1

    @property
    def topology(self) -> Topology:
        """The plan of all queries."""
        with self.lock:
            if self._assembled is None:
                state = Fit.read(self.checkpoint.root)
                old = None if state is None else state.old
                self._assembled = topology(self.choices, self._policy, self._sharing, old)
            return self._assembled

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The plan of each query, and what it was chosen from."""
        if not self._queries:
            raise PlanError("the session has no query", hint='add one: s.query("name", "SELECT ...").')
        if self._planned is None:
            # Sorted by name, not by registration: a session that resumes must get the plan its state was made by.
            requests = {name: self._request(self._queries[name]) for name in sorted(self._queries)}
            kept = self._kept()
            made = {name: plan for name, plan in self.checkpoint.plans().items() if name in kept}
            self._planned = plan_queries(
                requests, self.workers, self._prices, self._inputs(), self._given, made, self._sharing,
                SeenBefore.read(self.checkpoint) if made else None,
            )  # fmt: skip
        return self._planned

    def _request(self, handle: QueryHandle) -> Request:
        """A query with its wishes and statistics, and those of the session."""
        wishes = replace(self._wishes, **handle.wishes)
        given = merge_statistics(self._given, handle.statistics)
        return Request(handle.query, wishes, merge_statistics(self._statistics, handle.statistics), given)

    def _inputs(self) -> Inputs:
        return Inputs(self._streams, self._sources, self.functions)

    def _plans(self) -> dict[str, dict[str, str]]:
        """Query -> the strategy that was asked for, and the plan that was made."""
        return {choice.name: remember_choice(choice, self._sharing) for choice in self.choices}

    def explain(self, stage: str = "topology", format: str = "text", analyze: bool = False) -> str:  # noqa: A002
        """The plan after a stage of planning, in a format for people or programs.

        Stages are "parsed" (the query as written), "resolved" (what it means), "candidates" (the plans that were
        considered, and why one won), "chosen" (that plan as a tree) and "topology" (stores, how long they keep rows
        and why, and what each arriving tuple does).  Formats are "text", "json" and "mermaid".  In the stages "chosen"
        and "topology", `analyze` shows what the committed batches of the checkpoint did, beside what was expected.
        """
        subject = Subject(
            {name: handle.query for name, handle in self._queries.items()},
            {name: handle.draft for name, handle in self._queries.items()},
            lambda: self.choices,
            lambda: self.topology,
            analyze,
            read_measured(self.checkpoint) if analyze else None,
        )
        return explain(subject, stage, format)

    def run(self) -> RunReport:
        """Join everything that is available now, then return.  Ctrl-C or SIGTERM stops after the current batch."""
        return self._begin(every=None).finish()

    def start(self, every: str | datetime.timedelta | float = "1 second") -> Handle:
        """Run in the background until stopped, looking for new input this often."""
        return self._begin(every=parse_duration(every) / 1_000_000)

    def close(self) -> None:
        """Stop the run, if there is one, and release the checkpoint."""
        if self._handle is not None:
            self._handle.stop()

    def __repr__(self) -> str:
        return show_session(self)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self, *, every: float | None) -> Handle:
        if self._handle is not None:
            if self._handle.active:
                raise PlanError("the session is already running", hint="stop it first: h.stop(), or s.close().")
            self._handle.stop()  # raises if that run failed in the background: report it before another one begins
        self._check_sinks()
        self.claim()
        try:
            self.fit()
            self._publish_left()
            self._claim_sinks()
            watch = Watch(lambda: self.workers, lambda n, load: uneven_load(load, n, self.choices, self.observed))
            journal = Journal(LiveLine(self._progress), watch, listen(self))
            self._changes = SessionChanges(self, journal.tell)
            self._handle = handle = Handle(self.checkpoint, self._run(journal), journal, self._changes)
        except BaseException:
            self.checkpoint.release()
            raise
        handle.begin(every)
        if every is not None:
            self._improve()
        self._dropped.clear()
        return handle

    def claim(self) -> None:
        """Take the checkpoint for this session, as a run does, or refuse.  `s.checkpoint.release()` releases it."""
        self.checkpoint.claim(self._describe(), self._dropped)

    def check(self) -> None:
        """Refuse what a run would refuse because of the checkpoint or the places of results.  Writes nothing."""
        self._check_sinks()
        self.checkpoint.check(self._describe(), self._dropped)
        self.fit()
        if self.checkpoint.exists():
            self._visit_sinks(lambda sink: sink.check)

    def _describe(self) -> dict[str, Any]:
        queries = {name: handle.query for name, handle in self._queries.items()}
        mine = describe(self.topology, queries, self._sources, self._plans())
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
        frames = [name for name, source in self._sources.items() if source.frame is not None]
        return [*([FILES] if len(frames) < len(self._sources) else []), *frames] if frames else []

    # ---------------------------------------------------------------------------------------- changes

    def snapshot(self) -> Snapshot:
        """All that can change while the session runs."""
        with self.lock:
            return Snapshot(
                dict(self._queries), frozenset(self._dropped), self._workers, self._wishes, self._given,
                self._statistics, self._planned, self._assembled,
            )  # fmt: skip

    def restore(self, before: Snapshot) -> None:
        """Undo all changes since a snapshot."""
        with self.lock:
            self._queries, self._dropped = dict(before.queries), {*before.dropped}
            self._workers, self._wishes = before.workers, before.wishes
            self._given, self._statistics = before.given, before.statistics
            self._planned, self._assembled = before.planned, before.assembled

    def forget(self, name: str) -> None:
        """Take a new query out again, as if it had never been added."""
        with self.lock:
            del self._queries[name]
            self._planned = self._assembled = None

    def note_made(self, change: Snapshot) -> None:
        """The checkpoint has the session as it was at a snapshot: the queries dropped until then are gone."""
        with self.lock:
            self._dropped -= change.dropped

    def work(self) -> Work:
        """What a run works on now."""
        with self.lock:
            sinks = {name: tuple(handle.sinks) for name, handle in self._queries.items()}
            kept = self._kept()
            new = (name for name, handle in self._queries.items() if handle.backfill and name not in kept)
            note = self._noting(kept)
            return Work(self.topology, self.functions, sinks, dict(self._sources), self._describe(), tuple(new), note)

    def _noting(self, kept: Collection[str]) -> Callable[[Manifest], dict[str, Any]]:
        """What people may ask later of the queries as they are now, once they have begun after a manifest."""
        plan, policy, known = self.topology, self._policy, self.checkpoint.notes()
        queries = {name: handle.query for name, handle in self._queries.items()}
        sinks = {name: [sink.folder for sink in handle.sinks] for name, handle in self._queries.items()}
        seen = {choice.name: choice.known.statistics for choice in self.choices}

        def note(manifest: Manifest) -> dict[str, Any]:
            lacking = complete_from(plan, queries, manifest.newest, manifest.partial, policy)
            made = {
                name: note_query(
                    manifest.batch + 1, lacking.get(name), (folder for folder in sinks[name] if folder), seen.get(name)
                )
                for name in queries
            }
            old = {name: {**known[name], "into": made[name]["into"]} for name in made if name in kept and name in known}
            return {**made, **old}

        return note

    def incomplete(self, plan: Topology, manifest: Manifest) -> dict[str, str]:
        """Query -> from when on it is complete, for queries that lack old rows."""
        queries = {name: handle.query for name, handle in self._queries.items() if name in plan.emit_of}
        found = complete_from(plan, queries, manifest.newest, manifest.partial, self._policy)
        return {name: say_moment(moment) for name, moment in found.items()}

    def _complete_from(self, handle: QueryHandle) -> datetime.datetime | None:
        """From which event time on results of a query are complete; before it runs, what a run now would say."""
        state = Fit.read(self.checkpoint.root)
        if state is None:
            return None
        plan = state.old if handle.name in self._kept() else self.topology
        found = state.complete_from(plan, {handle.name: handle.query}, self._policy)
        return as_moment(found[handle.name]) if found else None

    def fit(self) -> None:
        """Fit new queries to the state that is there now.

        No query may lose what it has.  Where queries would share a store that cannot be made whole for both, they get
        stores of their own.
        """
        state = Fit.read(self.checkpoint.root)
        if state is None:
            return
        self.checkpoint.check_streams(self._describe())
        known = self._known()
        for name, handle in self._queries.items():
            self._begin_query(handle, self._begin_at(handle, known.get(name), state.manifest.batch + 1))
        new = {*self._queries} - {*self._kept()}
        while hurt := state.hurt(self.topology, self._asked(lambda handle: handle.name not in new), self._policy):
            apart = state.keep_apart(self.topology, self._asked(), new, hurt)
            if not apart:
                raise refuse_loss(hurt)
            for name, query in apart.items():
                self._begin_query(self._queries[name], query)
        strict = self._asked(lambda handle: handle.name in new and handle.must_be_complete)
        refuse_incomplete(state.complete_from(self.topology, strict, self._policy))

    def _asked(self, which: Callable[[QueryHandle], bool] = lambda _: True) -> dict[str, Query]:
        return {name: handle.query for name, handle in self._queries.items() if which(handle)}

    def _begin_at(self, handle: QueryHandle, known: Mapping[str, Any] | None, batch: int) -> Query:
        """A query as the checkpoint has it, or one that begins with a batch."""
        if known is not None:
            return keep_apart(begin_at(handle.asked, known["since"]), known["apart"])
        return begin_at(handle.asked, dict.fromkeys(handle.asked.aliases, batch) if handle.start == "now" else {})

    def _begin_query(self, handle: QueryHandle, query: Query) -> None:
        """Set the batches from which on rows count for a query."""
        if query != handle.query:
            handle.query = query
            self._planned = self._assembled = None

    def _known(self) -> dict[str, Any]:
        """The queries of the checkpoint that stay as they are."""
        return {name: said for name, said in self.checkpoint.queries().items() if name not in self._dropped}

    def _add_sink(self, handle: QueryHandle, sink: Sink) -> None:
        """Add a sink.  While the session runs, its place is reserved at once, and it gets results of later batches."""
        with self.lock:
            if self.is_running:
                sink.claim(self.checkpoint.id, published=False, last=self.checkpoint.last)
            handle.sinks.append(sink)
            if self.is_running and self._changes is not None:
                self._changes.ask()

    def _check_sinks(self) -> None:
        for name, handle in self._queries.items():
            if not handle.sinks:
                raise SinkError(
                    f'query "{name}" has no sink', hint="add q.to_parquet(path), q.to_memory() or q.foreach_batch(f)."
                )

    def _claim_sinks(self) -> None:
        self._visit_sinks(lambda sink: sink.check)  # so that one that is refused leaves the others as they are
        self._visit_sinks(lambda sink: sink.claim)

    def _visit_sinks(self, call: Callable[[Sink], Callable[..., None]]) -> None:
        owner, last = self.checkpoint.id, self.checkpoint.last
        known = self._kept() if self.checkpoint.has_published() else {}
        for name, handle in self._queries.items():
            for sink in handle.sinks:
                call(sink)(owner, published=name in known, last=last)

    def _publish_left(self) -> None:
        """Publish results that a run which died has left of queries that go."""
        kept, notes = self._kept(), self.checkpoint.notes()
        going = {name: notes.get(name, {}).get("into", ()) for name in self.checkpoint.queries() if name not in kept}
        publish_left(Ledger(self.checkpoint.root), going)

    def _run(self, journal: Journal) -> Run:
        from weft.host.spark.run import SparkBatches, SparkRun
        from weft.launch.spark import local_session

        if self._spark is None:
            self._spark = local_session(self.workers)
        assert self._changes is not None
        batches = SparkBatches(
            self._spark,
            self.work(),
            self.checkpoint.root,
            self._changes,
            on_progress=journal.note,
            crash=self.crash_point,
        )
        return SparkRun(batches)
