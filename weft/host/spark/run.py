"""The driver: for every micro-batch one Spark job of all waves.

    envelopes of all streams  -->  wave 1 -> wave 2 -> ... -> counters
                                   then: foreach sinks, manifest, publication

Order within a batch: the waves write segments and staged results; functions of the user see the results; the
manifest is renamed into place, and the batch is true; results are published; garbage goes.  Dying anywhere
before the manifest means the batch is run again from the manifest before it.  Dying after it means
publication is repeated at the next start.
"""

from __future__ import annotations

import datetime
import itertools
import re
import time
import traceback
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from weft.errors import HostError, WeftError, from_wire
from weft.host.batch import Functions, Report
from weft.host.crash import CrashPoint, reach
from weft.host.envelope import unpack
from weft.host.ingest import ingests
from weft.host.results.sinks import ForeachSink, Sink, publish
from weft.host.sources.feeds import Offset
from weft.host.spark.exchange import Shipment, WaveTask
from weft.host.spark.polling import Polling
from weft.host.spark.reader import SCHEMA
from weft.host.spark.sources import envelopes, feeds, only_files
from weft.host.spark.streaming import Streaming
from weft.host.state.manifest import Ledger, Manifest
from weft.launch.warm import warm
from weft.observe.counters import Counters
from weft.observe.progress import Progress
from weft.topology.model import Topology

EPOCH = datetime.datetime(1970, 1, 1)  # noqa: DTZ001 - event times have no zone


