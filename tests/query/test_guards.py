"""Conditions that guard others, constants that Python takes for equal, and subqueries beside GROUPING SETS: DuckDB's
answers, from two batches."""

import random
from collections import Counter

import duckdb
import pyarrow as pa
import pytest

from weft.query.model import Stream
from weft.sql import to_query
from weft.testing import Trial

SCHEMA = pa.schema([("k", pa.int64()), ("x", pa.int64()), ("s", pa.string()), ("b", pa.bool_())])
STREAMS = {name: Stream(name, SCHEMA) for name in ("a", "c")}
TEXTS = (
    "SELECT a.k FROM a WHERE a.s <> 'n' AND CAST(a.s AS BIGINT) < 3",
    "SELECT s, COUNT(*) AS n FROM a GROUP BY s HAVING s <> 'n' AND CAST(s AS BIGINT) < 3",
    "SELECT k, COUNT(*) AS n FROM a GROUP BY k HAVING COUNT(*) > 2 AND 12 % (COUNT(*) - 2) < 5",
    "SELECT MAX(s || 1) OVER () AS p, MAX(s || 1.0) OVER () AS q, MAX(s || 1.00) OVER () AS r FROM a",
    "SELECT MAX(s || 1) OVER () AS p, MAX(s || true) OVER () AS q FROM a",
    "SELECT k, b, COUNT(*) AS n FROM a GROUP BY ROLLUP(k, b) HAVING k IN (SELECT x FROM c)",
    "SELECT k, b, k IN (SELECT x FROM c) AS t, COUNT(*) AS n FROM a GROUP BY ROLLUP(k, b)",
    "SELECT k, COUNT(*) AS n FROM a GROUP BY ROLLUP(k) HAVING COUNT(*) > (SELECT MIN(x) FROM c) OR k > 1",
    (
        "SELECT 3 > k AS t, COUNT(*) AS n FROM a GROUP BY 3 > k "
        "QUALIFY ROW_NUMBER() OVER (PARTITION BY 3 > k ORDER BY COUNT(*)) = 1 AND (3 > k)"
    ),
    "SELECT k, REGR_R2(x * 1e100, x * 3e100) AS r FROM a GROUP BY k",
)


def drawn(seed: int, count: int = 14) -> pa.Table:
    rng = random.Random(seed)
    columns = (
        [rng.randrange(4) for _ in range(count)],
        [rng.choice([None, 1, 2, 3, 4]) for _ in range(count)],
        [rng.choice(["1", "2", "n", None]) for _ in range(count)],
        [rng.choice([True, False, None]) for _ in range(count)],
    )
    return pa.table([pa.array(part, field.type) for part, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def counted(rows: pa.Table) -> Counter[str]:
    return Counter(
        repr([round(value, 6) if isinstance(value, float) else value for value in row.values()])
        for row in rows.to_pylist()
    )


@pytest.mark.parametrize("text", TEXTS)
def test_answer_is_that_of_duckdb(text: str) -> None:
    tables = {name: drawn(seed) for seed, name in enumerate(STREAMS)}
    trial = Trial({"q": to_query(text, STREAMS)})
    trial.feed({name: rows.slice(0, 7) for name, rows in tables.items()})
    trial.feed({name: rows.slice(7) for name, rows in tables.items()})
    with duckdb.connect() as oracle:
        for name, rows in tables.items():
            oracle.register(name, rows)
        wanted = oracle.sql(text).to_arrow_table()
    assert wanted.num_rows
    assert counted(trial.table("q")) == counted(wanted)
