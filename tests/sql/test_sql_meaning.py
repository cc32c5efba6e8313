"""The same SQL text means the same in Weft as in DuckDB: precedence, casts and functions."""

import random

import duckdb
import pyarrow as pa
import pytest

from tests.expr.random_exprs import COLUMNS, random_batch
from weft.expr.evaluate import evaluate
from weft.query.model import Stream
from weft.sql import to_query

TEXTS = """
i32 + i64 * 2 - i16
-i32 % 3
i64 // 7 % 3
i64 / 4
i64 / i32
d1 + 1
d1 * d2
d1 / 3
d1 - 0.125
d1 % 7
f64 * 2 + 1.5
2 * -i32
- - i32
i32 + 1 > i64 - 1 AND NOT b OR b
NOT b = b
i32 = 1 IS NULL
b < b IN (FALSE)
b <> b BETWEEN FALSE AND TRUE
b = s LIKE 'a%'
b > (i32 > 1) IN (b, FALSE) AND b
CAST(0.125::DOUBLE AS DECIMAL(18, 2))
CAST((i16 / 8) AS DECIMAL(18, 2))
CAST(CAST(i16 % 3 AS DECIMAL(30, 10)) / 1 AS DECIMAL(30, 10)) || s
CAST(CAST(i16 % 3 AS DECIMAL(30, 10)) * 0.00000001 AS VARCHAR)
CAST(CAST(16777216 AS FLOAT) AS VARCHAR)
b IS TRUE
b IS NOT FALSE
i32 BETWEEN 1 AND 5 AND b
i32 NOT BETWEEN -5 AND 1 + 3
i32 IN (1, 2, 3)
i32 NOT IN (1, NULL)
s IN ('a', 'A', t)
s LIKE 'a%' OR t NOT LIKE '%b'
s LIKE '%$%%' ESCAPE '$'
s ILIKE 'AB_'
s || t || 'x'
s || i32
'a' || i32 + 1
s < t
CASE WHEN i32 > 0 THEN 'pos' WHEN i32 < 0 THEN 'neg' END
CASE i32 WHEN 1 THEN 10 WHEN 0 THEN 20 ELSE i64 END
CAST(d1 AS INTEGER)
CAST(d1 AS VARCHAR)
i32::VARCHAR || 'x'
i32::DOUBLE / 3
CAST(i32 AS DOUBLE PRECISION) / 3
(d1 * 2)::DECIMAL(12,1)
CAST('12' AS INTEGER) + i32
coalesce(i32, i64, 0)
nullif(i32, 1)
greatest(i32, i64)
least(d1, 5)
abs(i32 - 5)
round(d1, 1)
round(d2)
floor(d1)
ceil(d2)
ceiling(d2)
mod(i64, 7)
pow(i32, 2)
sqrt(abs(i64))
length(s)
upper(s) = lower(t)
substring(s, 2, 1)
substr(s, -2)
SUBSTRING(s FROM 2 FOR 2)
trim(s)
TRIM(BOTH 'a' FROM s)
TRIM(LEADING FROM s)
replace(s, 'a', 'bb')
starts_with(s, 'a')
ends_with(s, 'c')
contains(s, 'B')
concat(s, NULL, t, 1)
year(ts)
EXTRACT(minute FROM ts)
extract(day from day)
date_trunc('month', ts)
date_trunc('day', day)
ts + INTERVAL '10' MINUTE
ts - INTERVAL 90 SECOND
ts + INTERVAL '2 days'
day + 3
day - DATE '2000-01-01'
day + INTERVAL '1' DAY
ts - TIMESTAMP '2000-01-01 00:00:00'
ts > '2000-06-01'
ts > TIMESTAMP '2000-06-01 12:00:00' + INTERVAL '1' MONTH
day < DATE '2001-03-31' - INTERVAL '1' MONTH
day = ts
tz > TIMESTAMPTZ '2000-01-01 00:00:00+02'
if(b, 1, 2)
ifnull(i32, 7)
1.5 + i32
.5 * i32
1e3 * i32
1.e1 * i32 + 1. - 1_000
i32 /* a /* b */ c */ + 1
i32<-1 OR i32<>-1
5000000000 + i32
true AND NULL
sign(i32)
exp(0) + ln(1)
i64 > d1
i64 = f32
d1 < f64
CASE WHEN i32 <> 0 THEN 100 // i32 ELSE -1 END
""".strip().splitlines()


@pytest.fixture(scope="module")
def world() -> tuple[pa.RecordBatch, duckdb.DuckDBPyConnection]:
    batch = random_batch(random.Random(99), 200)
    # NaN compares as NULL here and as a number there; what that means is tested elsewhere.
    columns = [pa.array([None if x != x else x for x in column.to_pylist()], column.type) for column in batch.columns]
    batch = pa.RecordBatch.from_arrays(columns, batch.schema.names)
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    table = pa.Table.from_batches([batch]).rename_columns(list(COLUMNS))
    con.register("data", table.append_column("row", pa.array(range(200))))
    con.execute("CREATE TABLE o AS SELECT * FROM data ORDER BY row")
    return batch, con


@pytest.mark.parametrize("text", TEXTS)
def test_text_means_what_it_means_in_duckdb(text: str, world: tuple[pa.RecordBatch, duckdb.DuckDBPyConnection]) -> None:
    batch, con = world
    stream = Stream("o", pa.schema(list(COLUMNS.items())))
    expr = to_query(f"SELECT {text} AS x FROM o", {"o": stream}).outputs[0].expr
    mine = evaluate(expr, batch, {}).to_pylist()
    theirs = [value for (value,) in con.execute(f"SELECT {text} FROM o ORDER BY row").fetchall()]
    assert mine == [pytest.approx(x, nan_ok=True) if isinstance(x, float) else x for x in theirs]
