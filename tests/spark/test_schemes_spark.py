"""One join under seven schemes on Spark, in one session that crashes and is started again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import weft
from tests.spark._kit import answer, drop, oracle
from weft.testing import crash_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.crash]

SQL = "SELECT r.n AS r, s.n AS s, t.n AS t FROM R r, S s, T t WHERE r.a = s.a AND s.b = t.b"
SCHEMES: dict[str, str | weft.Plan] = {
    "hashed": "hypercube:hash",
    "dealt": "hypercube:random",
    "hybrid": "hypercube:hybrid",
    "flat": "flat",
    "views": "views",
    "views_in_cube": "hypercube:hybrid+views",
    "kept": weft.Plan(
        [("s", "t")],
        spread={
            "r": [(2, "r.a"), (2, "copy")],
            "s": [(2, "s.a"), (2, "s.b")],
            "t": [(2, "copy"), (2, "t.b")],
        },
    ),
}
WORKERS, BATCHES = 4, 5


def make_input(root: Path) -> dict[str, pa.Table]:
    """Zipf keys, some of them NULL; one file a batch."""
    rng, rows = np.random.default_rng(5), 300
    law = 1 / np.arange(1, 61) ** 1.5

    def keys(even: bool) -> pa.Array:
        found = rng.integers(0, 60, rows) if even else rng.choice(60, rows, p=law / law.sum())
        return pa.array(found, mask=rng.random(rows) < 0.03)

    tables = {
        "R": pa.table({"n": np.arange(rows), "a": keys(even=False)}),
        "S": pa.table({"n": np.arange(rows), "a": keys(even=True), "b": keys(even=True)}),
        "T": pa.table({"n": np.arange(rows), "b": keys(even=False)}),
    }
    for name, table in tables.items():
        for batch in range(BATCHES):
            drop(root / "in" / name, f"{batch:04d}.parquet", table.slice(batch * 60, 60))
    return tables


def make_session(root: Path, spark: SparkSession) -> weft.Session:
    s = weft.Session(root / "checkpoint", workers=WORKERS, spark=spark, progress=False)
    for name in "RST":
        s.stream(name, weft.read.parquet(root / "in" / name, max_files=1))
    for name, strategy in SCHEMES.items():
        s.query(name, SQL, strategy=strategy).to_parquet(root / "out" / name)
    return s


def test_seven_schemes_survive_two_crashes_and_give_the_same_rows(tmp_path: Path, spark: SparkSession) -> None:
    tables = make_input(tmp_path)
    first = make_session(tmp_path, spark)
    first.analyze()
    plan = first.topology
    chosen = {choice.name: choice.chosen.layout.spread for choice in first.choices}
    assert [name for name, spread in chosen.items() if spread] == ["dealt", "hashed", "hybrid", "kept", "views_in_cube"]
    assert {choice.name for choice in first.choices if len(choice.chosen.layout.kept) == 2} == {
        "views",
        "views_in_cube",
    }
    assert any(axis.heavy for spread in chosen["hybrid"].values() for axis in spread.axes)
    crash_at(first, "segment write", 1)
    with first, pytest.raises(weft.HostError, match="crash point reached"):
        first.run()
    second = make_session(tmp_path, spark)
    crash_at(second, "commit after", 3)
    assert second.topology == plan
    with second, pytest.raises(weft.HostError, match="crash point reached"):
        second.run()
    with make_session(tmp_path, spark) as last:
        report = last.run()
    wanted = oracle(SQL, **tables)
    assert wanted.total() > 1000
    for name in SCHEMES:
        assert answer(tmp_path / "out" / name) == wanted, name
        assert sum(pq.read_metadata(f).num_rows for f in (tmp_path / "out" / name).glob("*.parquet")) == wanted.total()
    assert set(report.counters.load) <= {str(worker) for worker in range(WORKERS)}
