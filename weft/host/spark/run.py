"""The driver: for every micro-batch one Spark job of all waves.

    envelopes of all streams  -->  wave 1 -> wave 2 -> ... -> counters
                                   then: foreach sinks, manifest, publication

Order within a batch: the waves write segments and staged results; functions of the user see the results; the
manifest is renamed into place, which commits the batch; results are published; files that are no longer needed are
removed.  If a run dies before the manifest, the batch is run again from the manifest before it.  If it dies after the
manifest, publication is repeated at the next start.
"""

from __future__ import annotations

import itertools
import re
import tempfile
import time
import traceback
import uuid
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from weft.errors import HostError, QueryError, SourceError, WeftError, first_line, from_wire
from weft.expr.evaluate import Functions
from weft.host.batch import Batch, Report
from weft.host.crash import CrashPoint, is_crash, reach
from weft.host.envelope import unpack
from weft.host.idle import Silence
from weft.host.ingest import ingests
from weft.host.migration.migrate import Job, Migration, Runner, Summary
from weft.host.migration.prepare import ROUNDS, Preparation
from weft.host.migration.reread import share
from weft.host.sources.feeds import Feeds, Offset
from weft.host.spark.delivery import Delivery
from weft.host.spark.exchange import Shipment, WaveTask
from weft.host.spark.lost import explain_lost
from weft.host.spark.missing import explain_missing
from weft.host.spark.oldrows import OldRows
from weft.host.spark.pace import Pace
from weft.host.spark.polling import Polling
from weft.host.spark.reader import SCHEMA
from weft.host.spark.reading import Reading, Shares
from weft.host.spark.sources import open_feeds, quote_columns, unite
from weft.host.spark.streaming import Streaming, United
from weft.host.state.checkpoint import FILES, is_same_query
from weft.host.state.manifest import Ledger
from weft.host.state.place import Place
from weft.host.state.room import check_room
from weft.host.work import Changes, Work
from weft.launch.warm import warm
from weft.observe.counters import Counters
from weft.observe.notice import Notice
from weft.observe.progress import Progress
from weft.observe.watermark import as_time, read_watermarks
from weft.topology.model import Epoch, Topology

AT_ONCE = 400_000
"""Rows that a change may read between two batches, by default."""


