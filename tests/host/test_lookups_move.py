"""Versions of a table are told apart wherever a change of plan sends them."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import weft
from weft.testing import Trial

SCHEMA = pa.schema([("k", pa.int64()), ("j", pa.int64()), ("v", pa.int64()), ("ts", pa.int64())])
QUERIES = {
    "equal": "SELECT x.v, r.v AS w FROM a x LEFT JOIN r FOR SYSTEM_TIME AS OF x.ts ON r.k = x.j",
    "other": "SELECT x.v, r.v AS w FROM a x LEFT JOIN r FOR SYSTEM_TIME AS OF x.ts ON r.k < x.j",
}


def session(folder: str | Path, workers: int, strategy: str, text: str) -> weft.Session:
    s = weft.Session(folder, workers=workers, progress=False)
    s.stream("a", weft.read.batches([SCHEMA.empty_table()]), event_time="ts", lateness="10 seconds")
    s.table("r", weft.read.batches([SCHEMA.empty_table()]), key=["k"], event_time="ts", lateness="10 seconds")
    s.query("q", text, strategy=strategy)
    return s


def drawn(rng: random.Random, at: int, batch: int) -> pa.Table:
    rows = [
        (rng.randrange(3), rng.choice([0, 1, 2, None]), 100 * batch + n, max(0, at + rng.randint(-9, 6)))
        for n in range(rng.choice([0, 1, 3, 6]))
    ]
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def rows_of(table: pa.Table) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("seed", range(8))
def test_versions_stay_together_when_the_number_of_workers_changes(name: str, seed: int, tmp_path: Path) -> None:
    rng, at = random.Random(seed), 0
    strategy = "hypercube:random" if name == "equal" else rng.choice(["flat", "hypercube:random"])
    moved = session(tmp_path, rng.randint(1, 7), strategy, QUERIES[name])
    alone, trial = Trial(session("unused", 1, "flat", QUERIES[name])), Trial(moved, state=tmp_path)
    for batch in range(7):
        at += rng.randrange(12)
        feed = {stream: drawn(rng, at, batch) for stream in ("a", "r")}
        alone.feed(feed)
        trial.feed(feed)
        assert rows_of(trial.table("q")) == rows_of(alone.table("q")), (seed, batch)
        if rng.random() < 0.6:
            moved.options(workers=rng.randint(1, 7))
            trial.change()
