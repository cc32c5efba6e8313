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
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from weft.errors import HostError, PlanError, QueryError, SinkError, WeftError
from weft.explain import Measured, Subject, explain, measured
from weft.explain.uneven import uneven_load
from weft.expr.types import normalize, normalize_schema
from weft.host.checkpoint import Checkpoint
from weft.host.crash import CrashPoint
from weft.host.manifest import Ledger
from weft.host.sampling import draw
from weft.host.sinks import ForeachSink, MemorySink, ParquetSink, Sink
from weft.host.source import FileSource, TableSource
from weft.observe.live import LiveLine
from weft.observe.progress import Progress, RunReport
from weft.optimizer.choose import Choice
from weft.optimizer.cost import Arrival
from weft.optimizer.knobs import Knobs, knobs
from weft.optimizer.plan import choices, topology
from weft.optimizer.prices import Prices
from weft.optimizer.written import Plan, bind, write
from weft.query.draft import Draft
from weft.query.duration import parse_duration
from weft.query.model import Query, Stream, Unit
from weft.query.resolve import FunctionSignature
from weft.running import Handle, Watch
from weft.sql import parse, parse_fragments, resolve
from weft.stats.analyze import analyze
from weft.stats.model import Statistics
from weft.stats.sketch import observed
from weft.stats.wanted import needed_columns
from weft.topology.model import Policy, Topology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


