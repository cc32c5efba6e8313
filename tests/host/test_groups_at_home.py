"""Groups live where their tuples are made, if the plan makes all tuples of a group on one worker."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import weft
from weft.testing import Trial

COLUMNS = {"a": ("k", "g"), "b": ("k", "m", "y"), "c": ("m", "z")}
JOINED = "FROM a JOIN b ON a.k = b.k JOIN c ON b.m = c.m"
QUERIES = {
    "by_k": f"SELECT a.k AS k, count(*) AS n, sum(c.z) AS s {JOINED} GROUP BY a.k",
    "by_more": f"SELECT b.k AS k, a.g AS g, count(*) AS n, max(b.y) AS y, count(DISTINCT c.z) AS d {JOINED} "
    "GROUP BY b.k, a.g",
    "by_m": f"SELECT c.m AS m, sum(b.y) AS s, min(a.g) AS g {JOINED} GROUP BY c.m",
    "by_m_and_g": f"SELECT b.m AS m, a.g AS g, avg(c.z) AS z {JOINED} GROUP BY b.m, a.g",
    "by_g": f"SELECT a.g AS g, sum(b.y) AS s {JOINED} GROUP BY a.g",
    "by_term": f"SELECT a.k + 1 AS k, count(*) AS n {JOINED} GROUP BY a.k + 1",
}


def drawn(rng: random.Random, rows: int = 30) -> dict[str, pa.Table]:
    """Some rows of each stream, a few values NULL."""
    value = lambda: None if rng.random() < 0.1 else rng.randint(0, 6)
    return {
        name: pa.table({column: pa.array([value() for _ in range(rows)], pa.int64()) for column in wanted})
        for name, wanted in COLUMNS.items()
    }


def session(folder: Path, workers: int, strategy: str) -> weft.Session:
    s = weft.Session(folder, workers=workers, progress=False)
    for name, wanted in COLUMNS.items():
        s.stream(name, weft.read.batches([pa.table({column: pa.array([], pa.int64()) for column in wanted})]))
    for name, text in QUERIES.items():
        s.query(name, text)
    s.options(strategy=strategy)
    return s


def rows_of(table: pa.Table) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


def answers(batches: list[dict[str, pa.Table]]) -> dict[str, Counter[tuple[object, ...]]]:
    with duckdb.connect() as db:
        for name in COLUMNS:
            db.register(name, pa.concat_tables([batch[name] for batch in batches]))
        return {name: rows_of(db.sql(text).to_arrow_table()) for name, text in QUERIES.items()}


@pytest.mark.parametrize("seed", range(6))
def test_groups_are_right_wherever_they_live_and_move_with_the_plan(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    s = session(tmp_path, rng.choice([2, 3]), "hypercube:hash")
    trial, fed, homes = Trial(s, state=tmp_path), list[dict[str, pa.Table]](), set[str]()
    for step in range(6):
        fed.append(drawn(rng))
        trial.feed(fed[-1])
        for name, expected in answers(fed).items():
            assert rows_of(trial.table(name)) == expected, (seed, step, name)
        homes |= {emit.route for emit in trial.topology.emits}
        if step in (1, 3):
            s.options(strategy=rng.choice(["flat", "left_deep", "hypercube:hash"]), workers=rng.randint(1, 4))
            trial.change()
    assert homes == {"local", "key"}, "groups of both kinds are there"


def test_groups_by_the_key_of_a_cube_stay_and_others_are_sent(tmp_path: Path) -> None:
    s = session(tmp_path, 2, "hypercube:hash")
    trial = Trial(s)
    report = trial.feed(drawn(random.Random(1)))
    routes = {emit.query: emit.route for emit in trial.topology.emits}
    stays = {name for name, route in routes.items() if route == "local"}
    assert stays
    assert "by_g" not in stays
    assert "by_term" not in stays
    assert all(report.routed[f"emit {name}"] for name in QUERIES)
    text = s.explain()
    assert "by keys of the groups" in str(text)


def test_a_query_whose_groups_stay_needs_no_further_wave(tmp_path: Path) -> None:
    s = weft.Session(tmp_path, workers=2, progress=False)
    for name, wanted in COLUMNS.items():
        s.stream(name, weft.read.batches([pa.table({column: pa.array([], pa.int64()) for column in wanted})]))
    s.query("q", "SELECT a.k AS k, count(*) AS n FROM a JOIN b ON a.k = b.k GROUP BY a.k", strategy="hypercube:hash")
    trial = Trial(s)
    assert trial.topology.waves == 1
    report = trial.feed(drawn(random.Random(2)))
    assert not report.sent.get("emit q"), "no part of a group is sent"
    assert trial.table("q").num_rows > 2
    assert "by a.k" in str(s.explain())


@pytest.mark.parametrize("workers", [2, 3, 5])
def test_a_window_of_the_time_that_is_joined_by_is_one_group(workers: int, tmp_path: Path) -> None:
    """Its rows lie on several workers: it holds many times, and these are dealt one by one."""
    times = pa.array([second * 1_000_000 for second in range(40)], pa.timestamp("us"))
    rows = pa.table({"ts": times, "v": pa.array([1] * 40, pa.int64())})
    s = weft.Session(tmp_path, workers=workers, progress=False)
    for name in ("a", "b"):
        s.stream(name, weft.read.batches([rows.slice(0, 0)]), event_time="ts")
    text = "SELECT window.start AS start, count(*) AS n, sum(b.v) AS v FROM a JOIN b ON a.ts = b.ts"
    s.query("q", f"{text} GROUP BY window(a.ts, '10 seconds')", strategy="hypercube:hash")
    s.query("once", "SELECT window.start AS start FROM a JOIN b ON a.ts = b.ts GROUP BY window(b.ts, '10 seconds')")
    s.query("by_time", f"{text.replace('SELECT', 'SELECT a.ts AS ts,')} GROUP BY a.ts, window(a.ts, '10 seconds')")
    trial = Trial(s)
    trial.feed({"a": rows, "b": rows})
    assert sorted(row["n"] for row in trial.table("q").to_pylist()) == [10, 10, 10, 10]
    assert trial.table("once").num_rows == 4
    assert trial.table("by_time").num_rows == 40


@pytest.mark.parametrize("workers", [2, 5, 7])
def test_groups_move_to_a_cube_that_does_not_use_all_workers(workers: int, tmp_path: Path) -> None:
    s = weft.Session(tmp_path, workers=2, progress=False)
    for name, wanted in COLUMNS.items():
        s.stream(name, weft.read.batches([pa.table({column: pa.array([], pa.int64()) for column in wanted})]))
    s.query("q", "SELECT a.k AS k, count(*) AS n FROM a JOIN b ON a.k = b.k GROUP BY a.k")
    s.options(strategy="flat")
    trial = Trial(s, state=tmp_path)
    a = pa.table({"k": [0, 1, 2], "g": [0, 0, 0]})
    b = pa.table({"k": [0, 1, 2], "m": [0, 0, 0], "y": [0, 0, 0]})
    trial.feed({"a": a, "b": b})
    s.options(strategy="hypercube:hash", workers=workers)
    trial.change()
    trial.feed({"a": a})
    assert rows_of(trial.table("q")) == Counter({(0, 2): 1, (1, 2): 1, (2, 2): 1})
