"""More workers than there are cores: every worker's share runs one after the other in this process, and is timed.

    simulated seconds of a batch = sum over waves of the slowest worker's time in that wave

Reading files, Spark's scheduling and its shuffle are not in it: it shows how evenly the work of the plan is divided and
how much copies cost, not how fast a cluster is.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.runs import Setting, open_session
from bench.workload import Workload
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


def simulate(workload: Workload, workers: int, skip: int) -> Simulated:
    """All batches after the first `skip` ones."""
    slowest = summed = 0.0
    with (
        tempfile.TemporaryDirectory() as folder,
        open_session(workload, Setting("auto", "auto", workers), Path(folder)) as session,
    ):
        trial = Trial(session)
        for number, tables in enumerate(workload.batches()):
            trial.feed(tables)
            if number >= skip:
                waves = _by_wave(trial.spent)
                slowest, summed = slowest + sum(map(max, waves)), summed + sum(map(sum, waves))
    return Simulated(workers, slowest, summed)


def _by_wave(spent: Mapping[tuple[int, int], float]) -> list[list[float]]:
    """Seconds of the workers, a list for each wave; wave 0 is reading and no worker's."""
    found: dict[int, list[float]] = defaultdict(list)
    for (wave, _), seconds in spent.items():
        if wave:
            found[wave].append(seconds)
    return [*found.values()]
