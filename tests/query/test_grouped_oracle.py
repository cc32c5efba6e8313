"""The oracle of aggregate queries gives what DuckDB gives for the query as a person would write it there."""

import random
from collections.abc import Mapping

import duckdb
import pyarrow as pa
import pytest

from weft.errors import WeftError
from weft.query.model import Query, Stream
from weft.sql import to_query
from weft.testing import assert_same_rows, expected_after_each_batch, expected_after_lateness, oracle

SECOND = 1_000_000
STREAMS = {
    "o": Stream(
        "o",
        pa.schema([("k", pa.int64()), ("c", pa.string()), ("p", pa.decimal128(12, 2)), ("ts", pa.timestamp("us"))]),
        "ts",
        lateness=2 * SECOND,
    ),
    "l": Stream(
        "l", pa.schema([("k", pa.int64()), ("d", pa.float64()), ("f", pa.bool_()), ("at", pa.int64())]), "at", "ms"
    ),
}


def table(stream: str, rows: list[tuple[object, ...]]) -> pa.Table:
    schema = STREAMS[stream].schema
    columns = zip(*rows, strict=True) if rows else [[]] * len(schema)
    return pa.table([pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)], schema=schema)


def some_rows(seed: int = 1) -> dict[str, pa.Table]:
    drawn = random.Random(seed)
    orders = [
        (drawn.randrange(5), drawn.choice(["a", "b", None]), drawn.choice([None, 1, 2]), drawn.randrange(30 * SECOND))
        for _ in range(40)
    ]
    doubles, truths = [None, 0.5, 1.5, 2.0], [None, True, False]
    lines = [
        (drawn.randrange(5), drawn.choice(doubles), drawn.choice(truths), drawn.randrange(-9000, 30_000))
        for _ in range(40)
    ]
    return {"o": table("o", orders), "l": table("l", lines)}


def query(text: str) -> Query:
    return to_query(text, STREAMS)


def by_hand(text: str, tables: Mapping[str, pa.Table], schema: pa.Schema) -> pa.Table:
    duck = duckdb.connect()
    for name, rows in tables.items():
        duck.register(name, rows)
    return duck.sql(text).to_arrow_table().cast(schema)


SAME_TEXT = [
    "SELECT o.c, count(*) AS n, sum(l.k) AS s, avg(o.p) AS a FROM o JOIN l ON o.k = l.k GROUP BY o.c",
    "SELECT count(*) AS n, count(c) AS m, count(DISTINCT c) AS d, min(p) AS lo, max(c) AS hi FROM o",
    "SELECT count(*) AS n, sum(p) AS s FROM o WHERE k > 99",
    "SELECT k, count(*) AS n FROM o WHERE k > 99 GROUP BY k",
    "SELECT k + 1 AS k1, sum(p) AS s FROM o GROUP BY k1 HAVING s > 3 AND count(*) > 2",
    "SELECT k % 2 = 0 AS even, bool_and(f) AS b, bool_or(f) AS c, sum(f) AS d FROM l GROUP BY 1",
    "SELECT sum(d) FILTER (WHERE f) AS x, count(*) FILTER (WHERE NOT f) AS y FROM l",
    "SELECT (sum(o.k) + max(l.k)) * 2 AS x, o.c || '!' AS y FROM o JOIN l ON o.k = l.k GROUP BY o.c",
    "SELECT DISTINCT c, p FROM o",
    "SELECT DISTINCT o.c FROM o JOIN l ON o.k < l.k",
    "SELECT 1 AS one FROM o HAVING count(*) > 1000",
    "SELECT 1 AS one FROM o GROUP BY c",
]


@pytest.mark.parametrize("text", SAME_TEXT)
def test_duckdb_answers_the_same_text(text: str) -> None:
    tables = some_rows()
    asked = query(text)
    assert_same_rows(oracle(asked, tables), by_hand(text, tables, asked.schema))


def test_the_join_below_has_its_windows() -> None:
    tables = some_rows()
    asked = query("SELECT o.c, count(*) AS n FROM o JOIN l ON o.k = l.k GROUP BY o.c WITHIN '5 seconds'")
    near = "abs(epoch_us(o.ts) - l.at * 1000) < 5000000"
    text = f"SELECT o.c, count(*) AS n FROM o JOIN l ON o.k = l.k AND {near} GROUP BY o.c"
    assert_same_rows(oracle(asked, tables), by_hand(text, tables, asked.schema))


