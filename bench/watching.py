"""What it costs to measure running streams: the CPU time of statistics as a part of that of batches.

    python -m bench.watching [--scenario stable] [--rows 100000] [--epoch 3] [--rounds 3]

Batches run in this process, so nothing of Spark is in them: beside Spark's own work the part is smaller.  All
statistics count, also the frequent values that are kept where plans do not follow the data.  Decisions are made in the
background, once in an epoch; their time stands beside it.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import weft
from bench.drift import SCENARIOS, Scenario
from weft.adapt.adaptation import Adaptation
from weft.adapt.gathering import Gathering
from weft.host.batch import Report
from weft.host.watch import Watcher
from weft.stats.drawn import Drawing
from weft.testing import Trial

GOAL = 0.03
"""Of the time of a batch."""
BATCHES, FIRST = 15, 6
"""Batches that are run, and the first one that counts: then windows are full."""


@dataclass
class Spent:
    """Seconds of CPU time."""

    batches: int = 0
    total: float = 0.0
    """Of batches with their statistics, without decisions."""
    statistics: float = 0.0
    decisions: list[float] = field(default_factory=list)
    _inside: bool = False

    @property
    def share(self) -> float:
        """Statistics as a part of all."""
        return self.statistics / self.total if self.total else 0.0

    def line(self) -> str:
        """For people."""
        decided = max(self.decisions, default=0.0)
        return (
            f"statistics take {self.share:.1%} of the CPU time of a batch (goal {GOAL:.0%}): "
            f"{self.statistics / self.batches * 1e3:.1f} of {self.total / self.batches * 1e3:.0f} ms; "
            f"a decision takes {decided * 1e3:.0f} ms beside them"
        )

    def timed(self, work: Callable[..., Any]) -> Callable[..., Any]:
        """The same, and its time is added to that of statistics; not twice for what it calls."""

        def run(*given: Any, **named: Any) -> Any:
            if self._inside:
                return work(*given, **named)
            began, self._inside = time.process_time(), True
            try:
                return work(*given, **named)
            finally:
                self.statistics, self._inside = self.statistics + time.process_time() - began, False

        return run

    def decided(self, work: Callable[..., Any]) -> Callable[..., Any]:
        """The same, and its time is noted as that of a decision."""

        def run(*given: Any, **named: Any) -> Any:
            began = time.process_time()
            found = work(*given, **named)
            self.decisions.append(time.process_time() - began)
            return found

        return run


@contextmanager
def watched(spent: Spent) -> Iterator[None]:
    """Everything that statistics need is timed."""
    parts = [(Drawing, "see"), (Drawing, "plain"), (Watcher, "see"), (Watcher, "plain"), (Watcher, "least"),
             (Gathering, "add")]  # fmt: skip
    with ExitStack() as stack:
        for owner, name in parts:
            stack.enter_context(patch.object(owner, name, spent.timed(getattr(owner, name))))
        stack.enter_context(patch.object(Report, "merge_least", spent.timed(Report.merge_least)))
        stack.enter_context(patch.object(Adaptation, "_decide", spent.decided(Adaptation._decide)))
        yield


def measure(scenario: Scenario, rows: int, epoch: int = 3) -> Spent:
    """Run some batches of a scenario."""
    spent, batches = Spent(), scenario.batches(BATCHES, rows)
    with tempfile.TemporaryDirectory() as folder:
        s = weft.Session(Path(folder) / "checkpoint", workers=2, progress=False)
        for name in batches[0]:
            s.stream(name, weft.read.batches([batches[0][name]]), event_time="ts")
        for name, sql in scenario.queries.items():
            s.query(name, f"{sql} WITHIN INTERVAL '{scenario.window}' SECOND")
        s.options(epoch=f"{epoch} batches")
        trial = Trial(s, state=s.checkpoint.root, adapt=True)
        for batch in batches[:FIRST]:
            trial.feed(batch)
        with watched(spent):
            began = time.process_time()
            for batch in batches[FIRST:]:
                trial.feed(batch)
            spent.total = time.process_time() - began - sum(spent.decisions)
        spent.batches = BATCHES - FIRST
    return spent


def main() -> None:
    """Measure what is asked for."""
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--scenario", default="stable", choices=[*SCENARIOS])
    asked.add_argument("--rows", type=int, default=100_000)
    asked.add_argument("--epoch", type=int, default=3, help="batches of an epoch")
    asked.add_argument("--rounds", type=int, default=3)
    given = asked.parse_args()
    rounds = [measure(SCENARIOS[given.scenario], given.rows, given.epoch) for _ in range(given.rounds)]
    for spent in rounds:
        print(spent.line())
    print(f"median {statistics.median(spent.share for spent in rounds):.2%}")


if __name__ == "__main__":
    main()
