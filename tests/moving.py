"""Sessions with queries of all kinds that change between batches, compared with DuckDB after every batch.

    python -m tests.moving --n 1000 --seed 0     many sessions in this process
    python -m tests.moving --seed 4711 --n 1 -v  one session again, printed in full

Streams, rows and queries are those of `tests.wide`: outer joins, subqueries, groups, numbers of rows, upserts.  Between
two batches queries are added and dropped, workers, strategies and sharing change, and the process may be another one.
A query that is added must be complete: either it is refused, or it answers at once as if it had been there always.
"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

import weft
from tests.goingon import go_on
from tests.outer import COLUMNS
from tests.seeds import run_seeds
from tests.wide import Tally, World, compare, make_world
from weft.optimizer.plan import SHARINGS
from weft.testing import Trial

STRATEGIES = ("auto", "auto", "auto", "flat", "left_deep", "tree", "views")
TEXTS = 6
"""Queries of a session; some are there from the first batch."""


class Moving:
    """A session from its first batch to its last."""

    def __init__(self, world: World, folder: str) -> None:
        self.world, self.folder, self.rng, self.tally = world, folder, random.Random(world.seed + 5), Tally()
        self.options: dict[str, Any] = {
            "sharing": self.rng.choice(SHARINGS),
            "statistics": weft.Statistics({name: float(self.rng.randrange(1, 10**6)) for name in COLUMNS}),
        }
        self.asked: dict[str, str] = {}
        """Name of a query -> its strategy."""
        self.waiting: dict[str, list[pa.Table]] = {name: [] for name in COLUMNS}
        """Rows of streams that no query reads: they stay in their sources."""
        self.texts = {f"q{place}": text for place, text in enumerate(world.texts)}
        for name in self.rng.sample(sorted(self.texts), self.rng.randint(1, 3)):
            self.add(name)
        self.session = self.declare()
        self.trial = Trial(self.session, state=self.session.checkpoint.root)

    def live(self) -> Tally:
        """From the first batch to the last."""
        for number, (batch, left) in enumerate(zip(self.world.batches, self.world.left, strict=True)):
            for _ in range(self.rng.choice([1, 2, 2]) if number else 0):
                self.happen()
            self.feed(batch)
            for name in self.asked:
                compare(self.trial.table(name), self.texts[name], left, self.tally)
        return self.tally

    def feed(self, batch: Mapping[str, pa.Table]) -> None:
        """A batch of the streams that are read, with what has waited in their sources."""
        for name, rows in batch.items():
            self.waiting[name].append(rows)
        read = {stream.name for stream in self.trial.topology.streams} & {*self.waiting}
        self.trial.feed({name: pa.concat_tables(self.waiting[name]) for name in read if self.waiting[name]})
        for name in read:
            self.waiting[name] = []

    def declare(self) -> weft.Session:
        """The session as a new process would declare it."""
        session = self.world.session(self.folder)
        session.options(**self.options)
        for name in {*session.checkpoint.queries()} - {*self.asked}:
            session.drop(name)
        for name, strategy in self.asked.items():
            self.query(session, name, strategy)
        return session

    def query(self, session: weft.Session, name: str, strategy: str) -> None:
        """Declare a query that must be complete."""
        more: Mapping[str, Any] = {"cross_product": True, "backfill": True, "complete": True}
        session.query(name, self.texts[name], strategy=strategy, **more)

    def add(self, name: str) -> None:
        """A query under the strategy by cost, or another that can carry it."""
        probe = self.world.session("never-made")
        strategy = self.rng.choice(STRATEGIES)
        try:
            probe.query(name, self.texts[name], strategy=strategy, cross_product=True)
            probe.explain("topology")
        except weft.WeftError:
            strategy = "auto"
        self.asked[name] = strategy

    def happen(self) -> None:
        """Something changes: in the running session, or by the next process."""
        rng, before, options, workers = self.rng, dict(self.asked), dict(self.options), self.world.workers
        kind = rng.choice(["add", "add", "drop", "rescale", "strategy", "sharing"])
        absent = sorted({*self.texts} - {*self.asked})
        if kind == "add" and absent:
            self.add(rng.choice(absent))
        elif kind == "drop" and len(self.asked) > 1:
            del self.asked[rng.choice(sorted(self.asked))]
        elif kind == "rescale":
            self.world.workers = rng.randint(1, 4)
        elif kind == "strategy":
            self.add(rng.choice(sorted(self.asked)))
        else:
            self.options["sharing"] = rng.choice(SHARINGS)
        self.tally.kinds[kind] += 1
        try:
            self.restart() if kind == "strategy" or rng.random() < 0.4 else self.change(before)
        except weft.StateError as error:
            if not error.hint:
                raise
            self.tally.kinds["refused"] += 1
            self.asked, self.options, self.world.workers = before, options, workers
            self.restart()

    def change(self, before: Mapping[str, str]) -> None:
        """The running session becomes what is asked for."""
        for name in {*before} - {*self.asked}:
            self.session.drop(name)
        for name in {*self.asked} - {*before}:
            self.query(self.session, name, self.asked[name])
        self.session.rescale(self.world.workers)
        self.session.options(**self.options)
        self.trial.change()

    def restart(self) -> None:
        """Another process goes on."""
        session = self.declare()
        self.trial = go_on(self.trial, session, self.asked)
        self.session = session


def check(world: World) -> Tally:
    """One session.  What is wrong is an error."""
    with tempfile.TemporaryDirectory(prefix="weft-moving-") as folder:
        return Moving(world, f"{folder}/state").live()


def main() -> int:
    """The command line."""
    return run_seeds(
        "tests.moving", "sessions of all kinds of queries that change",
        lambda seed, _spark: make_world(seed, TEXTS), lambda world, _spark: check(world), Tally(), on_spark=False,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
