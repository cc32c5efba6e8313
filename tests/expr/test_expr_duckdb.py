"""Random expressions mean the same in Weft as in DuckDB."""

import datetime as dt
import math
import random
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest

from tests.expr.random_exprs import COLUMNS, Maker, random_batch
from weft.errors import QueryError
from weft.expr.evaluate import evaluate, filter_mask
from weft.expr.model import Call, Expr
from weft.expr.render import to_sql
from weft.expr.typing import add_types

ROWS = 40


def oracle(batch: pa.RecordBatch) -> duckdb.DuckDBPyConnection:
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    table = pa.Table.from_batches([batch]).rename_columns(list(COLUMNS))
    con.register("data", table.append_column("row", pa.array(range(batch.num_rows))))
    con.execute("CREATE TABLE o AS SELECT * FROM data ORDER BY row")
    return con


def same(mine: object, theirs: object) -> bool:
    if isinstance(mine, float) and isinstance(theirs, float):
        return (
            mine == theirs
            or (math.isnan(mine) and math.isnan(theirs))
            or math.isclose(mine, theirs, rel_tol=1e-6 if abs(mine) < 1e38 else 1e-2, abs_tol=1e-12)
        )
    if isinstance(mine, Decimal) or isinstance(theirs, Decimal):
        return mine == theirs
    if isinstance(mine, dt.datetime) and isinstance(theirs, dt.datetime) and mine.tzinfo:
        return mine.astimezone(dt.UTC) == theirs.astimezone(dt.UTC)
    return type(mine) is type(theirs) and mine == theirs


def check(con: duckdb.DuckDBPyConnection, batch: pa.RecordBatch, raw: Expr) -> str:
    """How the case went: both gave values, or both refused it."""
    try:
        expr = add_types(raw)
    except QueryError:
        return "refused"
    sql = to_sql(expr, nan_is_null=True)
    try:
        mine = evaluate(expr, batch, {})
    except QueryError as error:
        with pytest.raises(duckdb.Error):
            print(sql, error, con.execute(f"SELECT {sql} FROM o ORDER BY row").fetchall())
        return "failed"
    assert mine.type == expr.type, sql
    assert len(mine) == batch.num_rows
    try:
        theirs = con.execute(f"SELECT {sql} FROM o ORDER BY row").fetchall()
    except duckdb.OutOfRangeException:
        return "theirs failed"
    for at, (value, (other,)) in enumerate(zip(mine.to_pylist(), theirs, strict=True)):
        assert same(value, other), (
            f"{sql}\nrow {at}: weft {value!r}, duckdb {other!r}\n{batch.slice(at, 1).to_pylist()}"
        )
    return "same"


@pytest.mark.parametrize("seed", range(12))
def test_random_expressions_mean_what_they_mean_in_duckdb(seed: int) -> None:
    rng = random.Random(seed)
    batch = random_batch(rng, ROWS)
    con = oracle(batch)
    maker = Maker(rng)
    results = [check(con, batch, maker.any(depth)) for depth in (1, 1, 2, 2, 2, 3, 3) for _ in range(15)]
    assert results.count("same") > len(results) * 0.75


@pytest.mark.parametrize("seed", range(4))
def test_filter_mask_keeps_what_where_keeps(seed: int) -> None:
    rng = random.Random(1000 + seed)
    batch = random_batch(rng, ROWS)
    con = oracle(batch)
    maker = Maker(rng)
    for _ in range(25):
        try:
            predicates = [add_types(maker.bool(2)) for _ in range(2)]
            mask = filter_mask(predicates, batch, {})
        except QueryError:
            continue
        where = " AND ".join(f"({to_sql(predicate, nan_is_null=True)})" for predicate in predicates)
        kept = [row for (row,) in con.execute(f"SELECT row FROM o WHERE {where} ORDER BY row").fetchall()]
        assert mask.null_count == 0
        assert [row for row, keep in enumerate(mask.to_pylist()) if keep] == kept, where


def test_an_empty_batch_gives_an_empty_array_of_the_right_type() -> None:
    rng = random.Random(5)
    batch = random_batch(rng, 0)
    maker = Maker(rng)
    for _ in range(200):
        try:
            expr = add_types(maker.any(2))
        except QueryError:
            continue
        result = evaluate(expr, batch, {})
        assert len(result) == 0
        assert result.type == expr.type


def test_typing_twice_changes_nothing() -> None:
    rng = random.Random(6)
    maker = Maker(rng)
    for _ in range(200):
        try:
            expr = add_types(maker.any(3))
        except QueryError:
            continue
        assert add_types(expr) == expr


def test_both_sides_of_an_equality_have_one_type() -> None:
    rng = random.Random(7)
    maker = Maker(rng)
    for kind in ("number", "text", "time", "date", "zoned", "span", "bool"):
        for _ in range(30):
            expr = add_types(Call("=", (getattr(maker, kind)(2), getattr(maker, kind)(2))))
            if isinstance(expr, Call):
                assert expr.args[0].type == expr.args[1].type
