"""Batches at a pace of our own.

Where no stream is brought by Spark, nothing of Structured Streaming is needed: the manifest says how far each stream
has been read.  So there are no planning processes, no second checkpoint and no second commit.

Before a batch is begun, what it will read is written down in the plan of the next batch.  A batch that died is run
again with the same rows, whatever has arrived since: a function of the user that has seen it sees it again.
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import asdict, dataclass

from pyspark.sql import SparkSession

from weft.host.sources.feeds import Feeds, Offset
from weft.host.spark.pace import Batches
from weft.host.spark.reading import Shares
from weft.host.state.durable import read_sealed, write_sealed
from weft.launch.spark import batch_settings

PAUSE = 0.01
"""Seconds between two looks for what is new, at least."""


@dataclass(frozen=True, slots=True)
class Next:
    """The plan of a batch that has begun."""

    batch: int
    end: Offset


class Polling:
    """Looks for what is new, and hands over batches of it one after the other."""

    def __init__(self, spark: SparkSession, feeds: Feeds, tasks: int, batches: Batches) -> None:
        self._spark = spark.newSession()
        self._feeds, self._tasks, self._batches = feeds, tasks, batches
        self._next = batches.ledger.root / "sources" / "next.json"
        self._stopping, self._ended = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def check(self) -> None:
        """Refuse if something of the checkpoint is missing."""
        self._feeds.check(self._batches.manifest.offsets)
        self._begun()

    def start(self, every: float | None) -> None:
        """Begin: with what is there now (`every` None), or for ever, so many seconds apart."""
        for name, value in batch_settings().items():
            self._spark.conf.set(name, value)
        begun = self._begun()
        known = self._feeds.discover()
        self._shipped = self._spark.sparkContext.broadcast(self._feeds)
        arguments = (begun, known if every is None else None, every)
        self._thread = threading.Thread(target=self._run, args=arguments, name="weft", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait for the end at most so long; whether it has ended.  A failed run raises."""
        ended = self._ended.wait(seconds)  # a thread whose join is interrupted passes for dead
        if ended and self._error is not None:
            raise self._error
        return ended

    def stop(self) -> None:
        """Let the current batch finish, then stop.  A run that has failed raises."""
        self._stopping.set()
        if self._thread is threading.current_thread():
            return  # a function of the user asks; the batch it was called by goes on to its end
        if self._thread is not None:
            self._ended.wait()
        if self._error is not None:
            raise self._error

    @property
    def active(self) -> bool:
        """Whether batches may still come."""
        return self._thread is not None and not self._ended.is_set()

    def _run(self, begun: Offset | None, until: Offset | None, every: float | None) -> None:
        try:
            while not self._stopping.is_set():
                began = time.monotonic()
                worked = self._once(begun, until)
                begun = None
                if every is None and not worked:
                    break
                if every is not None:
                    self._stopping.wait(max(0.0 if worked else PAUSE, every - (time.monotonic() - began)))
        except BaseException as error:  # noqa: BLE001 - it is raised where the run is waited for
            self._error = error
        finally:
            with contextlib.suppress(Exception):  # a JVM that is gone keeps nothing
                self._shipped.destroy()
            self._ended.set()

    def _once(self, begun: Offset | None, until: Offset | None) -> bool:
        """Do the next batch, if there is one."""
        start = self._batches.manifest.offsets
        end = begun or self._feeds.end(start, self._feeds.discover() if until is None else until)
        if self._feeds.is_empty(start, end):
            return False
        number = self._batches.manifest.batch + 1
        if begun is None:
            write_sealed(self._next, asdict(Next(number, end)))
        self._spark.sparkContext.setJobDescription(f"Weft, batch {number}")
        shares = self._feeds.deal(start, end, self._tasks) or [[]]  # a file may have no rows
        self._batches.work(Shares(self._spark, self._shipped, shares), number, end)
        return True

    def _begun(self) -> Offset | None:
        """What the batch was to read that had begun when the last run ended, if there was one."""
        if not self._next.exists():
            return None
        plan = read_sealed(self._next, lambda plain: Next(**plain))
        self._feeds.check(plan.end)
        return plan.end if plan.batch == self._batches.manifest.batch + 1 else None
