"""Random lives of sessions whose plans follow the data, over streams that drift, with kills.

    python -m tests.adapt.lives --n 200 --seed 0

Rates, numbers of values and hot keys change at random; streams fall silent, some are idle then, and bring old rows when
they wake.  With every epoch, which is most often one batch, the session goes on with another of the plans that the
planner considers, at random: so every kind of plan is left and entered at every boundary.  State is moved between two
batches, or in the background while more batches come.  Queries are dropped now and then.  Runs die before, in and after
batches and switches.  The answer is compared with DuckDB, which is told which streams were idle.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import weft
from tests.adapt.drift import COLUMNS, NAMES
from weft.adapt.decide import Situation, Verdict, choose_again
from weft.adapt.gathering import Gathering
from weft.host.crash import CrashPoint, is_crash
from weft.query.model import Query
from weft.testing import Trial, assert_same_rows, expected_after_lateness
from weft.testing.oracle import survivors

SQL = {
    "pair": "SELECT r.a, r.id AS x, s.id AS y FROM r JOIN s ON r.a = s.a WITHIN INTERVAL '4' SECOND",
    "chain": """SELECT r.id AS x, s.id AS y, t.id AS z FROM r JOIN s ON r.a = s.a JOIN t ON s.b = t.b
                WITHIN INTERVAL '3' SECOND""",
    "long": """SELECT r.id AS x, t.id AS z, u.id AS w FROM r JOIN s ON r.a = s.a JOIN t ON s.b = t.b
               JOIN u ON t.c = u.c AND u.t >= t.t WITHIN INTERVAL '3' SECOND""",
    "named": """SELECT r.id AS x, s.id AS y, d.name FROM r JOIN s ON r.a = s.a JOIN d ON s.b = d.b
                WITHIN INTERVAL '4' SECOND""",
    "padded": "SELECT r.id AS x, s.id AS y FROM r LEFT JOIN s ON r.a = s.a WITHIN INTERVAL '4' SECOND",
    "without": "SELECT r.id AS x FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE r.a = s.a) WITHIN INTERVAL '3' SECOND",
}
FINAL = {
    "padded": "SELECT r.id AS x, s.id AS y FROM r LEFT JOIN s ON r.a = s.a AND abs(r.t - s.t) < 4",
    "without": "SELECT r.id AS x FROM r WHERE NOT EXISTS (SELECT 1 FROM s WHERE r.a = s.a AND abs(r.t - s.t) < 3)",
}
"""Those that give rows when the watermark has passed, as DuckDB knows them over the rows that were not late."""
NAMED = pa.table({"b": np.arange(0, 100, 3), "name": [f"n{at}" for at in range(0, 100, 3)]})
"""A table, which has no part in the watermark."""
FAR = 1_000
"""Seconds after the last batch: then all windows have closed."""
POINTS = ("commit before", "commit after", "wave 1 after", "migrate before", "migrate commit before",
          "migrate commit after")  # fmt: skip


def drifting(seed: int, batches: int) -> Iterator[dict[str, pa.Table]]:
    """A second of all streams a batch; rates, values and the hot key change now and then.

    A stream that has been silent brings rows of the time in which it was.
    """
    dice, chance, first = np.random.default_rng(seed), random.Random(seed), 0
    rates, values, hot = dict.fromkeys(NAMES, 8), dict.fromkeys("abc", 12), 0.0
    silent = dict.fromkeys(NAMES, 0)
    for at in range(batches):
        if chance.random() < 0.3:
            rates = {name: chance.choice([0, 0, 2, 8, 20]) for name in NAMES}
        if chance.random() < 0.3:
            values, hot = {key: chance.choice([4, 12, 100]) for key in "abc"}, chance.choice([0.0, 0.0, 0.4])
        batch = {}
        for name, count in rates.items():
            times = at - dice.integers(0, 2 + 2 * silent[name], count)
            silent[name] = 0 if count else silent[name] + 1
            batch[name] = some_rows(dice, name, times, values, hot, at // 4, first)
            first += count
        yield batch
    for at in range(3):
        far = {name: np.array([batches + FAR * (at + 1)]) for name in NAMES}
        yield {name: some_rows(dice, name, far[name], values, 0.0, 0, -10 - at) for name in NAMES}


def some_rows(
    dice: np.random.Generator, name: str, times: Any, values: Mapping[str, int], hot: float, key: int, first: int
) -> pa.Table:
    """Rows of a stream; a part of them has one key."""
    drawn = {column: dice.integers(0, values[column], len(times)) for column in COLUMNS[name]}
    drawn = {column: np.where(dice.random(len(times)) < hot, key, found) for column, found in drawn.items()}
    return pa.table({**drawn, "id": np.arange(len(times)) + first, "t": times})


def declare(root: Path, chance: random.Random) -> weft.Session:
    """The streams, some of which may be idle, and a table."""
    s = weft.Session(root, workers=2, progress=False)
    for name, keys in COLUMNS.items():
        empty = pa.table({key: pa.array([], pa.int64()) for key in (*keys, "id", "t")})
        idle = chance.choice([None, "1 second", "1 second", "2 seconds"])
        s.stream(name, weft.read.batches([empty]), event_time="t", lateness="1 second", idle=idle)
    s.stream("d", weft.read.batches([NAMED]), static=True)
    epoch = chance.choice(["1 batches", "1 batches", "2 batches", "2 seconds of events"])
    s.options(epoch=epoch, sharing=chance.choice(["global", "local"]))  # type: ignore[arg-type]
    return s


def any_plan(chance: random.Random) -> Any:
    """A decision for any of the plans that are there to choose from."""

    def decide(now: Situation, known: weft.Statistics, gathered: Gathering, *_: object) -> Verdict:
        best = choose_again(now, known, gathered)
        found = tuple(replace(choice, chosen=chance.choice(choice.candidates)) for choice in best)
        return Verdict("at random", 0.5, 0.0, 1, pays=True, forced=True, at_once=True, found=found)

    return decide


def wanted(query: str, known: Query, fed: list[dict[str, pa.Table]], idle: list[tuple[str, ...]]) -> pa.Table:
    """What DuckDB says to a query."""
    if query not in FINAL:
        return expected_after_lateness(known, fed, idle=idle)
    same_streams = declare(Path("unused"), random.Random(0)).query("pair", SQL["pair"]).query
    with duckdb.connect() as duck:
        for name, rows in survivors(same_streams, fed, idle=idle).items():
            duck.register(name, rows)
        return duck.sql(FINAL[query]).to_arrow_table()


class Slowly(Trial):
    """A trial that moves the state of some switches in the background, while up to three more batches come."""

    chance = random.Random(0)

    @property
    def is_moving(self) -> bool:
        """Whether state is being moved."""
        return self.running._preparing is not None

    def _follow(self, now: Any) -> Any:
        adaptation = super()._follow(now)
        adaptation._plans._busy = lambda: self.is_moving  # type: ignore[attr-defined]
        return adaptation

    def change(self) -> Any:
        """Switch now, or begin to."""
        if self.is_moving:
            return self._end() if self.chance.random() < 0.5 else None
        if self.manifest.batch < 0 or self.chance.random() < 0.5:
            return super().change()
        assert self._session is not None
        assert self._ledger is not None
        self._fit()
        most = self.chance.choice([None, 5])
        made = self.running.prepare(self._session.work().change, self._session.crash_point, most)
        if not made.can_catch_up:
            return self._end()
        mark = f"e{made.epoch}j"
        self._ledger.young = lambda name: mark in name  # as a run on Spark keeps what the move needs
        self._ledger.guarded = {ref.name for ref in (*made.segments, *made.manifest.segments)}
        return None

    def _end(self) -> Any:
        """Finish what was begun."""
        assert self._ledger is not None
        self._ledger.guarded, self._ledger.young = (), lambda _name: False
        return super().change()


class Life:
    """A session that lives through drifting streams."""

    def __init__(self, seed: int, root: Path) -> None:
        self.chance, self.seed, self.root = random.Random(seed), seed, root
        self.names = self.chance.sample([*SQL], self.chance.choice([1, 2, 3]))
        self.fed: list[dict[str, pa.Table]] = []
        self.idle: list[tuple[str, ...]] = []
        self.found: dict[str, list[pa.Table]] = {name: [] for name in self.names}
        self.dropped: dict[str, int] = {}
        """Query -> how many batches it has seen."""
        self.queries: dict[str, Query] = {}
        self.clock = 0.0
        self.begin()

    def begin(self) -> None:
        """Start the session, maybe once more."""
        self.session = declare(self.root, random.Random(self.seed))
        for name in self.alive:
            self.session.query(name, SQL[name], statistics=weft.Statistics(rows=dict.fromkeys(NAMES, 100.0)))
        self.queries |= {name: handle.query for name, handle in self.session.queries.items()}
        known = {"d": NAMED} if self.fed else {}
        self.trial = Slowly(self.session, state=self.root, adapt=True, tables=known, now=lambda: self.clock)
        self.trial.chance = self.chance

    @property
    def alive(self) -> list[str]:
        """The queries that have not been dropped."""
        return [name for name in self.names if name not in self.dropped]

    def drop(self) -> None:
        """Drop a query, if that leaves one and no switch is under way; its results stay as they are.

        Not one that still owes rows: those that come when the watermark has passed.
        """
        ready = [name for name in self.alive if name not in FINAL]
        if len(self.alive) < 2 or not ready or self.trial.is_moving or not self.fed:
            return
        name = self.chance.choice(ready)
        self.found[name].append(self.trial.table(name))
        self.dropped[name] = len(self.fed)
        self.session.drop(name)
        self.session.crash_point = None
        Trial.change(self.trial)

    def feed(self, batch: dict[str, pa.Table]) -> None:
        """A batch, which may die, and is then fed again."""
        batch = batch if self.fed else {**batch, "d": NAMED}
        done = self.trial.manifest.batch
        self.idle.append(self.trial.manifest.idle)
        if self.chance.random() < 0.3:
            self.session.crash_point = CrashPoint(self.chance.choice(POINTS), done + 1)
        try:
            self.trial.feed(batch)
        except weft.WeftError as error:
            if not is_crash(error):
                raise
            self.keep()
            if self.trial.manifest.batch > done:
                self.fed.append(batch)
            self.begin()
            if self.trial.manifest.batch > done:
                return
            self.trial.feed(batch)
        self.session.crash_point = None
        self.fed.append(batch)

    def keep(self) -> None:
        """Take the results so far."""
        for name in self.alive:
            self.found[name].append(self.trial.table(name))

    def check(self) -> None:
        """Compare all results with DuckDB's; not those of the rows that come after everything."""
        self.keep()
        for name in self.names:
            whole = pa.concat_tables(self.found[name])
            seen = self.dropped.get(name, len(self.fed))
            known = wanted(name, self.queries[name], self.fed[:seen], self.idle[:seen])
            assert_same_rows(only_real(whole), only_real(known), f"seed {self.seed}, query {name}")


def only_real(rows: pa.Table) -> pa.Table:
    """Without results of the rows that come after everything."""
    for name in {"x", "y", "z", "w"}.intersection(rows.column_names):
        rows = rows.filter(pc.fill_null(pc.greater_equal(rows[name], 0), True))
    return rows


def live(seed: int, root: Path, batches: int = 12) -> int:
    """One life; returns how many plans it had."""
    life = Life(seed, root)
    with (
        patch("weft.adapt.adaptation.decide", any_plan(life.chance)),
        patch("weft.adapt.adaptation.overfull", lambda *_: 1.0),
    ):
        for batch in drifting(seed, batches):
            life.clock += 1.0
            life.feed(batch)
            if life.chance.random() < 0.05:
                life.drop()
        life.check()
        return life.trial.running.epoch.number


def main() -> None:
    """Many lives."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--n", type=int, default=100)
    asked.add_argument("--seed", type=int, default=0)
    given = asked.parse_args()
    plans = 0
    for seed in range(given.seed, given.seed + given.n):
        with tempfile.TemporaryDirectory() as folder:
            plans += live(seed, Path(folder))
    print(f"{given.n} lives with {plans} changes of plan: every answer is right")


if __name__ == "__main__":
    main()