GLANCE = 20_000
"""Rows of each stream that are looked at when a plan is chosen and nobody has given or measured statistics."""
POLICIES: tuple[Policy, ...] = ("min", "max")
One = TypeVar("One", bound=str)


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
        """`spark` None starts a local session; `workers` None takes the checkpoint's number, or one per core.

        `progress` shows a live line; None shows it on a terminal only.
        """
        if spark is not None and type(spark).__module__.startswith("pyspark.sql.connect"):
            raise HostError(
                "a Spark Connect session cannot run Weft",
                detail="Weft ships its plan to the workers and commits on the driver, which needs the driver itself.",
                hint="use a classic session: SparkSession.builder.master(...).getOrCreate().",
            )
        self.checkpoint = Checkpoint(Path(checkpoint))
        if spark is not None and not hasattr(spark, "sparkContext"):
            raise PlanError(f"spark is a {type(spark).__name__}", hint="give a SparkSession, or nothing.")
        self._spark = spark
        self._workers = None if workers is None else _check_workers(workers)
        self._policy: Policy = "min"
        self._knobs = Knobs(prices=Prices.load())
        self._given = Statistics()
        self._planned: tuple[Choice, ...] | None = None
        self._progress = progress
        self._streams: dict[str, Stream] = {}
        self._sources: dict[str, object] = {}
        self._functions: dict[str, tuple[FunctionSignature, Callable[..., pa.Array]]] = {}
        self._queries: dict[str, QueryHandle] = {}
        self._crash: CrashPoint | None = None
        self._handle: Handle | None = None

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
        _check_name("stream", name, self._streams)
        schema = self._schema(name, source)
        late = parse_duration(lateness) if lateness else 0
        stream = Stream(name, schema, event_time, unit, late, tuple([unique] if isinstance(unique, str) else unique))
        self._streams[name], self._sources[name] = stream, source
        self._planned = None
        return stream

    def function(self, name: str, function: Callable[..., pa.Array], returns: pa.DataType | None = None) -> None:
        """Register a vectorised Python function for use in queries: Arrow arrays in, one array of `returns` out."""
        _check_name("function", name, self._functions)
        kind = normalize(returns if returns is not None else pa.bool_())
        self._functions[name.lower()] = (FunctionSignature(name.lower(), kind), function)

    def options(
        self,
        *,
        workers: int | None = None,
        watermark: Policy | None = None,
        strategy: str | Plan | None = None,
        statistics: Statistics | None = None,
        budget: float | str | None = None,
        placement: str | None = None,
        capacity: float | None = None,
        arrival: Arrival | None = None,
    ) -> Session:
        """Set planning knobs for the whole session; what is not given stays as it is.

        `watermark` says whether the slowest ("min", the default) or the fastest ("max") stream of a query decides
        which rows are late.  The others are explained at :meth:`query`.
        """
        if workers is not None:
            self._workers = _check_workers(workers)
        if watermark is not None:
            self._policy = _one_of("watermark", watermark, POLICIES)
        given = knobs(strategy, statistics, budget, placement, capacity, arrival, None)
        self._given = given.get("statistics", self._given)
        self._knobs = replace(self._knobs, **given)
        self._planned = None
        return self

    def analyze(self, sample: int = 100_000, seed: int = 0) -> Statistics:
        """Measure statistics for the queries registered so far, plan with them from now on, and return them.

        At most `sample` rows of each stream are kept; the same seed draws the same rows.  What was given by
        `options(statistics=...)` wins.  A Spark DataFrame cannot be sampled: what concerns it stays unknown.
        """
        if not isinstance(sample, int) or isinstance(sample, bool) or sample < 1:
            raise PlanError(f"sample is {sample!r}", hint="use any whole number from 1.")
        found = self._measured([handle.query for handle in self._queries.values()], sample, seed)
        self._knobs, self._planned = replace(self._knobs, statistics=found), None
        return found

    def observed(self) -> Statistics:
        """What committed batches have shown: rows of all streams, and frequent and distinct values of join keys.

        Give them to a later session, by hand or as JSON: `s.options(statistics=earlier.observed())`.
        """
        totals = Ledger(self.checkpoint.root).last().totals if self.checkpoint.root.exists() else {}
        return observed(totals)

    def _measured(self, queries: Sequence[Query], sample: int, seed: int = 0) -> Statistics:
        samples = {
            name: draw(source, stream, needed_columns(stream, queries), sample, seed)
            for name, stream in self._streams.items()
            if isinstance(source := self._sources[name], FileSource | TableSource)
        }
        functions = {key: function for key, (_, function) in self._functions.items()}
        return analyze(self._streams, samples, queries, functions, self._given, seed).merge(self._given)

    def _glanced(self) -> Statistics | None:
        """A quick look at the sources for queries whose plan has to be chosen without statistics; None if none is.

        A stream that cannot be read yet, or holds nothing, says nothing; then nothing is assumed of any.
        """
        made = self.checkpoint.plans()
        open_ = [h.query for name, h in self._queries.items() if name not in made and self._looks(self._asked(name), h)]
        if not open_:
            return None
        try:
            found = self._measured(open_, GLANCE)
        except WeftError:
            return None  # the run will say what is wrong
        streams = {relation.stream.name for query in open_ for relation in query.relations}
        return found if all(found.rows(name) for name in streams) else None

    def _looks(self, asked: Knobs, handle: QueryHandle) -> bool:
        """Whether the plan of a query is chosen by a look at the sources."""
        return asked.statistics is None and asked.strategy != "flat" and len(handle.query.relations) > 1

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
        "exhaustive", or a `weft.Plan` written by hand.  `statistics` are what plans are chosen by.  `budget` limits
        what inputs and intermediate results may take together, in rows (a number) or bytes ("2 GB").
        `placement` is "keyed", or "scattered" to use no key in routing.  `capacity` is how many rows of a store
        one worker shall hold, `parallelism` on how many workers the store of an alias lies; by default on all.
        `skewed` says by "alias.column" whether values of a key are uneven, for cubes, whatever statistics say.
        `arrival` picks the arrival factor of the cost model: "history", "window" or "none".
        """
        _check_name("query", name, self._queries)
        signatures = {key: signature for key, (signature, _) in self._functions.items()}
        if not isinstance(query, str | Draft):
            raise QueryError(
                f"a query cannot be a {type(query).__name__}",
                hint="use SQL text, or weft.from_(...).where(...).select(...).",
            )
        draft = parse(query) if isinstance(query, str) else parse_fragments(query)
        made = resolve(draft, self._streams, signatures, cross_product)
        made = made.closed() if closed else made
        handle = QueryHandle(name, made, draft)
        handle.knobs = knobs(strategy, statistics, budget, placement, capacity, arrival, parallelism, skewed)
        self._queries[name] = handle
        self._planned = None
        return handle

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
        return topology(self.choices, self._policy)

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The plan of each query, and what it was chosen from."""
        if not self._queries:
            raise PlanError("the session has no query", hint='add one: s.query("name", "SELECT ...").')
        if self._planned is None:
            # By name, not by time of registration: a session that resumes must get the plan its state was made for.
            queries = {name: self._queries[name].query for name in sorted(self._queries)}
            seen, made = self._glanced(), self.checkpoint.plans()
            knobs = {name: self._knobs_of(name, seen, made.get(name)) for name in queries}
            self._planned = choices(queries, self.workers, knobs)
        return self._planned

    def _asked(self, name: str) -> Knobs:
        """The knobs of a query as the user has set them."""
        asked = replace(self._knobs, **self._queries[name].knobs)
        if self._knobs.statistics is None or asked.statistics is None:
            return asked
        return replace(asked, statistics=self._knobs.statistics.merge(asked.statistics))

    def _knobs_of(self, name: str, seen: Statistics | None, made: Mapping[str, str] | None) -> Knobs:
        """The knobs of a query; a plan that the checkpoint's state was made by stays."""
        handle = self._queries[name]
        asked = replace(self._asked(name), sizes=self._sizes())
        if self._looks(asked, handle):
            asked = replace(asked, statistics=seen)
        if made is None or made["strategy"] != _spelled(asked.strategy):
            return asked
        try:
            settled = Plan.from_json(made["plan"])
            bind(settled, handle.query)
        except (PlanError, ValueError, KeyError):
            return asked  # another query has taken the name; the checkpoint will say so
        return replace(asked, strategy=settled, settled=True)

    def _plans(self) -> dict[str, dict[str, str]]:
        """Query -> what was asked for, and what was made of it."""
        return {
            choice.name: {
                "strategy": _spelled(self._asked(choice.name).strategy),
                "plan": write(choice.query, choice.chosen.layout).to_json(),
            }
            for choice in self.choices
        }

    def explain(self, stage: str = "topology", format: str = "text", analyze: bool = False) -> str:  # noqa: A002
        """The plan, as far as a stage of planning has it, in a format for people or programs.

        Stages are "parsed" (what was written), "resolved" (what it means), "candidates" (what was considered, and why
        one plan won), "chosen" (that plan as a tree) and "topology" (stores, how long they keep rows and why, and
        what each arriving tuple does).  Formats are "text", "json" and "mermaid".  `analyze` shows what the
        committed batches of the checkpoint did beside what was expected, in the stages "chosen" and "topology".
        """
        subject = Subject(
            {name: handle.query for name, handle in self._queries.items()},
            {name: handle.draft for name, handle in self._queries.items()},
            lambda: self.choices,
            lambda: self.topology,
            analyze,
            self._done() if analyze else None,
        )
        return explain(subject, stage, format)

    def _done(self) -> Measured | None:
        """What the committed batches did; looking leaves no trace in a folder that is no checkpoint yet."""
        if not (self.checkpoint.root / "manifests").is_dir():
            return None
        last = Ledger(self.checkpoint.root).last()
        return measured(last.batch, last.totals, [(ref.store, ref.rows) for ref in last.segments])

    def run(self) -> RunReport:
        """Answer everything that is available now, then return.  Ctrl-C stops after the current batch."""
        return self._begin(every=None).finish()

    def start(self, every: str | datetime.timedelta | float = "1 second") -> Handle:
        """Answer for ever in the background, looking for new input at this pace."""
        microseconds = parse_duration(every)
        return self._begin(every=f"{max(1, microseconds // 1000)} milliseconds")

    def close(self) -> None:
        """Stop what runs and let the checkpoint go."""
        if self._handle is not None:
            self._handle.stop()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self, *, every: str | None) -> Handle:
        if self._handle is not None and self._handle.active:
            raise PlanError("the session is already running", hint="stop it first: h.stop().")
        plan = self.topology
        sinks = {name: tuple(handle.sinks) for name, handle in self._queries.items()}
        for name, found in sinks.items():
            if not found:
                raise SinkError(
                    f'query "{name}" has no sink', hint="add q.to_parquet(path), q.to_memory() or q.foreach_batch(f)."
                )
        queries = {name: handle.query for name, handle in self._queries.items()}
        sources = {s.name: self._sources[s.name] for s in plan.streams}
        self.checkpoint.claim(plan, queries, sources, self._plans())
        try:
            for found in sinks.values():
                for sink in found:
                    if isinstance(sink, ParquetSink):
                        sink.claim(self.checkpoint.id, published=self.checkpoint.published())
            watch = Watch(plan.workers, lambda load: uneven_load(load, plan.workers, self.choices, self.observed))
            self._handle = Handle(self.checkpoint, LiveLine(self._progress), watch)
            self._handle.begin(self._run(plan, sinks, self._handle.note), every)
        except BaseException:
            self.checkpoint.release()
            raise
        return self._handle

    def _sizes(self) -> dict[str, float]:
        """How much lies there now of each stream."""
        return {name: size for name, source in self._sources.items() if (size := _size(source)) is not None}

    def _run(self, plan: Topology, sinks: dict[str, tuple[Sink, ...]], note: Callable[[Progress], None]) -> Any:
        from weft.host.spark.run import SparkRun
        from weft.host.spark.session import local_session

        if self._spark is None:
            self._spark = local_session(plan.workers)
        functions = {key: function for key, (_, function) in self._functions.items()}
        return SparkRun(
            self._spark,
            plan,
            functions,
            self._sources,
            sinks,
            self.checkpoint.root,
            on_progress=note,
            crash=self._crash,
        )

    def _schema(self, name: str, source: object) -> pa.Schema:
        if isinstance(source, FileSource | TableSource):
            return source.schema
        if type(source).__module__.startswith("pyspark."):
            from weft.host.spark.sources import frame_schema

            schema, spark = frame_schema(source, name)
            self._spark = self._spark or spark
            return normalize_schema(schema)
        raise QueryError(
            f'source of stream "{name}" is a {type(source).__name__}',
            hint="use a Spark streaming DataFrame, or weft.read.parquet, .csv, .json or .batches.",
        )


