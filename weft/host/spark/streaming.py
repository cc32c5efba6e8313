"""Batches at Spark's pace: one Structured Streaming query over all streams, for sessions with streaming DataFrames.

Spark keeps the offsets, and repeats a batch that it has not seen end.  If our manifest has committed that batch, it is
skipped.  What must hold: Spark's part of the checkpoint and ours fit together, or nothing is touched.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from weft.errors import HostError, StateError, WeftError
from weft.host.sources.feeds import Feeds
from weft.host.spark.pace import Batches
from weft.host.spark.reading import SparkRows
from weft.launch.settings import batch_settings


@dataclass(frozen=True)
class United:
    """All streams of a plan as one."""

    shape: object
    """Two plans with equal shapes read the same."""
    feeds: Feeds
    frame: Callable[[], DataFrame]


class Streaming:
    """A streaming query that hands its batches to Weft.

    A plan that reads other columns or files needs another streaming query.  The batch that comes first is then given
    back to Spark unread, and the new query begins with it.
    """

    def __init__(self, spark: SparkSession, unite: Callable[[], United], batches: Batches) -> None:
        self._unite, self._batches = unite, batches
        self._every: float | None = None
        self._changing: threading.Thread | None = None
        self.spark = spark.newSession()
        for name, value in batch_settings().items():
            self.spark.conf.set(name, value)
        self._folder: Path = batches.ledger.root / "spark"
        self._stopping = self._refused = False
        self._gate = threading.RLock()
        self._inside = False
        self._lost: WeftError | None = None
        self._query: StreamingQuery | None = None

    def check(self) -> None:
        """Refuse if something of the checkpoint is missing.

        Without its offsets, Spark would begin again at batch 0, and all batches up to ours would be skipped.
        Without our newest manifest, the segments it names would be removed as garbage.
        """
        last = self._batches.manifest.batch
        done = max((int(p.name) for p in self._folder.glob("commits/*") if p.name.isdigit()), default=-1)
        if last >= 0 and not (self._folder / "offsets" / str(last)).exists():
            raise StateError(
                f"{self._folder / 'offsets' / str(last)} is missing",
                detail="Spark's part of the checkpoint is gone, or older than the manifests.",
                hint="restore the folder from a backup, or start again from an empty checkpoint.",
            )
        self._batches.ledger.check(done)

    def start(self, every: float | None) -> None:
        """Begin.  If `every` is None, read what is there now and end; else go on, a batch every so many seconds."""
        self._every = every
        self._launch()

    def _launch(self) -> None:
        self._united, self._opened = self._unite(), self._batches.epoch
        writer = self._united.frame().writeStream.foreachBatch(self._work_alone)
        writer = writer.option("checkpointLocation", str(self._folder))
        pace = f"{max(1, round(1000 * (self._every or 0)))} milliseconds"
        writer = writer.trigger(availableNow=True) if self._every is None else writer.trigger(processingTime=pace)
        self._query = writer.start()

    def _launch_again(self, ending: StreamingQuery) -> None:
        """Begin again when a query has ended that was made for another plan."""
        try:
            with contextlib.suppress(Exception):  # it says that its last batch was not begun
                ending.awaitTermination()
            if not self._stopping:
                self._launch()
        except Exception as error:  # noqa: BLE001 - `wait` and `stop` raise it
            self._lost = HostError("the streaming query cannot be started again", detail=f"{error}.")
        finally:
            self._changing = None

    def wait(self, seconds: float) -> bool:
        """Wait for the end, at most so many seconds; return whether it has ended.  A failed run raises."""
        assert self._query is not None
        if (changing := self._changing) is not None:
            changing.join(seconds)
            return False
        try:
            if self._lost is not None:
                raise self._lost
            if self._stopping and not self._inside:
                self._query.stop()  # asked for by a function of the user
            return bool(self._query.awaitTermination(seconds))
        except Exception:
            if self._changing is not None:
                return False  # it ended because another one begins
            if self._refused:
                return True  # it ended because it was stopped
            if self._lost is not None:
                raise self._lost from None  # Spark wraps it in a message of its own
            raise

    def stop(self) -> None:
        """Let the current batch finish, then stop.  A run that has failed raises."""
        self._stopping = True
        if (changing := self._changing) is not None and changing is not threading.current_thread():
            changing.join()
        with self._gate:
            if self._query is None or self._inside:
                return  # if inside, a function of the user asks: its batch goes on to its end and is the last
        died = None if self._query.isActive else self._query.exception()
        self._query.stop()
        self._batches.end()
        if died is not None and not self._refused:
            raise self._lost or died

    @property
    def active(self) -> bool:
        """Whether batches may still come."""
        try:
            return self._changing is not None or (self._query is not None and bool(self._query.isActive))
        except (Py4JError, OSError):
            return False  # without a JVM nothing runs

    def _work_alone(self, frame: DataFrame, number: int) -> None:
        with self._gate:
            self._inside = True  # set first: `wait` stops the query only while no batch is inside
            try:
                self._work(frame, number)
            finally:
                self._inside = False

    def _work(self, frame: DataFrame, number: int) -> None:
        if number <= self._batches.manifest.batch:
            return
        if self._stopping:
            # Returning would tell Spark that the batch is done, and its rows would be lost.
            self._refused = True
            raise HostError(f"batch {number} was not begun", detail="the run is being stopped.")
        self._expect(number)
        self._turn(number)
        for name, value in batch_settings().items():
            frame.sparkSession.conf.set(name, value)
        self._batches.work(SparkRows(frame, self._united.feeds), number, {})

    def _turn(self, number: int) -> None:
        """Let the plan change; if it reads something else now, give the batch back and begin again."""
        self._batches.turn()
        if self._opened is self._batches.epoch:
            return
        self._opened = self._batches.epoch
        if self._unite().shape != self._united.shape:
            self._changing = threading.Thread(target=self._launch_again, args=(self._query,), daemon=True)
            self._changing.start()
            raise HostError(f"batch {number} was not begun", detail="the streams are read in another way from here on.")

    def _expect(self, number: int) -> None:
        """Refuse a batch whose number does not follow ours: then Spark's part of the checkpoint and ours do not fit."""
        last = self._batches.manifest.batch
        if number != last + 1:
            self._lost = StateError(
                f"checkpoint {self._batches.ledger.root} is damaged",
                detail=f"Spark goes on with batch {number}, but the last manifest is of batch {last}.",
                hint="restore the folder from a backup, or start again from an empty checkpoint.",
            )
            raise self._lost
