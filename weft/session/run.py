"""A run in progress, as the user sees it: progress, stop, the report at the end.

Ctrl-C or SIGTERM during a foreground run lets the current batch finish and returns the report; a second one interrupts
the wait.
What must hold: the checkpoint is released once, and not while a batch is running.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from weft.errors import HostError, WeftError
from weft.explain.uneven import is_uneven
from weft.host.run import Run
from weft.host.state.checkpoint import Checkpoint
from weft.observe.counters import Counters
from weft.observe.epochs import EpochRecord
from weft.observe.listener import Listener
from weft.observe.live import Live
from weft.observe.notice import Notice
from weft.observe.progress import Progress
from weft.observe.report import RunReport, Tally
from weft.observe.units import Units
from weft.observe.watermark import Holding, count_batches
from weft.session.changes import SessionChanges, Turn
from weft.signals import interrupt, noting

if TYPE_CHECKING:
    from weft.console.serve import Served

Said = TypeVar("Said")
RECENT = 10
"""The load is judged over this many of the last batches: values and their order change while a stream runs."""


class Watch:
    """Adds a notice when the load of a running plan becomes uneven: once, and again if it was even in between."""

    def __init__(self, workers: Callable[[], int], notice: Callable[[int, Counters], Notice | None]) -> None:
        self._workers, self._notice = workers, notice
        self._recent: deque[Counters] = deque(maxlen=RECENT)
        self._told = False

    def see(self, progress: Progress) -> Progress:
        """The progress of a batch, with a notice if the load has become uneven."""
        self._recent.append(progress.counters)
        load, workers = Counters.total(self._recent), self._workers()
        if not is_uneven(load, workers):
            self._told = False
        elif not self._told:
            self._told = True
            return replace(progress, notices=(*progress.notices, *self._say(workers, load)))
        return progress

    def _say(self, workers: int, load: Counters) -> Iterator[Notice]:
        try:
            found = self._notice(workers, load)
        except WeftError:
            return  # a notice must not end a run
        if found is not None:
            yield found


class Journal:
    """The batches of a run so far; each is shown when it ends."""

    def __init__(
        self, live: Live, watch: Watch, listeners: Sequence[Listener] = (), units: Mapping[str, str] | None = None
    ) -> None:
        self._live, self._watch, self._listeners, self._units = live, watch, listeners, Units(units or {})
        self.began = time.perf_counter()
        self.tally = Tally()
        self._holding = Holding()
        self._starting: float | None = None
        self._closed = False

    def tell(self, notice: Notice) -> None:
        """Add a notice that belongs to no batch."""
        self.tally.tell(notice)
        self._live.tell(notice)
        for listener in self._listeners:
            listener.tell(notice)

    def begin(self, every: float | None) -> None:
        """A run begins."""
        for listener in self._listeners:
            listener.begin(every)

    def note(self, progress: Progress) -> None:
        """Add a batch that has ended."""
        if self._starting is None:
            self._starting = max(0.0, time.perf_counter() - self.began - progress.seconds)
        marks, told = self._holding.see(progress.watermarks, progress.newest)
        told = (*told, *self._units.see(progress.newest))
        progress = self._watch.see(replace(progress, watermarks=marks, notices=(*progress.notices, *told)))
        self.tally.add(progress)
        self._live.show(progress)
        for listener in self._listeners:
            listener.note(progress)

    def report(self, ended: float | None, stopped: bool) -> RunReport:
        """The report so far, of a run that has ended then."""
        return self.tally.report((ended or time.perf_counter()) - self.began, self._starting, stopped=stopped)

    def close(self, how: str, why: str | None = None) -> None:
        """No further batch will come: the run is "done", was "stopped", or has "failed"."""
        self._live.close()
        for listener in () if self._closed else self._listeners:
            listener.end(how, why)
        self._closed = True

    def fail(self, error: BaseException) -> None:
        """The run has ended by itself, whether or not anybody waits for it."""
        self.close("failed", str(error))


class Handle:
    """A running session."""

    def __init__(self, checkpoint: Checkpoint, run: Run, journal: Journal, changes: SessionChanges) -> None:
        self._checkpoint, self._run, self._journal, self._changes = checkpoint, run, journal, changes
        self._stopped = False
        self._signal: int | None = None
        self._failure: str | None = None
        self._ended: float | None = None
        self._ending = threading.Lock()
        self.console: Served | None = None
        """The console of this run; None if there is none."""

    def __repr__(self) -> str:
        tally, how = self._journal.tally, "going on" if self.active else "ended"
        rows, results = sum(tally.counters.rows_in.values()), sum(tally.counters.results.values())
        last = self.progress()
        lines = [f"<run, {how}: {count_batches(tally.count)}, {rows:,} rows in, {results:,} results>"]
        return "\n".join([*lines, *(f"  {last.line()}" for last in (last,) if last is not None)])

    def _repr_html_(self) -> str:
        return self.report()._repr_html_()

    def begin(self, every: float | None) -> None:
        """Start the run.  If `every` is None, read what is there now; else go on, a batch every so many seconds."""
        self._journal.begin(every)
        try:
            self._run.start(every)
        except BaseException as error:
            self._fail(error)
            self.settle()
            raise

    @property
    def active(self) -> bool:
        """Whether the run is still going on."""
        return self._ended is None and self._run.active

    def progress(self) -> Progress | None:
        """The last batch that has ended; None before the first."""
        return next(iter(self.history(1)), None)

    def history(self, n: int = 100) -> list[Progress]:
        """The last `n` batches, the newest at the end.  A run keeps its last 1,000 batches."""
        return self._journal.tally.recent(n)

    def changes(self) -> list[Turn]:
        """All changes of the plan so far."""
        return list(self._changes.turns)

    def epochs(self) -> list[EpochRecord]:
        """The epochs that have ended: what each showed, and what was decided by it; none where plans are pinned."""
        found = self._changes.adaptation
        return [] if found is None else found.epochs()

    def report(self) -> RunReport:
        """The sum of all batches so far."""
        made = self._journal.report(self._ended, self._stopped)
        return replace(made, signal=self._signal, epochs=tuple(self.epochs()))

    def stop(self) -> RunReport:
        """Let the current batch finish, then stop.  A run that has failed meanwhile raises."""
        if self._ended is None:
            self._stopped = True
            self._hear(self._run.stop)
            self.settle()
        return self.report()

    def settle(self) -> None:
        """Release the checkpoint if the run has ended.

        What must hold: whoever calls this has heard how the run ended.  A run that fails between "it goes on" and this
        call would pass for one that is done.
        """
        with self._ending:
            if self._ended is None and not self.active:
                self._ended = time.perf_counter()
                how = "failed" if self._failure else "stopped" if self._stopped else "done"
                self._journal.close(how, self._failure)
                self._checkpoint.release()

    def _hear(self, call: Callable[[], Said]) -> Said:
        """Call what raises if the run has failed; then it has ended.  An interrupt says nothing about the run."""
        try:
            return call()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self._fail(error)
            self.settle()
            raise

    def _fail(self, error: BaseException) -> None:
        """Remember why the run has failed; an interrupted wait is no failure."""
        if isinstance(error, WeftError) and self._failure is None:
            self._failure = str(error)

    def wait(self, seconds: float | None = None) -> RunReport | None:
        """Wait for the end, at most so many seconds, and return the report; None if the run has not ended.

        A failed run raises.
        """
        limit = None if seconds is None else time.monotonic() + seconds
        while self._ended is None:
            if self._hear(lambda: self._run.wait(0.2)):
                self.settle()
            if limit is not None and time.monotonic() >= limit:
                break
        return None if self._ended is None else self.report()

    def finish(self) -> RunReport:
        """Wait for the end in the foreground.  Ctrl-C or SIGTERM stops the run after the current batch.

        If processes of Spark got the signal too, that batch is given up, and the signal ends the program.
        """
        with noting() as asked:
            try:
                while not self.wait(0.2):
                    if asked.signal is not None:
                        self._signal = asked.signal
                        self.stop()
            except HostError:
                if asked.signal is not None:
                    interrupt(asked.signal)
                raise
        return self.report()
