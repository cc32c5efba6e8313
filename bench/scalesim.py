"""More workers than there are cores: every worker's share runs one after the other in this process, and is timed.

    simulated seconds of a batch = sum over waves of the slowest worker's time in that wave

Reading files, Spark's scheduling and its shuffle are not in it: it tells how evenly the work of the plan is divided and
how much copies cost, not how fast a cluster is.
"""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from bench.runs import Setting, open_session
from bench.workload import Workload
from weft.host.envelope import Envelope
from weft.host.worker import Worker
from weft.testing import Trial


@dataclass(frozen=True, slots=True)
class Simulated:
    """A run on so many workers."""

    workers: int
    slowest: float
    """Seconds, by the slowest worker of every wave."""
    summed: float
    """Seconds of all workers."""

    @property
    def balance(self) -> float:
        """1 if all workers have the same to do."""
        return self.summed / self.workers / self.slowest


def simulated(workload: Workload, workers: int, skip: int) -> Simulated:
    """All batches after the first `skip` ones."""
    batches = [*workload.batches()]
    spent: dict[tuple[int, int], list[float]] = defaultdict(list)
    number = 0

    class Timed(Worker):
        """A worker whose waves are timed."""

        def run(self, wave: int, inbox: Iterable[Envelope]) -> Any:
            began = time.perf_counter()
            found = [*super().run(wave, inbox)]
            spent[number, wave].append(time.perf_counter() - began)
            return found

    with (
        tempfile.TemporaryDirectory() as folder,
        open_session(workload, Setting("auto", "auto", workers), Path(folder)) as session,
        patch("weft.host.inprocess.run.Worker", Timed),
    ):
        trial = Trial(session)
        for number, tables in enumerate(batches):  # noqa: B007 - `Timed` reads it
            trial.feed(tables)
    kept = [times for (batch, _), times in spent.items() if batch >= skip]
    return Simulated(workers, sum(map(max, kept)), sum(map(sum, kept)))
