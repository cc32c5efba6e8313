"""Random lives of sessions whose plans follow the data, over streams that drift, with kills.

    python -m tests.adapt.lives --n 200 --seed 0

Rates, numbers of values and hot keys change at random.  With every epoch, which is one batch, the session goes on with
another of the plans that the planner considers, at random: so every kind of plan is left and entered at every boundary.
Runs die before, in and after batches and switches.  The answer is compared with DuckDB.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import weft
from tests.adapt.drift import COLUMNS, NAMES
from weft.adapt.decide import Situation, Verdict, choose_again
from weft.adapt.gathering import Gathering
from weft.host.crash import CrashPoint, is_crash
from weft.testing import Trial, assert_same_rows, expected_after_lateness

SQL = {
    "pair": "SELECT r.a, r.id AS x, s.id AS y FROM r JOIN s ON r.a = s.a WITHIN INTERVAL '4' SECOND",
    "chain": """SELECT r.id AS x, s.id AS y, t.id AS z FROM r JOIN s ON r.a = s.a JOIN t ON s.b = t.b
                WITHIN INTERVAL '3' SECOND""",
    "long": """SELECT r.id AS x, t.id AS z, u.id AS w FROM r JOIN s ON r.a = s.a JOIN t ON s.b = t.b
               JOIN u ON t.c = u.c AND u.t >= t.t WITHIN INTERVAL '3' SECOND""",
}
POINTS = ("commit before", "commit after", "wave 1 after", "migrate before", "migrate commit before",
          "migrate commit after")  # fmt: skip


def drifting(seed: int, batches: int) -> Iterator[dict[str, pa.Table]]:
    """A second of all streams a batch; rates, values and the hot key change now and then."""
    dice, chance, first = np.random.default_rng(seed), random.Random(seed), 0
    rates, values, hot = dict.fromkeys(NAMES, 8), dict.fromkeys("abc", 12), 0.0
    for at in range(batches):
        if chance.random() < 0.3:
            rates = {name: chance.choice([0, 2, 8, 20]) for name in NAMES}
        if chance.random() < 0.3:
            values, hot = {key: chance.choice([4, 12, 100]) for key in "abc"}, chance.choice([0.0, 0.0, 0.4])
        batch = {}
        for name, keys in COLUMNS.items():
            drawn = {key: dice.integers(0, values[key], rates[name]) for key in keys}
            drawn = {key: np.where(dice.random(len(found)) < hot, at // 4, found) for key, found in drawn.items()}
            times = at - dice.integers(0, 2, rates[name])
            batch[name] = pa.table({**drawn, "id": np.arange(rates[name]) + first, "t": times})
            first += rates[name]
        yield batch


def declare(root: Path, chance: random.Random) -> weft.Session:
    s = weft.Session(root, workers=2, progress=False)
    for name, keys in COLUMNS.items():
        empty = pa.table({key: pa.array([], pa.int64()) for key in (*keys, "id", "t")})
        s.stream(name, weft.read.batches([empty]), event_time="t", lateness="2 seconds")
    s.options(epoch="1 batches", sharing=chance.choice(["global", "local"]))  # type: ignore[arg-type]
    return s


def any_plan(chance: random.Random) -> Any:
    """A decision for any of the plans that are there to choose from."""

    def decide(now: Situation, known: weft.Statistics, gathered: Gathering, *_: object) -> Verdict:
        best = choose_again(now, known, gathered)
        found = tuple(replace(choice, chosen=chance.choice(choice.candidates)) for choice in best)
        return Verdict("at random", 0.5, 0.0, 1, pays=True, forced=True, at_once=True, found=found)

    return decide


def live(seed: int, root: Path, batches: int = 12) -> int:
    """One life; returns how many plans it had."""
    chance = random.Random(seed)
    names = chance.sample([*SQL], chance.choice([1, 2]))
    sharing = random.Random(seed)

    def begin() -> tuple[weft.Session, Trial]:
        s = declare(root, random.Random(sharing.getstate()[1][0]))
        for name in names:
            s.query(name, SQL[name], statistics=weft.Statistics(rows=dict.fromkeys(NAMES, 100.0)))
        return s, Trial(s, state=root, adapt=True)

    fed: list[dict[str, pa.Table]] = []
    found: dict[str, list[pa.Table]] = {name: [] for name in names}
    with (
        patch("weft.adapt.adaptation.decide", any_plan(chance)),
        patch("weft.adapt.adaptation.overfull", lambda *_: 1.0),
    ):
        session, trial = begin()
        for batch in drifting(seed, batches):
            done = trial.manifest.batch
            if chance.random() < 0.3:
                session.crash_point = CrashPoint(chance.choice(POINTS), done + 1)
            try:
                trial.feed(batch)
            except weft.WeftError as error:
                if not is_crash(error):
                    raise
                for name in names:
                    found[name].append(trial.table(name))
                session, trial = begin()
                if trial.manifest.batch == done:
                    trial.feed(batch)
            session.crash_point = None
            fed.append(batch)
        for name in names:
            whole = pa.concat_tables([*found[name], trial.table(name)])
            wanted = expected_after_lateness(session.queries[name].query, fed)
            assert_same_rows(whole, wanted, f"seed {seed}, query {name}")
        return trial.running.epoch.number


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
