"""Batches at our own pace: Weft looks for new input itself.

Where no stream comes from a Spark DataFrame, Structured Streaming is not needed: the manifest says how far each stream
has been read.  So there are no planning processes, no second checkpoint and no second commit.

Before a batch begins, the offset at which it will end is written to a file.  A batch that died is run again with the
same rows, whatever has arrived since: a function of the user that has seen the batch sees the same rows again.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from pyspark.sql import SparkSession

from weft.errors import SourceError
from weft.host.sources.feeds import Offset
from weft.host.spark.pace import Batches
from weft.host.spark.reading import Shares
from weft.host.state.checkpoint import NEXT, SOURCES
from weft.host.state.durable import read_sealed, write_sealed
from weft.launch.settings import batch_settings
from weft.observe.notice import Notice

PAUSE = 0.01
"""At least this many seconds between two looks for new input that find nothing."""
A_CALL = 1.0
"""Seconds without a batch after which Spark is called, to see that it is still there."""


@dataclass(frozen=True, slots=True)
class Next:
    """A batch that has begun: its number, and the offset at which it ends."""

    batch: int
    end: Offset


def _say_skipped(stream: str, file: str, cause: SourceError, count: int) -> Notice:
    return Notice(
        "bad-files",
        f"{count} file{'s' * (count != 1)} left out, the last one {file}",
        f'stream "{stream}": {cause.message}. {cause.detail or ""}'.rstrip(),
        "rows of these files are not in the results; repair a file and put it there under another name to have them.",
        'bad_files="fail"',
    )


class Polling:
    """Looks for new input, and runs it in batches, one after the other."""

    def __init__(self, spark: SparkSession, batches: Batches) -> None:
        self.spark = spark.newSession()
        self._batches, self._feeds = batches, batches.open_feeds()
        self._next = batches.ledger.root / SOURCES / NEXT
        self._stopping, self._ended = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        for name, value in batch_settings().items():
            self.spark.conf.set(name, value)
        self._error: BaseException | None = None
        self._waiting: Mapping[str, Mapping[str, int]] = {}

    def check(self) -> None:
        """Refuse if something of the checkpoint is missing."""
        self._feeds.check(self._batches.manifest.offsets)
        self._read_begun()

    def start(self, every: float | None) -> None:
        """Begin.  If `every` is None, read what is there now and end; else go on, a batch every so many seconds."""
        begun = self._read_begun()
        self._open()
        known = self._feeds.discover()
        arguments = (begun, known if every is None else None, every)
        self._thread = threading.Thread(target=self._run, args=arguments, name="weft", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait for the end, at most so many seconds; return whether it has ended.  A failed run raises."""
        ended = self._ended.wait(seconds)  # not Thread.join: after an interrupt the thread would count as ended
        if ended and self._error is not None:
            raise self._error
        return ended

    def stop(self) -> None:
        """Let the current batch finish, then stop.  A run that has failed raises."""
        self._stopping.set()
        if self._thread is threading.current_thread():
            return  # called by a function of the user, inside a batch: that batch goes on to its end
        if self._thread is not None:
            self._ended.wait()
        if self._error is not None:
            raise self._error

    @property
    def active(self) -> bool:
        """Whether batches may still come."""
        return self._thread is not None and not self._ended.is_set()

    def _run(self, begun: Offset | None, until: Offset | None, every: float | None) -> None:
        called = time.monotonic()
        try:
            while not self._stopping.is_set():
                began = time.monotonic()
                self._turn()
                worked = self._work_once(begun, until)
                called = began if worked else self._call_spark(called)
                begun = None
                if every is None and not worked:
                    break
                if every is not None:
                    self._stopping.wait(max(0.0 if worked else PAUSE, every - (time.monotonic() - began)))
        except BaseException as error:  # noqa: BLE001 - `wait` and `stop` raise it
            self._error = error
        finally:
            self._batches.end()
            with contextlib.suppress(Exception):  # if the JVM is gone, so is the broadcast
                self._shipped.destroy()
            self._ended.set()

    def _call_spark(self, called: float) -> float:
        """Call Spark now and then: a run that has nothing to do ends too if the JVM is gone.  Returns the last call."""
        now = time.monotonic()
        if now - called < A_CALL:
            return called
        _ = self.spark.sparkContext.version  # raises if nobody answers
        return now

    def _turn(self) -> None:
        """Let the plan change between two batches; another plan may read other streams."""
        self._batches.turn()
        if self._opened is not self._batches.epoch:
            self._shipped.unpersist()
            self._feeds = self._batches.open_feeds()
            self._open()

    def _open(self) -> None:
        self._opened = self._batches.epoch
        self._shipped = self.spark.sparkContext.broadcast(self._feeds)

    def _work_once(self, begun: Offset | None, until: Offset | None) -> bool:
        """Run the next batch, if there is new input; return whether there was."""
        start = self._batches.manifest.offsets
        known = {} if begun else self._known(until)
        end = self._feeds.only(begun) if begun else self._feeds.end(start, known)
        needed = self._batches.has_to_close or (until is None and self._batches.has_to_go_on)
        if begun is None and self._feeds.is_empty(start, end) and not needed:
            return False
        number = self._batches.manifest.batch + 1
        if begun is None:
            write_sealed(self._next, asdict(Next(number, end)))
        self.spark.sparkContext.setJobDescription(f"Weft, batch {number}")
        self._waiting = self._feeds.lag(end, known)
        while not self._try(start, end, number):
            pass  # another file was left out
        return True

    def _try(self, start: Offset, end: Offset, number: int) -> bool:
        """Run a batch; return whether it was done.  If not, a file that cannot be read is left out from now on."""
        tasks = self._batches.epoch.topology.workers
        try:
            shares = self._feeds.deal(start, end, tasks) or [[]]  # a file may have no rows
            rows = Shares(self.spark, self._shipped, shares, self._waiting)
            self._batches.work(rows, number, end)
        except Exception as error:
            cause = error if isinstance(error, SourceError) else self._batches.failure
            left = self._feeds.skip(cause, start, end) if isinstance(cause, SourceError) else None
            if left is None:
                raise
            assert isinstance(cause, SourceError)
            self._batches.forgive(_say_skipped(*left, cause, len(self._feeds.skipped())))
            return False
        return True

    def _known(self, until: Offset | None) -> Offset:
        """The offset up to which may be read; a stream that was added meanwhile may be read whole."""
        if until is not None and set(until) >= set(self._feeds.by_stream):
            return until
        return {**self._feeds.discover(), **(until or {})}

    def _read_begun(self) -> Offset | None:
        """Where the batch ends that the last run began and did not commit, if there is one."""
        if not self._next.exists():
            return None
        begun = read_sealed(self._next, lambda plain: Next(**plain))
        self._feeds.check(begun.end)
        return begun.end if begun.batch == self._batches.manifest.batch + 1 else None
