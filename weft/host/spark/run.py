"""The driver: for every micro-batch one Spark job of all waves.

    envelopes of all streams  -->  wave 1 -> wave 2 -> ... -> counters
                                   then: foreach sinks, manifest, publication

Order within a batch: the waves write segments and staged results; functions of the user see the results; the
manifest is renamed into place, which commits the batch; results are published; files that are no longer needed are
removed.  If a run dies before the manifest, the batch is run again from the manifest before it.  If it dies after the
manifest, publication is repeated at the next start.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from pyspark import SparkFiles
from pyspark.sql import SparkSession

from weft.errors import HostError, SourceError, WeftError, first_line, from_wire
from weft.host.batch import Report
from weft.host.crash import reach
from weft.host.idle import Silence
from weft.host.ingest import ingests, is_dated
from weft.host.sources.feeds import Feeds, Offset
from weft.host.spark.delivery import Delivery
from weft.host.spark.epochs import Epochs
from weft.host.spark.failing import cause_of, in_batch, is_of_spark, quote_spark
from weft.host.spark.ground import Ground
from weft.host.spark.lost import explain_lost
from weft.host.spark.missing import explain_missing
from weft.host.spark.pace import Pace
from weft.host.spark.polling import Polling
from weft.host.spark.reading import Reading
from weft.host.spark.sources import open_feeds, quote_columns, unite
from weft.host.spark.streaming import Streaming, United
from weft.host.state.checkpoint import FILES
from weft.host.state.manifest import Manifest
from weft.host.state.moment import fix_moment
from weft.host.state.room import check_room
from weft.host.work import Work
from weft.launch.warm import warm
from weft.observe.counters import Counters
from weft.observe.notice import Notice, say_lost
from weft.observe.progress import Progress
from weft.observe.watermark import as_time, read_watermarks
from weft.topology.model import Epoch, Topology


class SparkRun:
    """A topology on Spark, from one checkpoint."""

    def __init__(self, batches: SparkBatches) -> None:
        self.batches = batches
        self._pace: Pace | None = None

    def start(self, every: float | None) -> None:
        """Begin.  If `every` is None, read what is there now and end; else go on, a batch every so many seconds."""
        try:
            warm(self.batches.spark.sparkContext, self.batches.topology.workers)
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
                hint="use a checkpoint in a folder that machines share; write tables as Parquet files; for Kafka "
                "name a bad_folder that they share.",
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
        what = (
            "the Spark query failed"
            if is_of_spark(error)
            else f"the run failed: {type(error).__name__}: {first_line(error)}"
        )
        return (
            from_wire(str(error))
            or explain_missing(str(error))
            or explain_lost(error)
            or HostError(what, detail=quote_spark(error), hint=hint)
        )


class SparkBatches:
    """The batches of a topology on Spark: how far they are, and how the next one is run."""

    def __init__(
        self,
        ground: Ground,
        work: Work,
        *,
        on_progress: Callable[[Progress], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self.spark, self.place, self.ledger = ground.spark, ground.place, ground.ledger
        self.changes, self.crash, self.run = ground.changes, ground.crash, ground.run
        self.on_progress, self.on_failure = on_progress, on_failure
        self._silence = Silence()
        self.delivery = Delivery(ground)
        self.epochs = Epochs(ground, work, self.delivery)
        self.failure: BaseException | None = None
        self._notices: list[Notice] = []
        """What the progress of the next batch has to say; the last notice of skipped files counts them all."""
        self._written = 0
        """Bytes of state that the last batch wrote."""

    def open_feeds(self) -> Feeds:
        """The streams of the plan that are read at our own pace."""
        folder = str(self.ledger.root / "sources")
        return open_feeds(self.work_now.sources, self.topology.streams, folder)

    # ------------------------------------------------------------------------------------------- plans

    @property
    def work_now(self) -> Work:
        """What the next batch does."""
        return self.epochs.work

    @property
    def topology(self) -> Topology:
        """The plan of the next batch."""
        return self.epochs.topology

    @property
    def epoch(self) -> Epoch:
        """The plan that the state was made by."""
        return self.epochs.epoch

    @property
    def manifest(self) -> Manifest:
        """The last commit."""
        return self.epochs.manifest

    def begin(self, spark: SparkSession) -> None:
        """Finish what the last run left undone, and prepare for the next batch.  Jobs run in the given session."""
        self.epochs.begin(spark)

    def turn(self) -> None:
        """Change the plan, if that is wanted."""
        try:
            self.epochs.turn()
        except WeftError as error:
            self.failure = error
            raise

    def end(self) -> None:
        """No batch will come any more."""
        self.epochs.give_up()
        if self.failure is not None:
            self.on_failure(self.failure)

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
            self.failure = in_batch(cause_of(error, number), number)
            raise

    def forgive(self, notice: Notice) -> None:
        """The last batch failed and will be run again, as a notice says."""
        self.failure = None
        self._notices.append(notice)

    def _batch(self, rows: Reading, number: int, offsets: Offset) -> None:
        began = time.perf_counter()
        check_room(self._places(), self._written)
        self.ledger.unstage(number)  # remove what an attempt that died left behind
        barrier = None if self.epochs.preparing is None else self.epochs.preparing.barrier
        batch = self.manifest.next(self.topology, number, self.run, self.crash, barrier)
        if any(map(is_dated, self.topology.edges)):
            batch = replace(batch, now=fix_moment(self.ledger.root, number, time.time))
        batch = replace(batch, sample=self.changes.sample)
        folder, epochs = self.ledger.staging_name(number), self.epochs
        report = epochs.waves.run(rows, epochs.plan, self.topology, batch, folder)
        self.delivery.hand_over(self.work_now, number, 0, report.files)
        before = self.manifest
        idle = self._silence.after(self.topology.streams, report.rows_in, before.idle, before.newest, report.newest)
        manifest = self.manifest.after(self.epoch, number, report, offsets, idle)
        self._written = sum(ref["bytes"] for ref in report.added)
        reach(self.crash, "commit before", number)
        self.ledger.commit(manifest)
        self.epochs.committed(manifest, time.perf_counter() - began)
        reach(self.crash, "commit after", number)
        self.delivery.publish(self.work_now, manifest)
        self.ledger.collect()
        self.ledger.announce(number)
        seconds = time.perf_counter() - began
        self.on_progress(self._progress(number, seconds, report, rows))
        self.changes.seen(manifest, report, seconds)

    @cached_property
    def _sent(self) -> Path:
        """Beside the folders in which Spark keeps what workers send each other, if they run on this machine.

        Asked for in a batch: there it is known what to say if the JVM is gone.
        """
        return Path(SparkFiles.getRootDirectory())

    def _places(self) -> Iterator[Path]:
        """Where a batch writes: state, results, and what Spark sends between workers on this machine."""
        yield self.ledger.root
        yield self._sent
        yield from (sink.folder for sinks in self.work_now.sinks.values() for sink in sinks if sink.folder is not None)

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
            notices=(*self._told(), *rows.notices, *say_lost(report.lost)),
            lag=rows.lag,
            workers=self.topology.workers,
        )

    def _told(self) -> tuple[Notice, ...]:
        told, self._notices = tuple(self._notices[-1:]), []
        return told
