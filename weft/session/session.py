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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa

from weft.errors import PlanError, QueryError, SinkError
from weft.explain import Subject, explain
from weft.explain.uneven import uneven_load
from weft.expr.types import normalize
from weft.host.crash import CrashPoint
from weft.host.run import Run
from weft.host.sources.source import Source
from weft.host.state.checkpoint import Checkpoint
from weft.observe.live import LiveLine
from weft.observe.progress import RunReport
from weft.optimizer.choose import Choice
from weft.optimizer.cost.papers import Arrival
from weft.optimizer.cost.prices import Prices
from weft.optimizer.plan import SHARINGS, Sharing, topology
from weft.optimizer.wishes import Wishes, read_statistics, read_wishes
from weft.optimizer.written.plan import Plan
from weft.query.draft import Draft
from weft.query.duration import parse_duration
from weft.query.model import Stream, Unit
from weft.query.resolve import FunctionSignature
from weft.read import as_source
from weft.session.arguments import check_choice, check_name, check_spark, check_whole
from weft.session.planning import (
    Inputs,
    Request,
    merge_statistics,
    plan_queries,
    read_measured,
    read_observed,
    remember_choice,
)
from weft.session.query import QueryHandle, read_query
from weft.session.run import Handle, Journal, Watch
from weft.stats.model import Statistics
from weft.topology.model import Policy, Topology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


