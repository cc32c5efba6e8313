"""The driver: one Structured Streaming query, and for every micro-batch one Spark job of all waves.

    union of envelopes  --foreachBatch-->  wave 1 -> wave 2 -> ... -> counters
                                           then: foreach sinks, manifest, publication

Order within a batch: the waves write segments and staged results; functions of the user see the results; the
manifest is renamed into place, and the batch is true; results are published; garbage goes.  Dying anywhere
before the manifest means the batch is run again from the manifest before it.  Dying after it means
publication is repeated at the next start, and Spark's repetition of the batch is recognised by its number and
skipped.
"""

from __future__ import annotations

import datetime
import itertools
import re
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery

from weft.errors import HostError, StateError, WeftError, from_wire
from weft.host.batch import Functions, Report
from weft.host.crash import CrashPoint, reach
from weft.host.envelope import unpack
from weft.host.ingest import ingests
from weft.host.manifest import Ledger, Manifest
from weft.host.sinks import ForeachSink, Sink, publish
from weft.host.spark.exchange import Shipment, WaveTask
from weft.host.spark.reader import SCHEMA
from weft.host.spark.session import BATCH_SETTINGS
from weft.host.spark.sources import envelopes
from weft.host.spark.warm import warm
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
        self.stopping = self.refused = False
        self._gate = threading.Lock()
        self._query: StreamingQuery | None = None

    def start(self, *, every: str | None) -> None:
        """Begin: read what is there now (`every` None), or for ever with that pause between batches."""
        self.manifest = self.ledger.last()
        self._check_offsets()
        self._publish(self.manifest)
        self.ledger.collect()
        self.ledger.announce(self.manifest.watermarks(self.topology))
        warm(self.spark, self.topology.workers)
        self.plan = self.spark.sparkContext.broadcast(Shipment.of(self.topology, self.functions))
        readers = ingests(self.topology, self.functions)
        folder, watermarks = str(self.checkpoint / "sources"), str(self.ledger.watermarks)
        stream = envelopes(self.spark, self.sources, readers, folder, watermarks)
        writer = stream.writeStream.foreachBatch(self._guarded).option(
            "checkpointLocation", str(self.checkpoint / "spark")
        )
        writer = writer.trigger(availableNow=True) if every is None else writer.trigger(processingTime=every)
        try:
            self._query = writer.start()
        except Exception as error:
            raise self._cause(error) from error

    def _check_offsets(self) -> None:
        """Refuse, before anything is touched, if Spark's half of the checkpoint and ours do not belong together.

        Without its offsets Spark would begin again at batch 0, and all batches up to ours would be passed over.
        Without our newest manifest, the segments it names would be swept away as garbage.
        """
        spark, last = self.checkpoint / "spark", self.manifest.batch
        done = max((int(p.name) for p in spark.glob("commits/*") if p.name.isdigit()), default=-1)
        hint = "restore the folder from a backup, or start again from an empty checkpoint."
        if last >= 0 and not (spark / "offsets" / str(last)).exists():
            detail = "Spark's part of the checkpoint is gone, or older than the manifests."
            raise StateError(f"{spark / 'offsets' / str(last)} is missing", detail=detail, hint=hint)
        if done > last:
            detail = f"Spark has finished batch {done}, but the last manifest is of batch {last}."
            raise StateError(f"checkpoint {self.checkpoint} lacks a manifest", detail=detail, hint=hint)

    def wait(self, seconds: float) -> bool:
        """Wait for the end at most so long; whether it has ended.  A failed run raises."""
        assert self._query is not None
        try:
            return bool(self._query.awaitTermination(seconds))
        except Exception as error:  # noqa: BLE001 - py4j wraps whatever the JVM says
            cause = self._cause(error)
        if self.refused and self.failure is None:
            return True  # it ended because it was stopped
        raise cause

    def stop(self) -> None:
        """Let the current batch finish, then stop.  A run that has failed before raises."""
        self.stopping = True
        with self._gate:
            pass  # the current batch, if any, is done
        if self._query is None:
            return
        died = None if self._query.isActive else self._query.exception()
        self._query.stop()
        if self.failure is not None or (died is not None and not self.refused):
            raise self._cause(died or HostError("the run failed"))

    @property
    def active(self) -> bool:
        """Whether batches may still come."""
        return self._query is not None and self._query.isActive

    def _cause(self, error: Exception) -> BaseException:
        """The reason behind Spark's exception, in Weft's words if it was Weft's."""
        if self.failure is not None:
            return self.failure
        hint = f"if the checkpoint was changed or damaged, restore {self.checkpoint} from a backup."
        return from_wire(str(error)) or HostError("the Spark query failed", detail=_saying(error), hint=hint)

    def _guarded(self, frame: DataFrame, number: int) -> None:
        with self._gate:
            if number <= self.manifest.batch:
                return
            if self.stopping:
                # To return would tell Spark that the batch is done, and its rows would never be seen again.
                self.refused = True
                raise HostError(f"batch {number} was not begun", detail="the run is being stopped.")
            self._expect(number)
            try:
                self._batch(frame, number)
            except WeftError as error:
                self.failure = error
                raise
            except Exception as error:
                self.failure = from_wire(str(error)) or self._unforeseen(error, number)
                raise

    def _unforeseen(self, error: Exception, number: int) -> WeftError:
        return HostError(
            f"batch {number} failed: {type(error).__name__}: {_first(error)}",
            detail=_saying(error) if isinstance(error, PySparkException) else traceback.format_exc(limit=-3).rstrip(),
            hint="the batch will be run again by the next run on this checkpoint.",
        )

    def _expect(self, number: int) -> None:
        """Spark's numbers and ours must go on together, or the halves of the checkpoint do not belong together."""
        if number != self.manifest.batch + 1:
            self.failure = StateError(
                f"checkpoint {self.checkpoint} is damaged",
                detail=f"Spark goes on with batch {number}, but the last manifest is of batch {self.manifest.batch}.",
                hint="restore the folder from a backup, or start again from an empty checkpoint.",
            )
            raise self.failure

    def _batch(self, frame: DataFrame, number: int) -> None:
        began = time.perf_counter()
        report = self._waves(frame, number)
        self._foreach(frame.sparkSession, number, report)
        manifest = self.manifest.after(self.topology, number, report)
        reach(self.crash, "commit before", number)
        self.ledger.commit(manifest)
        self.manifest = manifest
        reach(self.crash, "commit after", number)
        self._publish(manifest)
        self.ledger.collect()
        self.ledger.announce(manifest.watermarks(self.topology))
        self.on_progress(self._progress(number, time.perf_counter() - began, report))

    def _waves(self, frame: DataFrame, number: int) -> Report:
        """One job: all waves, and the counters of all tasks."""
        for name, value in BATCH_SETTINGS.items():
            frame.sparkSession.conf.set(name, value)
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

    def _foreach(self, spark: SparkSession, number: int, report: Report) -> None:
        for query, sinks in self.sinks.items():
            for sink in sinks:
                if isinstance(sink, ForeachSink):
                    frame = self._frame(spark, query, number, report)
                    try:
                        sink.function(frame, number)
                    except Exception as error:
                        raise HostError(
                            f'the function of query "{query}" failed: {type(error).__name__}: {_first(error)}',
                            detail=traceback.format_exc(limit=-3).rstrip(),
                            hint="nothing of this batch was committed; correct the function and run again.",
                        ) from error

    def _frame(self, spark: SparkSession, query: str, number: int, report: Report) -> DataFrame:
        emit = next(emit for emit in self.topology.emits if emit.query == query)
        schema = from_arrow_schema(pa.schema([(output.name, output.expr.type) for output in emit.outputs]))
        files = [str(self.ledger.staged(number) / query / f["file"]) for f in report.files if f["query"] == query]
        return spark.read.schema(schema).parquet(*files) if files else spark.createDataFrame([], schema)

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


def _saying(error: Exception) -> str:
    """What Spark says, without its plans and stack traces."""
    said = [
        line
        for line in itertools.takewhile(lambda line: not _NOISE.match(line), str(error).splitlines())
        if line.strip()
    ]
    return "\n".join(said if len(said) <= 6 else [*said[:2], "...", *said[-3:]])


_NOISE = re.compile(r"\s+at [\w$.]+|=== Streaming Query ===|JVM stacktrace")


def _first(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), "")


def _buffer(payload: Any) -> Any:
    return pa.py_buffer(bytes(payload))