class QueryHandle:
    """A registered query and its sinks."""

    def __init__(self, name: str, query: Query, draft: Draft) -> None:
        self.name, self.query, self.draft = name, query, draft
        self.sinks: list[Sink] = []
        self.knobs: dict[str, Any] = {}

    def to_parquet(self, path: str | os.PathLike[str]) -> QueryHandle:
        """Write results to a folder that holds every result exactly once."""
        self.sinks.append(ParquetSink(Path(path), self.name, self.query.schema))
        return self

    def to_memory(self) -> QueryHandle:
        """Keep results of this session in memory, for `table()`."""
        self.sinks.append(MemorySink(self.query.schema))
        return self

    def foreach_batch(self, function: Callable[[Any, int], object]) -> QueryHandle:
        """Call `function(df, batch_id)` with the results of every batch, before the batch is committed.

        After a crash the last batch may be handed over again, with the same number and rows.
        """
        if not callable(function):
            raise SinkError(f"foreach_batch needs a function, not a {type(function).__name__}", hint="f(df, batch_id).")
        self.sinks.append(ForeachSink(function))
        return self

    def table(self) -> pa.Table:
        """Everything the memory sink has received."""
        for sink in self.sinks:
            if isinstance(sink, MemorySink):
                return sink.table()
        raise SinkError(f'query "{self.name}" has no memory sink', hint="call q.to_memory() before the run.")

    def __repr__(self) -> str:
        return f"<query {self.name}: {', '.join(self.query.aliases)}>"


def _spelled(strategy: str | Plan) -> str:
    return strategy if isinstance(strategy, str) else strategy.to_json()


def _check_workers(workers: int) -> int:
    if not isinstance(workers, int) or isinstance(workers, bool) or workers < 1:
        raise PlanError(f"workers is {workers!r}", hint="use any whole number from 1.")
    return workers


def _one_of(knob: str, value: One, known: tuple[One, ...]) -> One:
    if value not in known:
        raise PlanError(f'{knob} "{value}" is unknown', hint=f"use one of: {', '.join(known)}.")
    return value


def _check_name(kind: str, name: str, taken: Any) -> None:
    if not isinstance(name, str) or not name.isidentifier():
        raise QueryError(
            f"{kind} name {name!r} is not usable",
            hint="use letters, digits and underscores, not starting with a digit.",
        )
    if name in taken:
        raise QueryError(f'{kind} "{name}" exists already', detail=f"known: {', '.join(sorted(taken))}.")


def _size(source: object) -> float | None:
    return source.size() if isinstance(source, FileSource | TableSource) else None
