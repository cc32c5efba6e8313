"""The measurement of aggregates: what each system writes is read as the same answer, and goals are judged fairly."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench import peersetup, viewloads, views
from bench.peerloads import Load
from bench.peerrun import RIGHT, Row
from bench.peersystems.job import Job, needed_columns, read
from bench.streams import cache_streams
from bench.viewloads import ONE, Q3, Q9, REACH, REACH_COUNTED, TASK_COUNT

JOINS = {"reach": REACH, "q3": Q3, "q9": Q9, "tasks": TASK_COUNT, "groups": ONE}


@pytest.mark.parametrize("name", JOINS)
def test_aggregate_survives_its_way_through_json(name: str) -> None:
    job = Job("w", "weft", JOINS[name], {"r": {"x": "bigint"}}, 10, 2, "in", "out", 2)
    assert read(job.text) == job


def test_aggregate_is_grouped_by_what_it_selects() -> None:
    assert ONE.sql() == ("SELECT e_key, COUNT(*) AS events, SUM(e_value) AS total\nFROM event\nGROUP BY e_key")
    assert ONE.rows.sql() == "SELECT e_key, e_value\nFROM event"
    assert Q9.terms == ("l_extendedprice", "l_discount", "ps_supplycost", "l_quantity")
    assert needed_columns(ONE, {"event": dict.fromkeys(("e_key", "e_value", "e_no"), "bigint")}) == {
        "event": ("e_key", "e_value")
    }


def test_counted_paths_are_the_paths(tmp_path: Path) -> None:
    tables = viewloads.arcs(np.random.default_rng(1), 300, 40)
    with duckdb.connect() as duck:
        for name, table in tables.items():
            duck.register(name, table)
        one, other = (sorted(duck.sql(text).fetchall()) for text in (REACH.sql(), REACH_COUNTED))
    assert one == other
    assert sum(paths for _, paths in one) > 1_000


def test_web_has_pages_with_many_arcs() -> None:
    made = viewloads.arcs(np.random.default_rng(1), 100_000, 20_000)["arcs1"]
    for end in ("from1", "to1"):
        counts = np.bincount(made[end].to_numpy())
        assert counts.max() > 50 * counts.mean()


# ------------------------------------------------------------------------------------------ what is written


def tiny(folder: Path) -> Load:
    """Twenty rows of one stream in five groups."""
    made = {"event": pa.table({"e_key": [i % 5 for i in range(20)], "e_value": list(range(20))})}
    return Load("tiny", ONE, cache_streams(folder / "tiny", lambda: made, 2), 2, {"event": 20})


def answer(load: Load, half: bool = False) -> pa.Table:
    """The answer, or that after the first batch."""
    with duckdb.connect() as duck:
        duck.execute(f"CREATE VIEW event AS FROM read_parquet('{load.folder}/event/000{0 if half else '*'}.parquet')")
        found = duck.sql(load.join.sql()).to_arrow_table()
    return found.cast(pa.schema([(name, pa.int64()) for name in found.column_names]))


def write(folder: Path, name: str, table: pa.Table) -> None:
    folder.mkdir(exist_ok=True)
    pq.write_table(table, folder / name)


def test_changed_groups_of_batches_are_read_as_their_last(tmp_path: Path) -> None:
    load = tiny(tmp_path)
    for batch, half in enumerate((True, False)):
        changed = answer(load, half)
        marked = changed.append_column("#batch", pa.array([batch] * len(changed)))
        write(tmp_path / "spark", f"{batch}.parquet", marked)
        said = pa.array(["update" if batch else "insert"] * len(changed))
        write(tmp_path / "weft", f"{batch}.parquet", marked.append_column("#op", said))
    assert load.answer(tmp_path / "weft") == load.answer(tmp_path / "spark") == load.truth()
    (tmp_path / "weft" / "1.parquet").unlink()
    assert load.answer(tmp_path / "weft") != load.truth()


def test_rows_that_come_and_go_are_added_up(tmp_path: Path) -> None:
    load = tiny(tmp_path)
    first, last = (answer(load, half).to_pylist() for half in (True, False))
    log = [{"before": None, "after": row, "op": "c"} for row in first]
    log += [{"before": row, "after": None, "op": "d"} for row in first]
    log += [{"before": None, "after": row, "op": "c"} for row in last]
    (tmp_path / "flink").mkdir()
    (tmp_path / "flink" / "part-0").write_text("\n".join(map(json.dumps, log)))
    rows = [(row, time, sign) for old, time, sign in ((first, 1, 1), (first, 2, -1), (last, 2, 1)) for row in old]
    lines = ["e_key,events,total,time,diff", *(",".join(map(str, (*r.values(), t, d))) for r, t, d in rows)]
    (tmp_path / "pathway").mkdir()
    (tmp_path / "pathway" / "all.csv").write_text("\n".join(lines))
    assert load.answer(tmp_path / "flink") == load.answer(tmp_path / "pathway") == load.truth()


def test_rows_of_the_join_are_put_into_groups(tmp_path: Path) -> None:
    load = tiny(tmp_path)
    with duckdb.connect() as duck:
        write(tmp_path / "rows", "0.parquet", duck.sql(f"FROM '{load.folder}/event/*.parquet'").to_arrow_table())
    write(tmp_path / "duckdb", "0.parquet", answer(load))
    assert load.answer(tmp_path / "rows") == load.answer(tmp_path / "duckdb") == load.truth()


# --------------------------------------------------------------------------------------------------- goals


def test_goals_are_judged_by_seconds_and_by_the_rate_so_far() -> None:
    rows = [
        Row("q3", "weft", RIGHT, 1_000, seconds=2.0, speed=500.0),
        Row("q3", "flink", RIGHT, 1_000, seconds=30.0, speed=33.3),
        Row("q3", "spark", "over 9 s, 100 rows done", 1_000, speed=50.0),
        Row("q3", "pathway", "failed: no", 1_000),
        Row("q3", "duckdb", RIGHT, 1_000, seconds=0.25, speed=4_000.0),
    ]
    said = "\n".join(views.goals(rows))
    assert "times as fast as flink" in said
    assert "15.00   goal at least 10    holds" in said
    assert "spark, which was ended: by its rate so far" in said
    assert "10.00   goal at least 1     holds" in said
    assert "pathway" not in said
    assert "8.00   goal at most 4      MISSED" in said


def test_a_goal_without_an_answer_is_missed() -> None:
    said = "\n".join(views.goals([Row("reach/1", "weft", "over 150 s, 750 rows done", 3_000, speed=5.0)]))
    assert "reach/1: an answer: over 150 s, 750 rows done" in said
    assert "MISSED" in said


@pytest.mark.spark
def test_ways_of_weft_and_duckdb_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    systems = ["weft", "weft-rows"]
    systems += [n for n in ("duckdb",) if isinstance(peersetup.ready(peersetup.SYSTEMS[n], here=True), Path)]
    monkeypatch.setattr(views, "LOADS", {"tiny": lambda _: tiny(tmp_path)})
    views.main(["--workloads", "tiny", "--here", "--systems", ",".join(systems), "--out", str(tmp_path / "out")])
    numbers = json.loads((tmp_path / "out" / "views-1.json").read_text())
    assert {row["system"]: row["verdict"] for row in numbers["rows"]} == dict.fromkeys(systems, RIGHT)
