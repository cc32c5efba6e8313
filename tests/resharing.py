"""Sessions whose sharing changes between batches: plans for all queries come, go and move, and no answer changes.

    python -m tests.resharing --n 1000 --seed 0     many sessions in this process
    python -m tests.resharing --seed 17 --n 1 -v one session again, printed in full

Streams, rows and queries are those of `tests.shared`: rows may be late for one query and in time for another.  With
random statistics, and prices at which waves cost little, plans are often chosen together.  After every batch each query
is compared with the oracle; between batches sharing, workers and plans change, queries go, and processes end.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections import Counter
from typing import Any

import pyarrow as pa

import weft
from tests.goingon import go_on
from tests.migrations import quick_disk
from tests.optimizer.test_together import known_of
from tests.seeds import run_seeds
from tests.shared import SCHEMA, Shared, make_shared
from weft.optimizer.plan import SHARINGS
from weft.testing import Trial, assert_same_rows, expected_after_lateness

KINDS = ("sharing", "sharing", "rescale", "drop", "plan")


class Resharing:
    """A session from its first batch to its last."""

    def __init__(self, case: Shared, folder: str) -> None:
        self.case, self.folder, self.rng = case, folder, random.Random(case.seed + 9)
        self.known, self.workers = known_of(self.rng, case), case.workers
        self.sharing = self.rng.choice(SHARINGS)
        self.streams = {r.stream.name: r.stream for query in case.queries.values() for r in query.relations}
        self.asked: dict[str, Any] = {name: {} if self.rng.random() < 0.85 else case.asked[name] for name in case.texts}
        self.fed: list[dict[str, pa.Table]] = []
        self.tally: Counter[str] = Counter()
        self.session = self.declare()
        self.trial = Trial(self.session, state=self.session.checkpoint.root)

    def live(self) -> Counter[str]:
        """From the first batch to the last."""
        for batch in self.case.batches:
            for _ in range(self.rng.choice([0, 1, 1, 2]) if self.fed else 0):
                self.happen(self.rng.choice(KINDS))
            self.fed.append({name: rows for name, rows in batch.items() if name in self.streams})
            self.trial.feed(self.fed[-1])
            for name in self.asked:
                self.compare(name)
        return self.tally

    def declare(self) -> weft.Session:
        """The session as a new process would declare it."""
        session = weft.Session(self.folder, workers=self.workers, progress=False)
        session._roster.prices = self.known.prices
        session.options(statistics=self.known.statistics, sharing=self.sharing)
        for name, stream in self.streams.items():
            source, late = weft.read.batches([SCHEMA.empty_table()]), f"{stream.lateness // 1_000_000} seconds"
            if stream.table:
                session.table(name, source)
            else:
                how = {"event_time": "ts", "lateness": late} if stream.event_time else {}
                session.stream(name, source, **how)
        for name in {*session.checkpoint.queries()} - {*self.asked}:
            session.drop(name)
        for name, asked in self.asked.items():
            session.query(name, self.case.texts[name], cross_product=True, **asked)
        return session

    def happen(self, kind: str) -> None:
        """Something changes: in the running session, or by the next process."""
        rng, name = self.rng, self.rng.choice(sorted(self.asked))
        before = self.sharing, self.workers, dict(self.asked)
        self.tally[kind] += 1
        restarts = kind == "plan" or rng.random() < 0.3
        if kind == "sharing":
            self.sharing = rng.choice(SHARINGS)
        elif kind == "rescale":
            self.workers = rng.randint(1, 4)
        elif kind == "plan":
            self.asked[name] = rng.choice([{}, self.case.asked[name]])
        elif len(self.asked) > 1:
            del self.asked[name]
            if not restarts:
                self.session.drop(name)
        try:
            self.restart() if restarts else self.change()
        except weft.StateError as error:  # a stream that is joined with tables only is not kept by itself
            if "would lose rows" not in str(error) or not any(stream.table for stream in self.streams.values()):
                raise
            self.tally["refused"] += 1
            self.sharing, self.workers, self.asked = before
            self.restart()
        self.tally["together"] += any(c.together is not None and c.together.used for c in self.session.choices)

    def change(self) -> None:
        """The running session becomes what is asked for."""
        self.session.rescale(self.workers)
        self.session.options(sharing=self.sharing)
        self.trial.change()

    def restart(self) -> None:
        """Another process goes on."""
        session = self.declare()
        self.trial = go_on(self.trial, session, self.asked)
        self.session = session

    def compare(self, name: str) -> None:
        """Compare an answer with the oracle's."""
        found, query = self.trial.table(name), self.session.queries[name].query
        assert_same_rows(found, expected_after_lateness(query, self.fed), f"{name} after batch {len(self.fed) - 1}: ")
        self.tally["answers"] += 1
        self.tally["rows"] += found.num_rows


def check(case: Shared) -> Counter[str]:
    """One session.  What is wrong is an error."""
    with tempfile.TemporaryDirectory(prefix="weft-resharing-") as folder, quick_disk():
        return Resharing(case, f"{folder}/state").live()


def make(seed: int) -> Shared:
    """The session of a seed; some have queries that differ only by their windows."""
    return make_shared(seed, windows=seed % 3 == 0)


def main() -> int:
    """The command line."""
    return run_seeds(
        "tests.resharing", "sessions whose sharing changes",
        lambda seed, _spark: make(seed), lambda case, _spark: check(case), Counter(), on_spark=False,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
