"""Whom tuples are for: shares from samples, against a nested loop in DuckDB."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import weft
from weft.host.sources.parameters import ParameterSource
from weft.query.model import Stream
from weft.query.parameters import REMOVED
from weft.stats.subscribed import left_text, wanted_text


def rows(seed: int, count: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    x = pa.array(rng.integers(0, 100, count), mask=rng.random(count) < 0.1)
    return pa.table({"id": np.arange(count), "k": np.arange(count) % 50, "x": x})


def test_shares_are_those_of_a_nested_loop(tmp_path: Path) -> None:
    tables = {"t": rows(1, 400), "w": rows(2, 400)}
    rng = np.random.default_rng(3)
    low = pa.array(rng.integers(0, 30, 60), mask=rng.random(60) < 0.05)
    given = pa.table(
        {"who": np.arange(60), "low": low, "most": rng.integers(10, 40, 60), "y": rng.integers(0, 100, 60)}
    )
    session = weft.Session(checkpoint=tmp_path, workers=2)
    for name, table in tables.items():
        session.stream(name, weft.read.batches([table]))
    sql = "SELECT t.id FROM t JOIN w ON t.k = w.k WHERE t.x BETWEEN :low AND :most AND w.x = :y"
    session.subscriptions("a", sql, parameters=given, key="who")
    (choice,) = session.choices
    known = choice.known.statistics
    assert known is not None
    assert known.rows("a-subscriptions") == 60
    with duckdb.connect() as duck:
        duck.register("s", given)
        for name, table in tables.items():
            duck.register(name, table)
            inside = "(low IS NULL OR x >= low) AND x <= most" if name == "t" else "x = y"
            loop = f"SELECT count(*) FILTER ({inside}) AS found FROM {name}, s GROUP BY {name}.id"
            wanted, left = duck.sql(f"SELECT avg((found > 0)::INT), avg(found) / 60 FROM ({loop})").fetchall()[0]
            assert known.predicate(wanted_text(choice.query, [name])) == pytest.approx(wanted, abs=0.15)
            assert known.predicate(left_text(choice.query, [name])) == pytest.approx(left, abs=0.1)
    both = known.predicate(wanted_text(choice.query, ["t", "w"]))
    assert both is not None
    assert both <= known.predicate(wanted_text(choice.query, ["t"]))  # type: ignore[operator]


def test_a_sample_has_subscriptions_of_the_source_and_those_added_by_hand(tmp_path: Path) -> None:
    given = weft.read.batches([pa.table({"who": [1, 2, 3, 4], "op": ["insert", "delete", None, "u"]})])
    source = ParameterSource(given, str(tmp_path / "changes"), "op")
    stream = Stream("a-subscriptions", source.schema)
    before = source.sample(stream, ["who", REMOVED], 100, 0)
    assert before is not None
    assert before.rows.column("who").to_pylist() == [1, 3, 4]
    source.inbox.put(pa.table({"who": [5, 6], REMOVED: [False, True]}))
    after = source.sample(stream, ["who", REMOVED], 100, 0)
    assert after is not None
    assert sorted(after.rows.column("who").to_pylist()) == [1, 3, 4, 5]
    assert after.total == 4
