"""The testing kit itself: the oracle on cases worked out by hand, lateness, comparison of tables, crash points."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

import weft
from weft.testing import (
    Trial,
    assert_same_rows,
    crash_at,
    crash_points,
    difference,
    expected_after_lateness,
    no_crash,
    oracle,
    oracle_sql,
    survivors,
)

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("f", pa.float64())])


def rows(*values: tuple[int | None, int | None, float | None]) -> pa.Table:
    return pa.Table.from_pylist([{"k": k, "t": t, "f": f} for k, t, f in values], SCHEMA)


def session(sql: str, workers: int = 1, lateness: float = 0) -> weft.Session:
    s = weft.Session("unused", workers=workers)
    for name in ("a", "b"):
        s.stream(name, weft.read.batches([SCHEMA.empty_table()]), event_time="t", lateness=lateness)
    s.query("q", sql)
    return s


WINDOWED = "SELECT a.t AS x, b.t AS y FROM a, b WHERE a.k = b.k WITHIN INTERVAL '10' SECOND"


def query(sql: str, lateness: float = 0) -> weft.Query:
    return session(sql, lateness=lateness).queries["q"].query


def pairs(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


def test_the_oracle_applies_the_strict_window() -> None:
    tables = {"a": rows((1, 0, None), (1, 1, None)), "b": rows((1, 10, None), (2, 0, None))}
    assert pairs(oracle(query(WINDOWED), tables)) == [(1, 10)]


def test_the_oracle_uses_each_alias_own_window() -> None:
    sql = "SELECT a.t AS x, b.t AS y FROM a WITHIN INTERVAL '5' SECOND, b WITHIN INTERVAL '2' SECOND WHERE a.k = b.k"
    tables = {"a": rows((1, 0, None), (1, 10, None)), "b": rows((1, 4, None), (1, 9, None), (1, 8, None))}
    assert pairs(oracle(query(sql), tables)) == [(0, 4), (10, 9)]


@pytest.mark.parametrize("predicate", ["a.f = b.f", "a.f <> b.f", "NOT (a.f = b.f)", "a.f <= b.f", "NOT (a.f < b.f)"])
def test_null_and_nan_match_nothing(predicate: str) -> None:
    tables = {"a": rows((1, 0, float("nan")), (1, 0, None)), "b": rows((1, 0, float("nan")), (1, 0, None), (1, 0, 1.0))}
    assert oracle(query(f"SELECT a.k FROM a, b WHERE {predicate}"), tables).num_rows == 0


def test_the_oracle_calls_python_functions() -> None:
    s = weft.Session("unused", workers=1)
    s.stream("a", weft.read.batches([SCHEMA.empty_table()]))
    s.function(
        "plus",
        lambda x, y: pa.array([(u.as_py() or 0) + (v.as_py() or 0) for u, v in zip(x, y, strict=True)], pa.int64()),
        pa.int64(),
    )
    made = s.query("q", "SELECT x.k AS k, plus(x.k, y.t) AS p FROM a x, a y WHERE plus(x.k, y.k) = 3").query
    found = oracle(made, {"a": rows((1, 5, None), (2, 6, None), (None, 7, None), (3, 8, None))}, s.functions)
    assert pairs(found.select(["k"]).filter(pa.compute.is_valid(found["k"]))) == [(1,), (2,), (3,)]
    assert found.num_rows == 4


def test_the_oracle_can_be_read() -> None:
    text = oracle_sql(query(WINDOWED))
    assert 'greatest(a."#t", b."#t") - a."#t" < 10000000' in text


def test_survivors_are_those_above_the_watermark_when_their_batch_begins() -> None:
    made = query(WINDOWED, lateness=2)
    batches = [
        {"a": rows((1, 8, None))},  # no watermark until both streams have shown a row
        {"a": rows((1, 20, None), (1, 0, None)), "b": rows((1, 20, None))},  # nothing is late inside the batch
        {"a": rows((1, 18, None), (1, 17, None)), "b": rows((1, None, None), (1, 30, None))},  # watermark 18
        {"b": rows((1, 17, None), (1, 18, None))},  # still 18: a has not moved
    ]
    kept = survivors(made, batches)
    assert kept["a"]["t"].to_pylist() == [8, 20, 0, 18]
    assert kept["b"]["t"].to_pylist() == [20, 30, 18]


def test_nothing_is_late_where_nothing_expires() -> None:
    made = query("SELECT a.t AS x, b.t AS y FROM a, b WHERE a.k = b.k")
    batches = [{"a": rows((1, 50, None)), "b": rows((1, 50, None))}, {"a": rows((1, 0, None), (1, None, None))}]
    assert survivors(made, batches)["a"].num_rows == 3
    assert expected_after_lateness(made, batches).num_rows == 3


def test_late_and_untimed_rows_are_counted() -> None:
    trial = Trial(session(WINDOWED, workers=2))
    trial.feed({"a": rows((1, 50, None)), "b": rows((1, 50, None))})
    trial.feed({"a": rows((1, 1, None), (2, 2, None), (1, None, None), (1, 50, None))})
    assert trial.late == {"a": 2}
    assert trial.untimed == {"a": 1}
    assert pairs(trial.table("q")) == [(50, 50)] * 2


def test_a_row_without_time_is_counted_once_however_many_aliases_refuse_it() -> None:
    trial = Trial(
        session("SELECT x.t AS x FROM a x, a y WHERE x.k = y.k AND x.k > 0 AND y.f < 5 WITHIN INTERVAL '10' SECOND")
    )
    trial.feed({"a": rows((1, None, 1.0), (1, 5, 1.0))})
    assert trial.untimed == {"a": 1}


def test_state_can_be_inspected() -> None:
    trial = Trial(session(WINDOWED))
    trial.feed({"a": rows((1, 5, None), (2, 6, None)), "b": rows((1, 5, None))})
    assert sorted(trial.state_rows.values()) == [1, 2]
    assert all(size > 0 for size in trial.state_bytes.values())
    assert len(trial.segments) == 2
    trial.feed({"a": rows((1, 100, None)), "b": rows((1, 100, None))})
    assert sorted(trial.state_rows.values()) == [1, 1], "expired segments are gone"


def test_tables_are_compared_as_multisets() -> None:
    one = pa.table({"x": pa.array([1.0, float("nan"), None, 1.0]), "s": ["a", "b", None, "a"]})
    assert_same_rows(one, one.take([3, 2, 1, 0]))
    assert not difference(one, one.slice(0, 3)).empty
    with pytest.raises(AssertionError, match=r"4 rows instead of 3, 0 missing, 1 extra"):
        assert_same_rows(one, one.slice(0, 3))
    with pytest.raises(AssertionError, match="1 missing"):
        assert_same_rows(one.slice(1), one)
    with pytest.raises(AssertionError, match="columns differ"):
        assert_same_rows(one, one.rename_columns(["x", "y"]))
    with pytest.raises(AssertionError, match=r"-0\.0"):
        assert_same_rows(pa.table({"x": [0.0]}), pa.table({"x": [-0.0]}))


def test_every_crash_point_in_process_leaves_the_answer_as_it_is() -> None:
    sql = """SELECT a.t AS x, b.t AS y FROM a, b, a c
             WHERE a.k = b.k AND b.f <= c.f AND b.t = c.k WITHIN INTERVAL '10' SECOND"""
    batches = [
        {"a": rows((1, 1, 0.5), (1, 2, 1.5), (2, 2, 1.0)), "b": rows((1, 1, 0.5))},
        {"a": rows((2, 3, 9.0)), "b": rows((2, 2, 1.0), (1, 1, 0.0))},
        {"b": rows((2, 3, 1.0), (1, 2, 0.0))},
    ]
    wanted = expected_after_lateness(query(sql, lateness=100), batches)
    assert wanted.num_rows > 3
    points = crash_points(session(sql, workers=3))
    assert len(points) >= 6
    for point in points:
        s = session(sql, workers=3, lateness=100)
        trial = Trial(s)
        trial.feed(batches[0])
        crash_at(s, point, 1)
        with pytest.raises(weft.HostError, match="crash point reached"):
            trial.feed(batches[1])
        no_crash(s)
        if trial.manifest.batch == 0:
            trial.feed(batches[1])
        trial.feed(batches[2])
        assert_same_rows(trial.table("q"), wanted, f"{point}: ")


def test_unknown_crash_points_are_refused() -> None:
    with pytest.raises(weft.HostError, match="no crash point"):
        crash_at(session(WINDOWED), "lunch", 0)
    with pytest.raises(weft.HostError, match="mark"):
        crash_at(session(WINDOWED), "wave 1 before", 0, "hang")


def test_the_kit_needs_neither_spark_nor_duckdb_to_be_imported() -> None:
    code = "import sys, weft.testing; sys.exit(any(m in sys.modules for m in ('pyspark', 'duckdb')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_late_rows_are_counted_whatever_the_selections_are() -> None:
    sql = "SELECT x.t AS x, y.t AS y FROM a x, a y WHERE x.k > 0 AND y.k <= 0 AND x.f = y.f WITHIN INTERVAL '5' SECOND"
    trial = Trial(session(sql))
    trial.feed({"a": rows((1, 100, 1.0), (0, 100, 1.0))})
    trial.feed({"a": rows((0, 1, 1.0), (0, 2, 1.0), (1, 3, 1.0))})
    assert trial.late == {"a": 3}


def test_a_late_row_is_counted_once_however_many_queries_refuse_it() -> None:
    s = session(WINDOWED)
    s.stream("c", weft.read.batches([SCHEMA.empty_table()]), event_time="t")
    s.query("other", "SELECT a.t AS x FROM a, c WHERE a.k = c.k WITHIN INTERVAL '10' SECOND")
    trial = Trial(s)
    trial.feed({name: rows((1, 100, None)) for name in "abc"})
    trial.feed({"a": rows((1, 1, None))})
    assert trial.late == {"a": 1}
