"""Five steady streams of a made-up cluster, with skew that comes and goes, after the demonstration of Squall (6).

Racks and machines are announced, jobs begin, tasks of jobs run on machines, machines fail.  Every second brings a file
of each stream, with the time of day as event time.  In a skewed stretch most tasks and failures are those of one
machine: whatever is placed by machine lies on one worker then.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

STREAMS = ("rack", "machine", "job", "task", "failure")
LATENESS = "2 seconds"
MACHINES = 60
"""Known at the start."""
JOBS, TASKS, FAILURES = 20, 200, 60
"""Rows a second."""
STRETCH = 25
"""Seconds of a stretch; every second one is skewed."""
KEPT = 300
"""Files of each stream that stay."""
HOT = 0.7
"""The part of the tasks and failures that are those of one machine, in a skewed stretch."""

FAILING = """\
SELECT m.id AS machine, r.site, j.owner, t.id AS task, f.reason
FROM rack r
JOIN machine m ON m.rack = r.id
JOIN task    t WITHIN INTERVAL '5' SECOND  ON t.machine = m.id
JOIN job     j WITHIN INTERVAL '60' SECOND ON j.id = t.job
JOIN failure f WITHIN INTERVAL '5' SECOND  ON f.machine = t.machine
WHERE j.class = 'production'"""
"""Failures of machines on which tasks of production jobs run."""
BY_SITE = """\
SELECT r.site, f.reason, count(*) AS failures
FROM rack r
JOIN machine m ON m.rack = r.id
JOIN task    t WITHIN INTERVAL '5' SECOND ON t.machine = m.id
JOIN failure f WITHIN INTERVAL '5' SECOND ON f.machine = t.machine
GROUP BY r.site, f.reason"""
QUERIES = {"failing_machines": FAILING, "failures_by_site": BY_SITE}


@dataclass(frozen=True, slots=True)
class Tick:
    """What arrives in one second."""

    tables: dict[str, pa.Table]
    skewed: bool


class Cluster:
    """Makes what arrives, second by second; the same seed makes the same rows but for their times."""

    def __init__(self, seed: int = 1) -> None:
        self._random = np.random.default_rng(seed)
        self._ticks = self._tasks = self._jobs = 0
        self._recent_jobs: deque[int] = deque(maxlen=JOBS * 15)

    def tick(self, now: float, skewed: bool) -> Tick:
        """The rows of one second that ends now."""
        number, random = self._ticks, self._random
        self._ticks += 1
        machines = MACHINES + number
        racks = np.arange(8) if number == 0 else np.array([7 + number])
        new = np.arange(MACHINES) if number == 0 else np.array([machines - 1])
        jobs = self._take(JOBS, "_jobs", self._recent_jobs)
        tasks = self._take(TASKS, "_tasks", deque())
        hot = HOT if skewed else 0.0
        tables = {
            "rack": {"id": racks, "site": np.array(["north", "south", "east"])[racks % 3]},
            "machine": {"id": new, "rack": new % (8 + number)},
            "job": {
                "id": jobs, "owner": np.char.add("user", (jobs % 50).astype(str)),
                "class": np.where(jobs % 4 == 0, "production", "batch"),
            },
            "task": {
                "id": tasks, "job": random.choice(np.array(self._recent_jobs), TASKS),
                "machine": self._place(TASKS, machines, hot),
            },
            "failure": {
                "machine": self._place(FAILURES, machines, hot),
                "reason": np.array(["memory", "disk", "killed"])[random.integers(0, 3, FAILURES)],
            },
        }  # fmt: skip
        return Tick({name: pa.table({**made, "ts": self._times(now, made)}) for name, made in tables.items()}, skewed)

    def _take(self, count: int, counter: str, recent: deque[int]) -> np.ndarray:
        first = getattr(self, counter)
        setattr(self, counter, first + count)
        recent.extend(range(first, first + count))
        return np.arange(first, first + count)

    def _place(self, rows: int, machines: int, hot: float) -> np.ndarray:
        """The machine of each row: any one, but a part of them is on machine 7."""
        places = self._random.integers(0, machines, rows)
        places[self._random.random(rows) < hot] = 7
        return places

    def _times(self, now: float, made: dict[str, np.ndarray]) -> pa.Array:
        rows = len(next(iter(made.values())))
        late = self._random.integers(0, 900_000, rows)
        return pa.array(np.sort(int(now * 1e6) - late), pa.timestamp("us"))


class Feeder:
    """Lets files of a cluster arrive, one of each stream every second, until it is closed."""

    def __init__(self, folder: Path, seed: int = 1, every: float = 1.0, clock: Callable[[], float] = time.time) -> None:
        self.folder, self.skew = folder, "comes and goes"
        self._cluster, self._clock, self._every = Cluster(seed), clock, every
        self._number = 0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="weft demo", daemon=True)
        self.arrive()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """Let no more files arrive."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()

    def is_skewed(self) -> bool:
        """Whether the next second is skewed."""
        return {"always": True, "never": False}.get(self.skew, self._number // STRETCH % 2 == 1)

    def arrive(self) -> None:
        """Let the files of one second arrive, and remove old ones."""
        tick = self._cluster.tick(self._clock(), self.is_skewed())
        for name, table in tick.tables.items():
            folder = self.folder / name
            folder.mkdir(parents=True, exist_ok=True)
            aside = folder / ".arriving"
            pq.write_table(table, aside)
            os.replace(aside, folder / f"{self._number:08d}.parquet")
            (folder / f"{self._number - KEPT:08d}.parquet").unlink(missing_ok=True)
        self._number += 1

    def _run(self) -> None:
        while not self._ending.wait(self._every):
            self.arrive()