class SparkRun:
    """A topology on Spark, from one checkpoint."""

    def __init__(
        self,
        spark: SparkSession,
        topology: Topology,
        functions: Functions,
        sources: Mapping[str, object],
        sinks: Mapping[str, Sequence[Sink]],
        checkpoint: Path,
        *,
        on_progress: Callable[[Progress], None],
        crash: CrashPoint | None = None,
    ) -> None:
        self.spark, self.topology, self.functions = spark, topology, functions
        self.sources, self.sinks, self.checkpoint = sources, sinks, checkpoint
        self.on_progress, self.crash = on_progress, crash
        self.ledger = Ledger(checkpoint)
        self.run = f"-{uuid.uuid4().hex[:6]}"
        self.failure: BaseException | None = None
        self._pace: Polling | Streaming | None = None

    def start(self, *, every: float | None) -> None:
        """Begin: read what is there now (`every` None), or for ever with so many seconds between batches."""
        warm(self.spark, self.topology.workers)
        self.manifest = self.ledger.last()
        try:
            self._pace = self._paced()
            self._pace.check()  # before anything is touched
            self.ledger.begin()
            self._publish(self.manifest)
            self.ledger.collect()
            self.ledger.announce(self.manifest.batch, self.manifest.watermarks(self.topology))
            self.plan = self.spark.sparkContext.broadcast(Shipment.of(self.topology, self.functions))
            self._pace.start(every)
        except Exception as error:  # py4j wraps whatever the JVM says
            raise self._cause(error) from error

    def _paced(self) -> Polling | Streaming:
        """At our own pace where all streams are files, at Spark's where it brings some of them."""
        readers = ingests(self.topology, self.functions)
        folder = str(self.checkpoint / "sources")
        if only_files(self.sources, readers):
            files, workers = feeds(self.sources, readers, folder), self.topology.workers
            return Polling(self.spark, files, self.ledger, workers, lambda: self.manifest, self._guarded)
        stream = envelopes(self.spark, self.sources, readers, folder, str(self.ledger.watermarks))
        return Streaming(stream, self.ledger, lambda: self.manifest, self._guarded)

    def wait(self, seconds: float) -> bool:
        """Wait for the end at most so long; whether it has ended.  A failed run raises."""
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
        if self.failure is not None:
            raise self.failure

    @property
    def active(self) -> bool:
        """Whether batches may still come."""
        return self._pace is not None and self._pace.active

    def _cause(self, error: Exception) -> BaseException:
        """The reason behind an exception, in Weft's words if it was Weft's."""
        if self.failure is not None or isinstance(error, WeftError):
            return self.failure or error
        hint = f"if the checkpoint was changed or damaged, restore {self.checkpoint} from a backup."
        spark = isinstance(error, PySparkException | Py4JError)
        what = "the Spark query failed" if spark else f"the run failed: {type(error).__name__}: {_first(error)}"
        return from_wire(str(error)) or HostError(what, detail=_saying(error), hint=hint)

    def _guarded(self, frame: DataFrame, number: int, offsets: Offset) -> None:
        try:
            self._batch(frame, number, offsets)
        except WeftError as error:
            self.failure = error
            raise
        except BaseException as error:
            self.failure = from_wire(str(error)) or self._unforeseen(error, number)
            raise

    def _unforeseen(self, error: BaseException, number: int) -> WeftError:
        return HostError(
            f"batch {number} failed: {type(error).__name__}: {_first(error)}",
            detail=_saying(error)
            if isinstance(error, PySparkException | Py4JError)
            else traceback.format_exc(limit=-3).rstrip(),
            hint="the batch will be run again by the next run on this checkpoint.",
        )

    def _batch(self, frame: DataFrame, number: int, offsets: Offset) -> None:
        began = time.perf_counter()
        report = self._waves(frame, number)
        self._foreach(number, report)
        manifest = self.manifest.after(self.topology, number, report, offsets)
        reach(self.crash, "commit before", number)
        self.ledger.commit(manifest)
        self.manifest = manifest
        reach(self.crash, "commit after", number)
        self._publish(manifest)
        self.ledger.collect()
        self.ledger.announce(number, manifest.watermarks(self.topology))
        self.on_progress(self._progress(number, time.perf_counter() - began, report))

    def _waves(self, frame: DataFrame, number: int) -> Report:
        """One job: all waves, and the counters of all tasks."""
        batch = self.manifest.next(self.topology, number, self.run, self.crash)
        self.ledger.unstage(number)  # what an attempt that died left behind
        staging = str(self.ledger.staged(number))
        for wave in range(1, self.topology.waves + 1):
            task = WaveTask(self.plan, batch, wave, str(self.ledger.segments), str(self.ledger.notes), staging)
            frame = frame.repartitionById(self.topology.workers, "dest")
            if wave > 1 and self.topology.keeps:
                frame = frame.sortWithinPartitions("seq")  # what is kept comes first, see Worker
            frame = frame.mapInArrow(task, SCHEMA)
        report = Report()
        for row in frame.collect():
            report.merge(unpack(row.dest, row.seq, row.edge, _buffer(row.payload)).report or {})
        return report

    def _foreach(self, number: int, report: Report) -> None:
        for query, sinks in self.sinks.items():
            for sink in sinks:
                if isinstance(sink, ForeachSink):
                    frame = self._frame(query, number, report)
                    try:
                        sink.function(frame, number)
                    except BaseException as error:  # sys.exit() must not pass for success
                        raise HostError(
                            f'the function of query "{query}" failed: {type(error).__name__}: {_first(error)}',
                            detail=traceback.format_exc(limit=-3).rstrip(),
                            hint="nothing of this batch was committed; correct the function and run again.",
                        ) from error

    def _frame(self, query: str, number: int, report: Report) -> DataFrame:
        emit = next(emit for emit in self.topology.emits if emit.query == query)
        schema = from_arrow_schema(pa.schema([(output.name, output.expr.type) for output in emit.outputs]))
        files = [str(self.ledger.staged(number) / query / f["file"]) for f in report.files if f["query"] == query]
        if not files:
            return self.spark.createDataFrame([], schema)
        return self.spark.read.schema(schema).parquet(*(_PATTERN.sub(r"\\\g<0>", file) for file in files))

    def _publish(self, manifest: Manifest) -> None:
        if manifest.batch >= 0:
            publish(
                self.sinks, self.ledger.staged(manifest.batch), manifest.files,
                lambda: reach(self.crash, "publish", manifest.batch),
            )  # fmt: skip
            self.ledger.unstage(manifest.batch)

    def _progress(self, number: int, seconds: float, report: Report) -> Progress:
        segments = self.manifest.segments
        marks = [mark for mark in self.manifest.watermarks(self.topology).values() if mark is not None]
        return Progress(
            batch=number,
            seconds=seconds,
            rows_in={stream.name: report.rows_in.get(stream.name, 0) for stream in self.topology.streams},
            rows_out={emit.query: report.results.get(emit.query, 0) for emit in self.topology.emits},
            late=report.late,
            untimed=report.untimed,
            state_rows=sum(ref.rows for ref in segments),
            state_bytes=sum(ref.bytes for ref in segments),
            segments=len(segments),
            watermark=_moment(min(marks)) if marks else None,
            wave_seconds={int(wave): spent for wave, spent in report.seconds.items()},
            counters=Counters.of(report),
        )


def _moment(microseconds: int) -> datetime.datetime | int:
    try:
        return EPOCH + datetime.timedelta(microseconds=microseconds)
    except OverflowError:
        return microseconds


def _saying(error: BaseException) -> str:
    """What Spark says, without its plans and stack traces."""
    said = [
        line
        for line in itertools.takewhile(lambda line: not _NOISE.match(line), str(error).splitlines())
        if line.strip()
    ]
    return "\n".join(said if len(said) <= 6 else [*said[:2], "...", *said[-3:]])


_PATTERN = re.compile(r"[*?\[\]{}\\]")
"""What Spark takes for patterns in the names of files."""
_NOISE = re.compile(r"\s+at [\w$.]+|=== Streaming Query ===|JVM stacktrace")


def _first(error: BaseException) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), "")


def _buffer(payload: Any) -> Any:
    return pa.py_buffer(bytes(payload))