def test_tumbling_windows_begin_at_multiples_of_their_length() -> None:
    tables = some_rows()
    asked = query("SELECT window.start AS s, window.end AS e, count(*) AS n FROM l GROUP BY window(l.at, '7 seconds')")
    start = "TIMESTAMP '1970-01-01' + to_microseconds(CAST(floor(l.at / 7000.0) AS BIGINT) * 7000000)"
    text = f"SELECT {start} AS s, {start} + INTERVAL 7 SECOND AS e, count(*) AS n FROM l GROUP BY ALL"
    assert_same_rows(oracle(asked, tables), by_hand(text, tables, asked.schema))


def test_a_row_is_in_every_sliding_window_that_holds_it() -> None:
    tables = {"o": table("o", [(1, "a", 1, 12 * SECOND), (1, "a", 2, 14 * SECOND), (1, "a", 4, None)])}
    asked = query("SELECT c, window.start AS s, sum(p) AS x FROM o GROUP BY c, window(ts, '10 seconds', '4 seconds')")
    starts = pa.array([4 * SECOND, 8 * SECOND, 12 * SECOND], pa.timestamp("us"))
    sums = pa.array([1, 3, 3]).cast(pa.decimal128(38, 2))
    expected = pa.table({"c": ["a", "a", "a"], "s": starts, "x": sums})
    assert_same_rows(oracle(asked, tables), expected)


def counts(query: Query, batches: list[dict[str, pa.Table]]) -> dict[int, int]:
    """Seconds at which windows start, and how many rows they hold."""
    found = expected_after_lateness(query, batches)
    starts = found["s"].cast(pa.int64()).to_pylist()
    return {start // SECOND: n for start, n in zip(starts, found["n"].to_pylist(), strict=True)}


def test_a_row_that_is_late_for_a_closed_window_counts_in_the_open_ones() -> None:
    asked = query("SELECT window.start AS s, count(*) AS n FROM o GROUP BY window(ts, '10 seconds', '5 seconds')")
    newest, at_9, at_14 = ({"o": table("o", [(1, "a", 1, at * SECOND)])} for at in (17, 9, 14))
    # After the first batch the watermark is second 15: windows that end there are closed.
    assert counts(asked, [newest, at_9]) == {10: 1, 15: 1}
    assert counts(asked, [newest, at_14]) == {10: 2, 15: 1}
    assert counts(asked, [at_9, newest]) == {0: 1, 5: 1, 10: 1, 15: 1}


def test_the_newest_member_decides_whether_a_joined_row_is_late() -> None:
    asked = query(
        "SELECT window.start AS s, count(*) AS n FROM o JOIN l ON o.k = l.k GROUP BY window(o.ts, '10 seconds')"
    )
    order, line = table("o", [(1, "a", 1, 0)]), table("l", [(1, 1.0, True, 0)])
    later = {"o": table("o", [(2, "a", 1, 60 * SECOND)]), "l": table("l", [(2, 1.0, True, 60_000)])}
    assert counts(asked, [{"o": order, "l": line}, later]) == {0: 1, 60: 1}
    assert counts(asked, [{"o": order}, later, {"l": line}]) == {60: 1}


def test_the_view_after_each_batch_is_that_of_the_batches_so_far() -> None:
    drawn = some_rows()
    batches = [{name: rows.slice(at, 10) for name, rows in drawn.items()} for at in range(0, 40, 10)]
    text = "SELECT window.start AS s, count(*) AS n FROM o JOIN l ON o.k = l.k GROUP BY window(o.ts, '4 seconds')"
    for asked in (query(text), query(f"{text} WITHIN '5 seconds'"), query(SAME_TEXT[0])):
        for number, view in enumerate(expected_after_each_batch(asked, batches)):
            assert_same_rows(view, expected_after_lateness(asked, batches[: number + 1]))


def test_a_sum_that_is_too_large_is_an_error() -> None:
    rows = table("o", [(2**62, "a", 1, 0), (2**62, "a", 1, 0)])
    with pytest.raises((WeftError, duckdb.Error)):
        oracle(query("SELECT sum(k) AS s FROM o"), {"o": rows})
