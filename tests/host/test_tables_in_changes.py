"""Queries that come while others run, over tables that have changed: old rows meet the table as it is now."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import weft
from weft.host.groups.fold import weighted
from weft.query.model import WEIGHT
from weft.testing import Trial

STREAM = pa.schema([("k", pa.int64()), ("x", pa.int64())])
RATES = pa.schema([("k", pa.int64()), ("v", pa.int64())])
COUNTED = pa.schema([*RATES, ("op", pa.string())])


def rows(schema: pa.Schema, *values: tuple[object, ...]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in values], schema)


S = rows(STREAM, (1, 10), (2, 20), (3, 30))
OTHERS = [(key, key) for key in range(10, 40)]
"""Rows that stay, so that what comes later is not merged with them at once."""
PRESENT = rows(RATES, (1, 5), (2, 8), (3, 9), *OTHERS)
"""What the table holds in the end."""
FEEDS = {
    "keyed": [rows(RATES, (1, 7), (2, 8), *OTHERS), rows(RATES, (1, 6), (1, 5), (3, 9))],
    "counted": [
        rows(COUNTED, (1, 7, "insert"), (2, 8, "insert"), *((*row, "insert") for row in OTHERS)),
        rows(COUNTED, (1, 7, "delete"), (1, 5, "insert"), (3, 9, "insert")),
    ],
}
TEXTS = {
    "inner": "SELECT s.x, r.v FROM s JOIN rates r ON r.k = s.k",
    "grouped": "SELECT MAX(r.v) AS hi, MIN(r.v) AS lo, COUNT(*) AS n FROM s JOIN rates r ON r.k = s.k GROUP BY s.k",
    "twice": "SELECT s.x, p.v, q.v AS w FROM s JOIN rates p ON p.k = s.k JOIN rates q ON q.k = p.k",
    "sums": "SELECT s.x, d.y FROM s JOIN (SELECT k, MAX(v) AS y FROM rates GROUP BY k) d ON d.k = s.k",
    "distinct": "SELECT d.x, r.v FROM (SELECT DISTINCT k, x FROM s) d JOIN rates r ON r.k = d.k",
    "tables": "SELECT p.v, q.v AS w FROM rates p JOIN rates q ON p.k = q.k",
}


def session(at: Path, kind: str) -> weft.Session:
    s = weft.Session(at, workers=2, progress=False)
    for name in ("s", "u"):
        s.stream(name, weft.read.batches([STREAM.empty_table()]))
    if kind == "keyed":
        s.table("rates", weft.read.batches([RATES.empty_table()]), key="k")
    else:
        s.table("rates", weft.read.batches([COUNTED.empty_table()]), changes="op")
    s.query("first", "SELECT s.k, s.x, u.x AS y FROM s JOIN u ON s.k = u.k")
    s.query("second", "SELECT u.x, r.k, r.v FROM u JOIN rates r ON r.k = u.k")
    return s


def wanted(text: str) -> list[tuple[object, ...]]:
    with duckdb.connect(config={"threads": 1}) as con:
        con.register("s", S)
        con.register("rates", PRESENT)
        return sorted(con.sql(text).fetchall(), key=str)


@pytest.mark.parametrize("kind", FEEDS)
def test_old_rows_meet_the_table_as_it_is(kind: str, tmp_path: Path) -> None:
    s = session(tmp_path, kind)
    trial = Trial(s, state=tmp_path)
    for number, fed in enumerate(FEEDS[kind]):
        trial.feed({"s": S.slice(number, 1 + number), "u": rows(STREAM, (1, number)), "rates": fed})
    for name, text in TEXTS.items():
        s.query(name, text, backfill=True)
    trial.change()
    for name, text in TEXTS.items():
        found = trial.table(name).to_pylist()
        assert sorted((tuple(row.values()) for row in found), key=str) == wanted(text), name
        if name != "tables":
            given = [weight for part in trial.running.results[name] for weight in weighted(part)[WEIGHT].to_pylist()]
            assert min(given) > 0, f"{name} takes results back"


def test_rows_that_find_nothing_are_not_given_for_old_rows(tmp_path: Path) -> None:
    left = "SELECT s.x, r.v FROM s LEFT JOIN rates r ON r.k = s.k AND r.v > 6"
    s = session(tmp_path, "keyed")
    s.query("left", left, backfill=True)  # there are no old rows
    trial = Trial(s, state=tmp_path)
    trial.feed({"s": S, "rates": FEEDS["keyed"][0]})
    assert sorted(trial.table("left").column("x").to_pylist()) == [10, 20, 30]
    with pytest.raises(weft.QueryError, match='"later" cannot begin with old rows'):
        s.query("later", left, backfill=True)
    s.query("later", left)
    trial.change()
    again = session(tmp_path, "keyed")
    for name in ("left", "later"):
        again.query(name, left, backfill=True)  # the checkpoint has them


@pytest.mark.parametrize("kind", FEEDS)
def test_rows_that_come_while_a_change_is_prepared_meet_the_table_as_it_is(kind: str, tmp_path: Path) -> None:
    s = session(tmp_path, kind)
    trial = Trial(s, state=tmp_path)
    first, then = FEEDS[kind]
    trial.feed({"u": rows(STREAM, (1, 0)), "rates": first})
    for name in ("inner", "grouped"):
        s.query(name, TEXTS[name], backfill=True)
    prepared = trial.running.prepare(s.work().change)
    assert prepared.can_catch_up
    trial.feed({"s": S, "rates": then})
    trial.change()
    for name in ("inner", "grouped"):
        found = trial.table(name).to_pylist()
        assert sorted((tuple(row.values()) for row in found), key=str) == wanted(TEXTS[name]), name
