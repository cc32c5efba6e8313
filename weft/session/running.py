"""The run of a session: how it begins, what it is told of changes, and what is closed with it.

What must hold: a session has at most one run.  If it does not begin, the checkpoint is released.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pyarrow.types import is_integer

from weft.errors import PlanError
from weft.explain.uneven import uneven_load
from weft.host.run import Run
from weft.host.state.room import telling_room
from weft.observe.counters import Counters
from weft.observe.live import Live, choose_live
from weft.observe.notice import Notice
from weft.optimizer.choose import Choice
from weft.query.model import Stream
from weft.session.adapting import open_adaptation, promise_cure
from weft.session.changes import SessionChanges
from weft.session.following import listen
from weft.session.improve import improve, is_unfinished
from weft.session.outlets import check_sinks, claim_sinks, publish_results_left
from weft.session.roster import Roster
from weft.session.run import Handle, Journal, Watch
from weft.session.window import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from weft.console.serve import Console
    from weft.session.session import Session


class Running:
    """The run that goes on, or went on last."""

    def __init__(
        self, session: Session, roster: Roster, spark: Callable[[], SparkSession], progress: bool | Live | None
    ) -> None:
        self._session, self._roster, self._spark, self._progress = session, roster, spark, progress
        self.handle: Handle | None = None
        self.changes: SessionChanges | None = None
        self._window = Window()

    @property
    def is_active(self) -> bool:
        """Whether a run is going on."""
        return self.handle is not None and self.handle.active

    @telling_room()
    def begin(self, every: float | None, console: bool | Console) -> Handle:
        """Begin a run: what is there now, or a batch every so many seconds; at most one at a time."""
        session = self._session
        if self.handle is not None:
            if self.handle.active:
                raise PlanError("the session is already running", hint="stop it first: h.stop(), or s.close().")
            self.handle.stop()  # raises if that run failed in the background: report it before another one begins
        check_sinks(self._roster.queries)
        session.claim()
        try:
            session.fit()
            kept = self._roster.kept()
            publish_results_left(session.checkpoint, kept)
            claim_sinks(session.checkpoint, self._roster.queries, kept)
            watch = Watch(lambda: session.workers, self._uneven)
            journal = Journal(choose_live(self._progress), watch, listen(session), _units(session.streams))
            self.changes = changes = SessionChanges(self._roster, journal.tell)
            if session.following.is_on(every is not None):
                changes.adaptation = open_adaptation(
                    session, session.following, functools.partial(changes.ask, None), lambda: changes.is_busy
                )
            handle = Handle(session.checkpoint, self._open(journal, changes), journal, changes)
            handle.console = self._window.open(session, handle, console)
            self.handle = handle
        except BaseException:
            session.checkpoint.release()
            raise
        handle.begin(every)
        if every is not None:
            self.improve()
        self._roster.dropped.clear()
        return handle

    def ask(self, added: str | None = None) -> None:
        """Let the run take the session as it is now, if one is going on; `added` is a new query."""
        if self.is_active and self.changes is not None:
            self.changes.ask(added)

    def close(self) -> None:
        """Stop the run, if there is one, release the checkpoint, and close the console."""
        try:
            if self.handle is not None:
                self.handle.stop()
        finally:
            self._window.close()

    def improve(self) -> None:
        """Go on looking for a plan for all queries if there was too little time."""
        chosen = self._roster.planned
        if chosen is None or not is_unfinished(chosen):
            return

        def use(found: tuple[Choice, ...]) -> None:
            with self._roster.lock:
                if self._roster.planned is not chosen or not self.is_active or self.changes is None:
                    return
                if self._roster.adopt(found):
                    self.changes.ask()

        improve(chosen, use)

    def _uneven(self, workers: int, load: Counters) -> Notice | None:
        """The notice of uneven load; where plans follow the data, it says when that will be cured."""
        found = uneven_load(load, workers, self._session.choices, self._session.observed)
        following = self.changes.adaptation if self.changes is not None else None
        return found if following is None else promise_cure(found, following.epoch, self._session.choices)

    def _open(self, journal: Journal, changes: SessionChanges) -> Run:
        from weft.host.spark.ground import Ground
        from weft.host.spark.run import SparkBatches, SparkRun

        session, checkpoint = self._session, self._session.checkpoint
        ground = Ground(self._spark(), checkpoint.place, checkpoint.ledger, changes, crash=session.crash_point)
        batches = SparkBatches(ground, session.work(), on_progress=journal.note, on_failure=journal.fail)
        return SparkRun(batches)


def _units(streams: Mapping[str, Stream]) -> dict[str, str]:
    """The units of event times that are whole numbers, by stream."""
    timed = ((name, stream, stream.event_time) for name, stream in streams.items() if stream.event_time is not None)
    return {name: stream.unit for name, stream, column in timed if is_integer(stream.schema.field(column).type)}
