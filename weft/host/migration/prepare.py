"""Large state is moved while batches go on.

    round 0   in the background: everything as of batch M, in small jobs
    round 1+  in the background: what came after M, while there is much of it
    the end   between two batches: the little that came since; then the commit

While this goes on, batches do not merge rows up to M with later ones (`Batch.barrier`), and no file that the migration
needs is removed.  What must hold: what was made in the background counts only with the commit at the end.  If the run
stops or the session changes once more, it is thrown away.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from weft.host.migration.migrate import Migration, Runner
from weft.host.state.manifest import Manifest
from weft.host.work import Work

ROUNDS = 4
"""At most this many times the state is brought up in the background."""


class Preparation:
    """A migration that is made ready in the background."""

    def __init__(self, work: Work, migration: Migration, run: Runner) -> None:
        self.work, self.migration, self._run = work, migration, run
        self.error: Exception | None = None
        self.rounds = 0
        self.barrier = migration.manifest.batch
        """The batch up to which rows have been made ready, or are being made ready."""
        self._stopped = threading.Event()
        self._thread = self._begin(lambda: migration.work(run, self._stopped.is_set))

    @property
    def is_ready(self) -> bool:
        """Whether the state is ready as of the barrier."""
        return not self._thread.is_alive()

    def wait(self) -> None:
        """Return when the state is ready as of the barrier."""
        self._thread.join()

    def bring_up(self, manifest: Manifest) -> None:
        """Another round, up to a later batch."""
        self.rounds += 1
        self.barrier = manifest.batch  # before the next batch begins
        self._thread = self._begin(lambda: self.migration.catch_up(manifest, self._run))

    def cancel(self) -> None:
        """Give up; returns when nothing runs any more."""
        self._stopped.set()
        self.wait()

    def rows_behind(self, manifest: Manifest) -> int:
        """Rows that came after the barrier."""
        return sum(ref.rows for ref in manifest.segments if ref.first_batch > self.barrier)

    def _begin(self, work: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - the run reports it between two batches
                self.error = error

        thread = threading.Thread(target=run, name="weft-migration", daemon=True)
        thread.start()
        return thread
