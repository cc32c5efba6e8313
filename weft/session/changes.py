"""Changes of a session while it runs: asked for by the user's thread, made by the run between two batches.

A change is planned in the user's thread.  If it cannot be planned, the caller gets the error and nothing has changed.
The run takes the newest plan before its next batch and migrates to it.  If that fails, the session goes back to the
plan that is running: all changes since are undone, their queries say why (`q.error`), and a notice tells.

A new query waits until it has a sink.  One that has none after a while is refused when the next batch comes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from weft.adapt.adaptation import Adaptation
from weft.errors import SinkError, WeftError
from weft.host.batch import Report
from weft.host.migration.migrate import Summary
from weft.host.state.checkpoint import say_changes
from weft.host.state.manifest import Manifest
from weft.host.work import Work
from weft.observe.notice import Notice
from weft.session.adapting import see_batch
from weft.session.roster import Roster

PATIENCE = 1.0
"""A query without a sink is refused by a batch that begins this many seconds after it was added, or later."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A change of plan that was made."""

    epoch: int
    batch: int
    """The last batch under the plan before."""
    seconds: float
    """From the decision to the commit."""
    taken: int
    """Stores that were taken over as they are."""
    moved: int
    """Rows that were read and sent anew."""
    filled: int
    """Rows of joins that were made from old rows."""
    results: int
    """Results among old rows, for queries with `backfill`."""
    why: str


class SessionChanges:
    """Hands the changes of a session to its run."""

    def __init__(self, roster: Roster, tell: Callable[[Notice], None]) -> None:
        self._roster, self._tell = roster, tell
        self._lock = roster.lock
        self._next = roster.snapshot()
        self._running = replace(self._next, dropped=frozenset())
        self._asked = self._taken = self._done = 0
        self._work: Work | None = None
        """What was asked for and is not made yet."""
        self._since: dict[str, float] = {}
        """New query -> when it was added."""
        self.turns: list[Turn] = []
        self.adaptation: Adaptation | None = None
        """Follows the data, if that is wanted."""
        self._why, self._saves = "", 0.0

    @property
    def sample(self) -> int:
        """How many rows each task of the next batch draws of a stream, for statistics."""
        return 0 if self.adaptation is None else self.adaptation.sample(self._roster.workers)

    def seen(self, manifest: Manifest, report: Report, seconds: float) -> None:
        """A batch was committed."""
        if self.adaptation is not None:
            self.adaptation.see(see_batch(manifest, report, seconds))

    @property
    def is_busy(self) -> bool:
        """Whether a change was asked for and is not made yet."""
        return self._asked != self._done

    def ask(self, added: str | None = None, why: str = "", saves: float = 0.0) -> None:
        """Let the run take the session as it is now, from its next batch on.

        `why` is said when that is done; `saves` is the part of the time of a batch that the new plan saves.
        """
        with self._lock:
            self._asked += 1
            self._why, self._saves = why, saves
            if added is not None:
                self._since[added] = time.monotonic()

    def wanted(self) -> Work | None:
        """What to do from the next batch on, if that has changed."""
        with self._lock:
            if self._asked == self._done:
                return None
            bare = [
                name for name in self._since if name in self._roster.queries and not self._roster.queries[name].sinks
            ]
            if any(time.monotonic() - self._since[name] < PATIENCE for name in bare):
                return None
            for name in bare:
                self._refuse_bare(name)
            if self._work is None or self._taken != self._asked:
                self._taken = self._asked
                try:
                    self._roster.fit()  # batches may have passed since the change was asked for
                    self._work = replace(self._roster.work(), saves=self._saves)
                except WeftError as error:
                    self._undo(error)
                    return None
                self._next = self._roster.snapshot()
            return self._work

    def made(self, before: Mapping[str, Any], work: Work, summary: Summary, manifest: Manifest, seconds: float) -> None:
        """The run goes on with the change."""
        with self._lock:
            self._running, self._done, self._work = replace(self._next, dropped=frozenset()), self._taken, None
            self._roster.note_made(self._next)
            self._since = {name: at for name, at in self._since.items() if name not in work.sinks}
        past = sum(summary.results.values())
        why = self._why or "; ".join(say_changes(before, work.session)) or "the same queries"
        turn = Turn(manifest.epoch, manifest.batch, seconds, summary.taken, summary.moved, summary.filled, past, why)
        self.turns.append(turn)
        self._tell(_changed(turn))
        if lacking := self._roster.incomplete(work.topology, manifest):
            self._tell(_incomplete(lacking))

    def refused(self, work: Work, error: WeftError) -> None:  # noqa: ARG002 - all changes are undone
        """The change could not be made: go back to what is running."""
        self._undo(error)

    def _undo(self, error: WeftError) -> None:
        with self._lock:
            before = self._running
            for name, handle in self._roster.queries.items():
                if handle is not before.queries.get(name):
                    handle.error = error
            self._roster.restore(before)
            self._done, self._work = self._asked, None
        self._tell(_refused(error))

    def _refuse_bare(self, name: str) -> None:
        error = SinkError(
            f'query "{name}" has no sink',
            detail="its first batch has come; the query was taken out of the session again.",
            hint="add q.to_parquet(path), q.to_memory() or q.foreach_batch(f) right after s.query(...).",
        )
        self._roster.queries[name].error = error
        self._roster.forget(name)
        del self._since[name]
        self._tell(_refused(error))


def _changed(turn: Turn) -> Notice:
    done = f"{turn.taken} stores taken as they are, {turn.moved:,} rows moved, {turn.filled:,} rows of joins made"
    done += f", {turn.results:,} results among old rows" if turn.results else ""
    return Notice(
        "plan-changed",
        f"the plan has changed after batch {turn.batch}: {turn.why}",
        f"{done}, in {turn.seconds:.2f} s.",
        "nothing has to be done; no result was lost or doubled.",
        "print(s.explain())",
    )


def _incomplete(lacking: dict[str, str]) -> Notice:
    return Notice(
        "incomplete-query",
        f"results of {', '.join(lacking)} lack rows that came before it was added",
        "; ".join(f"{name} is {moment}" for name, moment in lacking.items()) + ".",
        "rows that no earlier query kept cannot be brought back; add queries before their streams are read.",
        "q.complete_from",
    )


def _refused(error: WeftError) -> Notice:
    return Notice(
        "change-refused",
        f"a change of the session was not made: {error.message}",
        error.detail or "the session goes on as before.",
        error.hint or "correct it and add it again.",
        "q.error",
    )