class SparkRun:
    """A topology on Spark, from one checkpoint."""

    def __init__(self, batches: SparkBatches) -> None:
        self.batches = batches
        self._pace: Pace | None = None

    def start(self, every: float | None) -> None:
        """Begin.  If `every` is None, read what is there now and end; else go on, a batch every so many seconds."""
        warm(self.batches.spark.sparkContext, self.batches.topology.workers)
        try:
            self._pace = self._choose_pace()
            self._pace.check()  # before anything is touched
            self.batches.begin(self._pace.spark)
            self._pace.start(every)
        except Exception as error:  # py4j wraps whatever the JVM says
            raise self._cause(error) from error

    def _choose_pace(self) -> Pace:
        """Our own pace if no stream is a DataFrame of Spark, else Spark's."""
        batches = self.batches
        brought, sources = batches.work_now.session["brought"], batches.work_now.sources
        inside = [name for name, source in sources.items() if getattr(source, "in_checkpoint", False)]
        if batches.place.depot is not None and inside:
            raise SourceError(
                f'stream "{inside[0]}" passes through files of the checkpoint, and the checkpoint is a URL',
                detail="tables in memory, subscriptions, and records that are kept because they could not be read, are "
                "files in a folder that all machines must see.",
                hint="use a checkpoint in a folder that machines share; write tables as Parquet files; for Kafka say "
                "bad_folder=...",
            )
        if not brought:
            return Polling(batches.spark, batches)
        if batches.place.depot is not None:
            raise SourceError(
                f'stream "{brought[-1]}" is a DataFrame, and the checkpoint is a URL',
                detail="Spark keeps the offsets of its streams in files of its own, which are not in this checkpoint.",
                hint="use weft.read.kafka, .parquet, .csv or .json, or a checkpoint in a folder that machines share.",
            )
        if skips := [name for name, s in batches.work_now.sources.items() if getattr(s, "bad_files", "fail") == "skip"]:
            raise SourceError(
                f'stream "{skips[0]}" has bad_files="skip" beside a stream that Spark brings',
                detail="Spark decides what a batch reads, and a batch is not cut anew without a file.",
                hint='use bad_files="fail", or read all streams from files.',
            )
        return Streaming(batches.spark, self._unite, batches)

    def _unite(self) -> United:
        """All streams as one DataFrame, for the present plan.  Those that no query reads are skipped."""
        batches, work = self.batches, self.batches.work_now
        readers, feeds = ingests(work.topology, work.functions), batches.open_feeds()
        brought = work.session["brought"]
        given = {name: work.sources[name].frame for name in brought if name != FILES}
        frames = {name: frame for name, frame in given.items() if frame is not None}
        columns = {
            name: readers[name].columns if name in readers else tuple(frame.columns[:1])
            for name, frame in frames.items()
        }
        wanted = {name: frames[name].select(*quote_columns(found)) for name, found in columns.items()}
        shape = (tuple(columns.items()), tuple(feeds.by_stream))
        filed = feeds if FILES in brought else None
        return United(shape, feeds, lambda: unite(batches.spark, filed, wanted, work.topology.workers))

    def wait(self, seconds: float) -> bool:
        """Wait for the end, at most so many seconds; return whether it has ended.  A failed run raises."""
        assert self._pace is not None
        try:
            return self._pace.wait(seconds)
        except Exception as error:  # noqa: BLE001 - py4j wraps whatever the JVM says
            raise self._cause(error) from None

    def stop(self) -> None:
        """Let the current batch finish, then stop.  A run that has failed before raises."""
        try:
            if self._pace is not None:
                self._pace.stop()
        except Exception as error:  # noqa: BLE001 - py4j wraps whatever the JVM says
            raise self._cause(error) from None
        if self.batches.failure is not None:
            raise self.batches.failure

    @property
    def active(self) -> bool:
        """Whether batches may still come."""
        return self._pace is not None and self._pace.active

    def _cause(self, error: Exception) -> BaseException:
        """The reason behind an exception: Weft's own error, if there was one."""
        if self.batches.failure is not None or isinstance(error, WeftError):
            return self.batches.failure or error
        hint = f"if the checkpoint was changed or damaged, restore {self.batches.ledger.root} from a backup."
        spark = isinstance(error, PySparkException | Py4JError)
        what = "the Spark query failed" if spark else f"the run failed: {type(error).__name__}: {first_line(error)}"
        return (
            from_wire(str(error))
            or explain_missing(str(error))
            or explain_lost(error)
            or HostError(what, detail=_quote_spark(error), hint=hint)
        )