POLICIES: tuple[Policy, ...] = ("min", "max")


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
        self._progress = progress
        self._streams: dict[str, Stream] = {}
        self._sources: dict[str, Source] = {}
        self._functions: dict[str, tuple[FunctionSignature, Callable[..., pa.Array]]] = {}
        self._queries: dict[str, QueryHandle] = {}
        self._handle: Handle | None = None
        self.crash_point: CrashPoint | None = None
        """Where the next run dies; for tests."""

    def stream(
        self,
        name: str,
        source: object,
        *,
        event_time: str | None = None,
        unit: Unit = "s",
        lateness: str | datetime.timedelta | float = 0,
        unique: Sequence[str] = (),
    ) -> Stream:
        """Declare an input.  `source` is a Spark streaming DataFrame or one of `weft.read`."""
        self._check_idle(f'stream "{name}"')
        check_name("stream", name, self._streams)
        read = as_source(name, source)
        late = parse_duration(lateness) if lateness else 0
        stream = Stream(
            name, read.schema, event_time, unit, late, tuple([unique] if isinstance(unique, str) else unique)
        )
        self._streams[name], self._sources[name] = stream, read
        if self._spark is None and read.frame is not None:
            self._spark = read.frame.sparkSession
        self._planned = None
        return stream

    def table(self, name: str, source: object) -> Stream:
        """Declare a table: it is read once, whole, by the first batch, and joined like a stream.

        Rows of streams are looked up in it, and need not be stored for it.  It takes no part in the watermark.
        """
        self._check_idle(f'table "{name}"')
        check_name("table", name, self._streams)
        read = as_source(name, source)
        if read.frame is not None:
            raise QueryError(
                f'table "{name}" is a streaming DataFrame',
                detail="a table is read once, and a streaming DataFrame has no end.",
                hint="use weft.read.parquet, .csv, .json or .batches, or declare it as a stream.",
            )
        self._streams[name], self._sources[name] = Stream(name, read.schema, table=True), read
        self._planned = None
        return self._streams[name]

    def function(self, name: str, function: Callable[..., pa.Array], returns: pa.DataType | None = None) -> None:
        """Register a vectorised Python function for use in queries: Arrow arrays in, one array of `returns` out."""
        self._check_idle(f'function "{name}"')
        check_name("function", name, ())
        check_name("function", name.lower(), self._functions)  # SQL ignores case in names of functions
        kind = normalize(returns if returns is not None else pa.bool_())
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

        `watermark` says whether the slowest ("min", the default) or the fastest ("max") stream of a query decides
        which rows are late.  `sharing` says what queries have in common: "global" (the default) chooses the plans of
        all queries together, "local" gives each its own best plan and has equal parts once, "none" runs every query as
        if it were alone.  The other options are explained at :meth:`query`.
        """
        self._check_idle("an option")
        if workers is not None:
            self._workers = check_whole("workers", workers)
        if watermark is not None:
            self._policy = check_choice("watermark", watermark, POLICIES)
        if sharing is not None:
            self._sharing = check_choice("sharing", sharing, SHARINGS)
        self._wishes = replace(self._wishes, **read_wishes(strategy, budget, placement, capacity, arrival))
        if (given := read_statistics(statistics)) is not None:
            self._given = self._statistics = given
        self._planned = None
        return self

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
    ) -> QueryHandle:
        """Register a query, as SQL text or from the builder.

        `closed` makes windows closed: a row that is exactly as old as its window still joins.
        `strategy` says which plan to run: "auto" (the cheapest by the prices of the host), "flat", "left_deep", "tree",
        "exhaustive", or a `weft.Plan` written by hand.  Plans are chosen by `statistics`.  `budget` limits what stores
        of inputs and intermediate results may hold together, in rows (a number) or bytes ("2 GB").
        `placement` is "keyed", or "scattered" to route without keys.  `capacity` is how many rows of a store one worker
        should hold.  `parallelism` says, by alias, on how many workers its store is placed; by default on all.
        `skewed` says, by "alias.column", whether the values of a key are uneven; for cubes, it overrides statistics.
        `arrival` picks the arrival factor of the cost model: "history", "window" or "none".
        """
        self._check_idle(f'query "{name}"')
        check_name("query", name, self._queries)
        signatures = {key: signature for key, (signature, _) in self._functions.items()}
        handle = read_query(name, query, self._streams, signatures, cross_product, closed, self._check_idle)
        handle.wishes = read_wishes(strategy, budget, placement, capacity, arrival, parallelism, skewed)
        handle.statistics = read_statistics(statistics)
        self._queries[name] = handle
        self._planned = None
        return handle

    def _check_idle(self, what: str) -> None:
        if self._handle is not None and self._handle.active:
            raise PlanError(
                f"{what} was given while the session is running",
                detail="streams, queries and options are fixed when a run begins; this run goes on without the change.",
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
        return topology(self.choices, self._policy, self._sharing)

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The plan of each query, and what it was chosen from."""
        if not self._queries:
            raise PlanError("the session has no query", hint='add one: s.query("name", "SELECT ...").')
        if self._planned is None:
            # Sorted by name, not by registration: a session that resumes must get the plan its state was made by.
            requests = {name: self._request(self._queries[name]) for name in sorted(self._queries)}
            made = self.checkpoint.plans()
            self._planned = plan_queries(
                requests, self.workers, self._prices, self._inputs(), self._given, made, self._sharing
            )
        return self._planned

    def _request(self, handle: QueryHandle) -> Request:
        """A query with its wishes and statistics, and those of the session."""
        wishes = replace(self._wishes, **handle.wishes)
        return Request(handle.query, wishes, merge_statistics(self._statistics, handle.statistics))

    def _inputs(self) -> Inputs:
        return Inputs(self._streams, self._sources, self.functions)

    def _plans(self) -> dict[str, dict[str, str]]:
        """Query -> the strategy that was asked for, and the plan that was made."""
        return {choice.name: remember_choice(choice) for choice in self.choices}

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
        """Join everything that is available now, then return.  Ctrl-C stops after the current batch."""
        return self._begin(every=None).finish()

    def start(self, every: str | datetime.timedelta | float = "1 second") -> Handle:
        """Run in the background until stopped, looking for new input this often."""
        return self._begin(every=parse_duration(every) / 1_000_000)

    def close(self) -> None:
        """Stop the run, if there is one, and release the checkpoint."""
        if self._handle is not None:
            self._handle.stop()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self, *, every: float | None) -> Handle:
        if self._handle is not None:
            if self._handle.active:
                raise PlanError("the session is already running", hint="stop it first: h.stop(), or s.close().")
            self._handle.stop()  # raises if that run failed in the background: report it before another one begins
        plan = self.topology
        self._check_sinks()
        self._claim(plan)
        try:
            self._claim_sinks()
            watch = Watch(plan.workers, lambda load: uneven_load(load, plan.workers, self.choices, self.observed))
            journal = Journal(LiveLine(self._progress), watch)
            self._handle = handle = Handle(self.checkpoint, self._run(plan, journal), journal)
        except BaseException:
            self.checkpoint.release()
            raise
        handle.begin(every)
        return handle

    def claim(self) -> None:
        """Take the checkpoint for this session, as a run does, or refuse.  `s.checkpoint.release()` releases it."""
        self._claim(self.topology)

    def _claim(self, plan: Topology) -> None:
        queries = {name: handle.query for name, handle in self._queries.items()}
        self.checkpoint.claim(plan, queries, self._sources, self._plans())

    def _check_sinks(self) -> None:
        for name, handle in self._queries.items():
            if not handle.sinks:
                raise SinkError(
                    f'query "{name}" has no sink', hint="add q.to_parquet(path), q.to_memory() or q.foreach_batch(f)."
                )

    def _claim_sinks(self) -> None:
        owner, published, last = self.checkpoint.id, self.checkpoint.has_published(), self.checkpoint.last
        for handle in self._queries.values():
            for sink in handle.sinks:
                sink.claim(owner, published=published, last=last)

    def _run(self, plan: Topology, journal: Journal) -> Run:
        from weft.host.spark.run import SparkBatches, SparkRun
        from weft.launch.spark import local_session

        if self._spark is None:
            self._spark = local_session(plan.workers)
        sinks = {name: tuple(handle.sinks) for name, handle in self._queries.items()}
        batches = SparkBatches(
            self._spark,
            plan,
            self.functions,
            sinks,
            self.checkpoint.root,
            on_progress=journal.note,
            crash=self.crash_point,
        )
        return SparkRun(batches, self._sources)
