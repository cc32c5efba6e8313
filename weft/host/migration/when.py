"""When state is moved: between two batches, or in the background while batches go on under the old plan.

    between two batches   the next batch waits until all is moved
    in the background     no batch waits; but it takes several times as long, beside batches, what came meanwhile is
                          moved too, and each of these batches is as slow as the old plan makes it

It is done between two batches if that takes no longer than one of the last batches, or if batches would lose more
meanwhile than the move takes:

    lost in the background = batches meanwhile * seconds of a batch * part of them that the other plan saves

The newest batch counts: streams that have just changed make batches slow, and the other plan is to cure that.
What must hold: a change that saves nothing, such as a new query, never makes a batch wait for much longer than usual.
"""

from __future__ import annotations

import math
import statistics
from collections import deque

AT_ONCE = 400_000
"""Rows that may always be moved between two batches."""
A_MOMENT = 0.1
"""Seconds that this takes, about."""
LARGE = 4_000_000
"""More rows are moved by several jobs: what a job moves is held in memory."""
MEANWHILE = 4
"""At least so many batches come while state is moved in the background."""
SLOWER = 3
"""So many times as long as between two batches it takes there."""


class Rhythm:
    """How long the last batches took, and how far apart they came."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=5)
        self._apart = 0.0
        self._ended: float | None = None

    def note(self, seconds: float, ended: float) -> None:
        """A batch took so many seconds, and ended at a time of a clock that never goes back."""
        self._apart = seconds if self._ended is None else ended - self._ended
        self._ended = ended
        self._seconds.append(seconds)

    def rows_at_once(self, saves: float = 0.0) -> float:
        """How many rows may be moved between two batches, if the other plan saves a part of the time of batches."""
        newest = self._seconds[-1] if self._seconds else 0.0
        if SLOWER * saves * newest > self._apart:
            return math.inf  # while a second is moved in the background, batches lose more than that second
        usual = statistics.median(self._seconds) if self._seconds else 0.0
        return AT_ONCE * max(1.0, max(usual, newest, MEANWHILE * saves * newest) / A_MOMENT)
