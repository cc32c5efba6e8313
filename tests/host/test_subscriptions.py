"""Subscriptions: what one DuckDB statement says, whatever comes and goes."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pyarrow as pa
import pytest

import weft
from tests.subscribing import FEED, NAME, Case, changes, declare, draw, expected
from weft.errors import HostError
from weft.query.parameters import REMOVED
from weft.testing import Trial, assert_same_rows, crash_at, crash_points, no_crash


def run(case: Case, checkpoint: Path, workers: int, strategy: str = "auto") -> Trial:
    trial = Trial(declare(case, checkpoint, workers, strategy))
    for number, batch in enumerate(case.batches):
        trial.feed({**batch, FEED: changes(case, number)})
    return trial


@pytest.mark.parametrize("seed", range(40))
def test_random_subscriptions(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    case = draw(rng)
    strategy = rng.choice(["auto", "narrow", "join", "naive"])
    trial = run(case, tmp_path, rng.choice([1, 2, 3]), strategy)
    assert_same_rows(trial.table(NAME), expected(case))


@pytest.mark.parametrize("streams", [5, 6])
def test_joins_of_many_streams(streams: int, tmp_path: Path) -> None:
    rng = random.Random(streams)
    cases = (draw(rng, batches=3, rows=5, streams=streams) for _ in range(100))
    case = next(case for case in cases if expected(case).num_rows)
    assert_same_rows(run(case, tmp_path, 2).table(NAME), expected(case))


@pytest.mark.parametrize("seed", range(12))
def test_subscriptions_move_with_the_workers(seed: int, tmp_path: Path) -> None:
    rng = random.Random(1000 + seed)
    case = draw(rng, batches=6)
    session = declare(case, tmp_path, rng.choice([1, 2, 3]))
    trial = Trial(session, state=tmp_path)
    for number, batch in enumerate(case.batches):
        trial.feed({**batch, FEED: changes(case, number)})
        if rng.random() < 0.5:
            session.rescale(rng.choice([1, 2, 3]))
            trial.change()
    assert_same_rows(trial.table(NAME), expected(case))


@pytest.mark.parametrize("seed", range(6))
def test_a_crash_changes_nothing(seed: int, tmp_path: Path) -> None:
    rng = random.Random(2000 + seed)
    case = draw(rng)
    session = declare(case, tmp_path, 2)
    trial = Trial(session, state=tmp_path)
    for number, batch in enumerate(case.batches):
        rows = {**batch, FEED: changes(case, number)}
        crash_at(session, rng.choice(crash_points(session)), number)
        with contextlib.suppress(HostError):
            trial.feed(rows)
        no_crash(session)
        if trial.manifest.batch < number:
            trial.feed(rows)
    assert_same_rows(trial.table(NAME), expected(case))


def test_many_changes_are_merged_and_ended_ones_forgotten(tmp_path: Path) -> None:
    schema = pa.schema([("who", pa.int64()), ("least", pa.int64())])
    session = weft.Session(checkpoint=tmp_path, workers=2)
    session.stream("t", weft.read.batches([pa.table({"x": pa.array([], pa.int64())})]))
    session.subscriptions("a", "SELECT t.x FROM t WHERE t.x >= :least", parameters=schema.empty_table(), key="who")
    trial = Trial(session)
    for number in range(40):
        added = pa.table({"who": [number], "least": [0], REMOVED: [False]})
        ended = pa.table({"who": [number - 3], "least": pa.array([None], pa.int64()), REMOVED: [True]})
        trial.feed({"a-subscriptions": pa.concat_tables([added, ended]), "t": pa.table({"x": [number]})})
    found = trial.table("a").to_pylist()
    wanted = sorted((who, x) for x in range(40) for who in range(max(0, x - 2), x + 1))
    assert sorted((row["who"], row["x"]) for row in found) == wanted
    held = sum(ref.rows for ref in trial.segments if "subscriptions" in ref.store and ref.worker == 0)
    assert held <= 40, "removed subscriptions and their removals must go when segments are merged"


def test_golden_example(tmp_path: Path) -> None:
    """G-P1: step one leaves q2 and q3; of two stored partners one is for q3, the other for nobody."""
    b = [(0, 5), (6, 8), (7, 7), (8, 9), (0, 6), (10, 20)]
    c = [(0, 10), (0, 10), (20, 40), (20, 30), (50, 60), (60, 70)]
    given = pa.table({"q": [f"q{i}" for i in range(1, 7)], "b1": [x for x, _ in b], "b2": [x for _, x in b],
                      "c1": [x for x, _ in c], "c2": [x for _, x in c]})  # fmt: skip
    session = weft.Session(checkpoint=tmp_path, workers=1)
    whole = pa.array([], pa.int64())
    session.stream("s1", weft.read.batches([pa.table({"k": whole, "b": whole})]))
    session.stream("s2", weft.read.batches([pa.table({"k": whole, "c": whole})]))
    sql = "SELECT s1.b, s2.c FROM s1 JOIN s2 ON s1.k = s2.k WHERE s1.b BETWEEN :b1 AND :b2 AND s2.c BETWEEN :c1 AND :c2"
    session.subscriptions("a", sql, parameters=given.slice(0, 0), key="q")
    trial = Trial(session)
    marked = given.append_column(REMOVED, pa.array([False] * 6))
    trial.feed({"a-subscriptions": marked, "s2": pa.table({"k": [1, 1], "c": [25, 55]})})
    trial.feed({"s1": pa.table({"k": [1], "b": [7]})})
    assert trial.table("a").to_pylist() == [{"q": "q3", "b": 7, "c": 25}]
    nobody = trial.feed({"s1": pa.table({"k": [1], "b": [30]})})
    assert not any(nobody.probed.values()), "a row that no subscription can want looks for no partners"
