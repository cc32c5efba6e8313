"""Streams that change, on Spark: from files, through crashes and restarts, into every kind of sink."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import weft
from tests.spark._kit import Answer, answer, oracle
from weft.host.crash import CrashPoint

pytestmark = pytest.mark.spark

ORDERS = pa.schema([("o", pa.int64()), ("c", pa.int64()), ("price", pa.int64()), ("op", pa.string())])
CUSTOMERS = pa.schema([("c", pa.int64()), ("name", pa.string())])
JOINED = "SELECT o.o, o.price, c.name FROM o JOIN c ON o.c = c.c"
GROUPED = "SELECT c.name, COUNT(*) AS n, MIN(o.price) AS least, SUM(o.price) AS total FROM o JOIN c ON o.c = c.c GROUP BY c.name"  # noqa: E501
PRESENT = """
WITH o AS (
  SELECT o, c, price FROM (
    SELECT o, c, price, sum(CASE op WHEN 'insert' THEN 1 ELSE -1 END) AS n FROM orders GROUP BY ALL
  ), LATERAL (SELECT unnest(range(CAST(n AS BIGINT))))
), c AS (
  SELECT c, name FROM (SELECT *, row_number() OVER (PARTITION BY c ORDER BY place DESC) AS r FROM customers)
  WHERE r = 1 AND name IS NOT NULL
)
"""


def session(root: Path) -> weft.Session:
    made = weft.Session(root / "state", workers=2, progress=False)
    made.options(statistics=weft.Statistics())
    made.stream("o", weft.read.parquet(root / "o", max_files=1), changes="op")
    made.stream("c", weft.read.parquet(root / "c", max_files=1), key="c")
    made.query("joined", JOINED).to_parquet(root / "changes").to_parquet(root / "now", mode="snapshot").to_memory()
    made.query("grouped", GROUPED).to_parquet(root / "groups", mode="snapshot")
    return made


def fill(root: Path, files: int) -> dict[str, pa.Table]:
    """Files with several row groups each: the order of upserts goes on from one to the next."""
    dice, here = random.Random(11), list[dict[str, Any]]()
    given: dict[str, list[pa.Table]] = {"o": [], "c": []}
    for number in range(files):
        new = [{"o": dice.randrange(40), "c": dice.randrange(6), "price": dice.randrange(9)} for _ in range(30)]
        dice.shuffle(here)
        gone, here = here[: len(here) // 3], [*here[len(here) // 3 :], *new]
        rows = [row | {"op": "insert"} for row in new] + [row | {"op": "delete"} for row in gone]
        names = [{"c": dice.randrange(7), "name": dice.choice(["ann", "bob", "eve", None])} for _ in range(12)]
        for name, found, schema in (("o", rows, ORDERS), ("c", names, CUSTOMERS)):
            table = pa.Table.from_pylist(found, schema)
            given[name].append(table)
            (root / name).mkdir(parents=True, exist_ok=True)
            pq.write_table(table, root / name / f"{number}.parquet", row_group_size=5)
    customers = pa.concat_tables(given["c"])
    places = pa.array(range(customers.num_rows), pa.int64())
    return {"orders": pa.concat_tables(given["o"]), "customers": customers.append_column("place", places)}


def replay(changes: Path) -> Answer:
    """What is left of a folder of changes."""
    left: Answer = Counter()
    for row in pq.read_table(changes).to_pylist():
        left[tuple(list(row.values())[:-2])] += 1 if row["#op"] == "insert" else -1
    return +left


def test_what_is_left_after_crashes_is_what_duckdb_says(tmp_path: Path) -> None:
    inputs = fill(tmp_path, 6)
    for batch, point in enumerate(("wave 2 after", "segment write", "commit after", "publish"), start=1):
        dying = session(tmp_path)
        dying.crash_point = CrashPoint(point, batch)
        with pytest.raises(weft.HostError, match="crash point reached"):
            dying.run()
    last = session(tmp_path)
    last.run()
    joined = oracle(PRESENT + JOINED, **inputs)
    assert joined.total() > 20
    assert replay(tmp_path / "changes") == joined
    assert answer(tmp_path / "now") == joined
    assert answer(last.queries["joined"].table()) == joined
    assert answer(tmp_path / "groups") == oracle(PRESENT + GROUPED, **inputs)


def test_envelopes_of_debezium_from_json(tmp_path: Path) -> None:
    def put(name: str, *envelopes: tuple[Any, Any, str]) -> None:
        (tmp_path / "in").mkdir(exist_ok=True)
        lines = [json.dumps({"before": before, "after": after, "op": op}) for before, after, op in envelopes]
        (tmp_path / "in" / name).write_text("\n".join(lines))

    def run() -> Answer:
        made = weft.Session(tmp_path / "state", workers=2, progress=False)
        made.stream("c", weft.read.json(tmp_path / "in"), format="debezium")
        seen: list[tuple[Any, ...]] = []
        query = made.query("q", "SELECT c.id, c.name FROM c").to_memory()
        query.foreach_batch(lambda df, _: seen.extend(tuple(row) for row in df.collect()))
        made.run()
        assert all(row[-1] in ("insert", "delete") for row in seen)
        return answer(query.table())

    ann, bob = {"id": 1, "name": "ann"}, {"id": 2, "name": "bob"}
    put("0.json", (None, ann, "c"), (None, bob, "r"))
    assert run() == Counter([(1, "ann"), (2, "bob")])
    put("1.json", (ann, {"id": 1, "name": "anna"}, "u"), (bob, None, "d"))
    assert run() == Counter([(1, "anna")])