class SparkBatches:
    """The batches of a topology on Spark: how far they are, and how the next one is run."""

    def __init__(
        self,
        spark: SparkSession,
        work: Work,
        place: Place,
        ledger: Ledger,
        changes: Changes,
        *,
        on_progress: Callable[[Progress], None],
        on_failure: Callable[[BaseException], None] = lambda _error: None,
        crash: CrashPoint | None = None,
        sample: int = 0,
    ) -> None:
        self.sample = sample
        """Rows that each task draws of a stream, for statistics."""
        self.spark, self.work_now, self.changes = spark, work, changes
        self.on_progress, self.on_failure, self.crash = on_progress, on_failure, crash
        self.place, self.ledger = place, ledger
        self.manifest = self.ledger.last()
        self._silence = Silence()
        self.run = f"-{uuid.uuid4().hex[:6]}"
        self.delivery = Delivery(spark, ledger, place, self.run, crash)
        self.at_once = AT_ONCE
        """A change that reads no more rows than this is made between two batches."""
        self._preparing: Preparation | None = None
        self.failure: BaseException | None = None
        self._notices: list[Notice] = []
        """What the progress of the next batch has to say; the last notice of skipped files counts them all."""
        self._written = 0
        """Bytes of state that the last batch wrote."""

    @property
    def topology(self) -> Topology:
        """The plan of the next batch."""
        return self.work_now.topology

    def open_feeds(self) -> Feeds:
        """The streams of the plan that are read at our own pace."""
        folder = str(self.ledger.root / "sources")
        return open_feeds(self.work_now.sources, self.topology.streams, folder)

    # ------------------------------------------------------------------------------------------ epochs

    def begin(self, spark: SparkSession) -> None:
        """Finish what the last run left undone, and prepare for the next batch.  Jobs run in the given session."""
        self._jobs = spark
        self.ledger.begin()
        self.delivery.publish(self.work_now, self.manifest)
        self.ledger.collect()
        self.ledger.announce(self.manifest.batch)
        known = self.ledger.epoch()
        if known is None:
            self.epoch = Epoch(0, self.topology)
            self.ledger.propose(self.epoch, self.work_now.describe(self.manifest))
        else:
            self.epoch = known
            if known.topology != self.topology:
                self._resume()
        self.plan = self._ship(self.topology)
        self.delivery.restore(self.work_now, self.manifest)

    def _resume(self) -> None:
        """The session differs from the one that made the state."""
        began, before = time.perf_counter(), self.ledger.session()
        migration = self._plan_migration(self.work_now)
        migration.work(self._runner(self.work_now, migration.epoch))
        summary = self._migrate(self.work_now, migration)
        self.delivery.publish(self.work_now, self.manifest)
        self.ledger.collect()
        self.changes.made(before, self.work_now, summary, self.manifest, time.perf_counter() - began)

    def turn(self) -> None:
        """Change the plan, if that is wanted.  If it cannot be done, the old plan goes on.

        A change that has to read much is made ready in the background first: then batches go on under the old plan.
        """
        while (work := self.changes.wanted()) is not None:  # a change may be asked for while another one is made
            if not self._turn(work):
                return
        self._give_up()

    def _turn(self, work: Work) -> bool:
        """Make a change; return whether it is done, or refused."""
        began, before = time.perf_counter(), self.work_now.session
        try:
            if self.manifest.batch < 0 or work.topology == self.topology:
                summary = self._restate(work)
            elif (migration := self._prepare(work)) is not None:
                summary = self._migrate(work, migration)
            else:
                return False
        except Exception as error:
            cause = error if isinstance(error, WeftError) else from_wire(str(error))
            cause = cause or self._unforeseen_error(error, self.manifest.batch)
            if is_crash(cause):
                self.failure = cause
                raise
            self._give_up()
            self.changes.refused(work, cause)
        else:
            self.plan.unpersist()
            self.plan = self._ship(self.topology)
            self.delivery.publish(self.work_now, self.manifest)
            self.delivery.restore(self.work_now, self.manifest)
            self.ledger.collect()
            self.changes.made(before, work, summary, self.manifest, time.perf_counter() - began)
        return True

    def _prepare(self, work: Work) -> Migration | None:
        """The migration to other work, if it is so small or so far that it can be finished now; else None."""
        if self._preparing is not None and self._preparing.work is not work:
            self._give_up()
        if self._preparing is None:
            migration = self._plan_migration(work)
            if migration.size <= self.at_once or not migration.can_catch_up:
                migration.work(self._runner(work, migration.epoch))
                return migration
            self._preparing = Preparation(
                work, self._plan_migration(work, self.at_once), self._runner(work, migration.epoch, tasks=1)
            )
            self._guard()
            return None
        made = self._preparing
        if not made.is_ready:
            return None
        if made.error is not None:
            raise made.error
        self._guard()
        if made.rows_behind(self.manifest) > self.at_once and made.rounds < ROUNDS:
            made.bring_up(self.manifest)
            return None
        made.migration.catch_up(self.manifest, self._runner(work, made.migration.epoch))
        return made.migration

    def _plan_migration(self, work: Work, most: int | None = None) -> Migration:
        number = self.epoch.number + 1
        self.ledger.unstage(self.manifest.batch, number)
        reach(self.crash, "migrate before", self.manifest.batch)
        return Migration(self.epoch.topology, work.change, self.manifest, number, self.run, self.crash, most)

    def _runner(self, work: Work, epoch: int, tasks: int | None = None) -> Runner:
        return lambda job, batch: self._job(job, batch, work, epoch, tasks or 2 * job.topology.workers)

    def _guard(self) -> None:
        """Keep the files that the migration in the background needs."""
        assert self._preparing is not None
        made = self._preparing.migration
        mark = f"e{made.epoch}j"
        # What was taken of earlier batches, and what a round reads now: batches may merge both away meanwhile.
        needed = (*made.segments, *made.manifest.segments, *self.manifest.segments)
        self.ledger.guarded = {ref.name for ref in needed}
        self.ledger.young = lambda name: mark in name

    def _give_up(self) -> None:
        """Throw away what was made in the background, if there is anything."""
        if self._preparing is not None:
            self._preparing.cancel()
        self._preparing, self.ledger.guarded, self.ledger.young = None, (), lambda _name: False

    def end(self) -> None:
        """No batch will come any more."""
        self._give_up()
        if self.failure is not None:
            self.on_failure(self.failure)

    def _restate(self, work: Work) -> Summary:
        """The same state under another description: nothing has to move."""
        self.epoch = Epoch(self.epoch.number if self.manifest.batch < 0 else self.epoch.number + 1, work.topology)
        self.ledger.propose(self.epoch, work.describe(self.manifest))
        if self.manifest.batch >= 0:
            self.manifest = self.manifest.under(self.epoch, self.manifest.segments, (), self.manifest.partial)
            self.ledger.commit(self.manifest)
        self.work_now = work
        return Summary(len(work.topology.stores))

    def _migrate(self, work: Work, migration: Migration) -> Summary:
        """Commit a migration, and go on with its plan."""
        number = self.manifest.batch
        epoch = Epoch(self.epoch.number + 1, work.topology)
        before, after = self.ledger.session()["queries"], work.session["queries"]
        gone = [query for query, said in before.items() if not is_same_query(said, after.get(query, {}))]
        manifest = migration.commit(epoch).recount(gone, migration.summary.results)
        manifest = replace(manifest, files=(*manifest.files, *self.delivery.stage_views(work, manifest)))
        self.delivery.hand_over(work, number, epoch.number, manifest.files, only=work.backfill)
        self.ledger.propose(epoch, work.describe(manifest))
        reach(self.crash, "migrate commit before", number)
        self.ledger.commit(manifest)
        self.manifest, self.epoch, self.work_now = manifest, epoch, work
        self._preparing = None
        self._give_up()
        reach(self.crash, "migrate commit after", number)
        return migration.summary

    def _job(self, job: Job, batch: Batch, work: Work, epoch: int, tasks: int) -> Report:
        """Run one part of a migration."""
        self._jobs.sparkContext.setJobDescription(f"Weft, {job.what}")
        plan = self._ship(job.topology, work.functions)
        try:
            rows = self._input(job, work, tasks)
            return self._run(rows, plan, job.topology, batch, self.ledger.staging_folder(batch.number, epoch))
        finally:
            plan.unpersist()

    def _input(self, job: Job, work: Work, tasks: int) -> Reading:
        """Old rows, or tables as far as they were read."""
        if not job.tables:
            return OldRows(self._jobs, self.place, share(job.pieces, tasks))
        read = [stream for stream in work.topology.streams if stream.name in job.tables]
        feeds = open_feeds(work.sources, read, str(self.ledger.root / "sources"))
        return Shares(
            self._jobs, self.spark.sparkContext.broadcast(feeds), feeds.deal({}, self._read_so_far(feeds), tasks)
        )

    def _read_so_far(self, feeds: Feeds) -> Offset:
        """How far tables were read; Spark reads a table whole in its first batch, and keeps the offset itself."""
        known = self.manifest.offsets
        return {
            name: known[name] if name in known else feed.reader.discover() for name, feed in feeds.by_stream.items()
        }

    def _ship(self, topology: Topology, functions: Functions | None = None) -> Any:
        known = self.work_now.functions if functions is None else functions
        return self.spark.sparkContext.broadcast(Shipment.of(topology, known, self.sample))

    # ----------------------------------------------------------------------------------------- batches

    @property
    def has_to_close(self) -> bool:
        """Whether windows have closed whose final rows were not given out: that needs a batch, even an empty one."""
        return self.manifest.has_closed(self.topology)

    @property
    def has_to_go_on(self) -> bool:
        """Whether a stream that a watermark waits for has become idle: the manifest of a batch has to say so."""
        return self._silence.holds(self.topology, self.manifest.newest, self.manifest.idle)

    def work(self, rows: Reading, number: int, offsets: Offset) -> None:
        """Run a batch.  An error is kept in `failure`, since Spark wraps it in a message of its own."""
        try:
            self._batch(rows, number, offsets)
        except WeftError as error:
            self.failure = error
            raise
        except BaseException as error:
            told = from_wire(str(error))
            self.failure = self._unforeseen_error(error, number) if told is None else _in_batch(told, number)
            raise

    def forgive(self, notice: Notice) -> None:
        """The last batch failed and will be run again, as a notice says."""
        self.failure = None
        self._notices.append(notice)

    def _unforeseen_error(self, error: BaseException, number: int) -> WeftError:
        lost = explain_lost(error)
        if lost is not None:
            return lost.restate(detail=f"in batch {number}, {lost.detail}", hint=lost.hint)
        return explain_missing(str(error)) or HostError(
            f"batch {number} failed: {type(error).__name__}: {first_line(error)}",
            detail=_quote_spark(error)
            if isinstance(error, PySparkException | Py4JError)
            else traceback.format_exc(limit=-3).rstrip(),
            hint="the batch will be run again by the next run on this checkpoint.",
        )

    def _batch(self, rows: Reading, number: int, offsets: Offset) -> None:
        began = time.perf_counter()
        check_room(self._places(), self._written)
        self.ledger.unstage(number)  # remove what an attempt that died left behind
        barrier = None if self._preparing is None else self._preparing.barrier
        batch = self.manifest.next(self.topology, number, self.run, self.crash, barrier)
        report = self._run(rows, self.plan, self.topology, batch, self.ledger.staging_folder(number))
        self.delivery.hand_over(self.work_now, number, 0, report.files)
        before = self.manifest
        idle = self._silence.after(self.topology.streams, report.rows_in, before.idle, before.newest, report.newest)
        manifest = self.manifest.after(self.epoch, number, report, offsets, idle)
        self._written = sum(ref["bytes"] for ref in report.added)
        reach(self.crash, "commit before", number)
        self.ledger.commit(manifest)
        self.manifest = manifest
        reach(self.crash, "commit after", number)
        self.delivery.publish(self.work_now, manifest)
        self.ledger.collect()
        self.ledger.announce(number)
        seconds = time.perf_counter() - began
        self.on_progress(self._progress(number, seconds, report, rows))
        self.changes.seen(manifest, report, seconds)

    def _places(self) -> Iterator[Path]:
        """Where a batch writes: state, results, and what Spark sends between workers on this machine."""
        yield self.ledger.root
        yield Path(tempfile.gettempdir())
        yield from (sink.folder for sinks in self.work_now.sinks.values() for sink in sinks if sink.folder is not None)

    def _run(self, rows: Reading, plan: Any, topology: Topology, batch: Batch, staging: Path) -> Report:
        """Run all waves as one job, and return the counters of all tasks."""
        frame = rows.envelopes(plan, batch)
        folder = str(staging.relative_to(self.ledger.root))
        for wave in range(1, topology.waves + 1):
            task = WaveTask(plan, batch, wave, self.place, folder)
            frame = frame.repartitionById(topology.workers, "dest")
            if wave > 1 and topology.stores_late:
                frame = frame.sortWithinPartitions("seq")  # rows to store come first, see weft.host.worker
            frame = frame.mapInArrow(task, SCHEMA)
        report = Report()
        for row in frame.collect():
            report.merge(unpack(row.dest, row.seq, row.edge, _buffer(row.payload)).report or {})
        return report

    def _progress(self, number: int, seconds: float, report: Report, rows: Reading) -> Progress:
        segments = self.manifest.segments
        found = self.manifest.watermarks(self.topology)
        marks = [mark for mark in found.values() if mark is not None]
        zeros = Counters(  # streams without rows and queries without results are shown too
            rows_in={stream.name: 0 for stream in self.topology.streams},
            results={emit.query: 0 for emit in self.topology.emits if not emit.into},
        )
        return Progress(
            batch=number,
            seconds=seconds,
            state_rows=sum(ref.rows for ref in segments),
            state_bytes=sum(ref.bytes for ref in segments),
            segments=len(segments),
            watermark=as_time(min(marks)) if marks else None,
            counters=Counters.total([zeros, report]),
            watermarks=read_watermarks(self.topology.clocks, self.manifest.newest, self.manifest.idle, found),
            newest=self.manifest.newest,
            notices=(*self._told(), *rows.notices),
            lag=rows.lag,
            workers=self.topology.workers,
        )

    def _told(self) -> tuple[Notice, ...]:
        told, self._notices = tuple(self._notices[-1:]), []
        return told


def _in_batch(error: WeftError, number: int) -> WeftError:
    """An error of a query on a worker, with the batch that it happened in."""
    if not isinstance(error, QueryError):
        return error
    detail = f"in batch {number}, {error.detail}" if error.detail else f"in batch {number}."
    return error.restate(detail=detail, hint=error.hint)


def _quote_spark(error: BaseException) -> str:
    """Spark's message, without its plans and stack traces."""
    said = [
        line
        for line in itertools.takewhile(lambda line: not _NOISE.match(line), str(error).splitlines())
        if line.strip()
    ]
    return "\n".join(said if len(said) <= 6 else [*said[:2], "...", *said[-3:]])


_NOISE = re.compile(r"\s+at [\w$.]+|=== Streaming Query ===|JVM stacktrace")


def _buffer(payload: Any) -> Any:
    return pa.py_buffer(bytes(payload))
