"""The same SQL text means the same in Weft as in DuckDB: precedence, casts and functions."""

import random

import duckdb
import pyarrow as pa
import pytest

from tests.expr.random_exprs import COLUMNS, random_batch
from weft.expr.evaluate import evaluate
from weft.query.model import Stream
from weft.sql import to_query

TEXTS = r"""
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
time_bucket(INTERVAL '7' MINUTE, ts)
time_bucket(INTERVAL '5' DAY, day)
time_bucket(INTERVAL '90' SECOND, ts, TIMESTAMP '1970-01-01 00:00:01')
trunc(f64)
trunc(f64, 1)
trunc(i32)
ascii(s)
chr(i8 % 7 + 77)
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
i32 IS DISTINCT FROM i64
s IS NOT DISTINCT FROM t
NOT i32 IS NOT DISTINCT FROM NULL
f64 IS DISTINCT FROM f32 AND d1 IS NOT DISTINCT FROM d1
s = 'a' IS NOT DISTINCT FROM TRUE
day IS NOT DISTINCT FROM ts AND b IS DISTINCT FROM FALSE AND tz IS DISTINCT FROM NULL
s LIKE t
s ILIKE t || '%'
s NOT LIKE '%' || t || '%' ESCAPE '$'
starts_with(s, t) OR ends_with(t, s) OR contains(s, t)
substr(s, i8 % 3)
substring(s, i8 % 4, i16 % 3)
replace(s, t, 'x')
trim(s, t)
left(s, 2) || right(t, 2)
left(s, i8 % 4)
right(s, i8 % 4)
strpos(s, 'b')
strpos(s, t)
instr(s, '')
position('a' IN s || t)
POSITION('b' IN s) + 1
split_part(s || ',' || t, ',', 2)
split_part(s, '', 2)
split_part(s, t, i8 % 3)
lpad(s, 5, 'xy')
rpad(s, 2, 'é')
lpad(s, i8 % 5 + 5, '-')
repeat(s, i8 % 3)
reverse(s)
concat_ws(', ', s, t, i32)
concat_ws(s, t)
md5(s)
sha256(s)
s ~ '^a'
s !~ 'b' OR s ~* 'B$'
s !~* 'A'
s SIMILAR TO 'a.c' OR t NOT SIMILAR TO '(a|x).*'
regexp_matches(s, right(t, 0) || 'a')
regexp_matches(s, '[aé]')
regexp_full_match(s, 'a.*')
regexp_replace(s, '([ab])', '<\1>')
regexp_replace(s, '[a-c]', '', 'g')
regexp_replace(s, 'A', 'x', 'i')
regexp_extract(s, '([a-z])([A-Za-z])', 2)
regexp_extract(s, '[bc]+')
regexp_extract(s, '(?:a)([(B])', 1)
date_part('dow', ts)
date_part('isodow', day) + date_part('doy', tz)
date_part('week', ts) + date_part('isoyear', ts) * 100
date_part('quarter', ts) + date_part('yearweek', ts)
date_part('century', ts) * 1000 + date_part('decade', ts) + date_part('millennium', ts)
date_part('milliseconds', ts) + date_part('us', ts)
EXTRACT(epoch FROM ts)
EXTRACT('dow' FROM ts)
extract(epoch FROM ts - TIMESTAMP '2000-01-01 00:00:00')
epoch(tz) + epoch(day)
epoch_ms(ts) + epoch_us(tz)
epoch_ns(ts)
epoch_ms(i64)
make_timestamp(i64)
make_timestamp_ms(i64)
to_timestamp(i64)
to_timestamp(i64 / 8)
dayofweek(ts) + dayofyear(ts) + week(day) + quarter(day) + weekofyear(ts) + weekday(day)
millisecond(ts) + microsecond(ts) + isodow(ts) + isoyear(ts) + yearweek(ts)
century(ts) + decade(ts) + millennium(ts)
make_date(year(day), month(day), 1)
date_trunc('decade', ts)
date_trunc('century', day)
date_trunc('millennium', ts)
date_trunc('isoyear', ts)
date_trunc('ms', ts)
date_trunc('weeks', tz)
date_diff('year', ts, TIMESTAMP '2000-01-01 00:00:00')
date_diff('month', day, ts)
date_diff('quarter', ts, day)
date_diff('week', ts, DATE '2000-01-01')
date_diff('day', ts, day)
date_diff('hour', ts, day) + datediff('minute', ts, day)
date_diff('second', ts, day)
date_diff('millisecond', ts, day)
date_diff('microsecond', ts, day)
date_diff('decade', ts, day) + date_diff('century', ts, day) + date_diff('millennium', ts, day)
date_diff('isoyear', ts, day)
date_diff('day', tz, TIMESTAMPTZ '2000-01-01 00:00:00+02')
ts + INTERVAL '1' MONTH
ts - INTERVAL 1 YEAR
day + INTERVAL '1 month 2 days'
INTERVAL '3' QUARTER + tz
ts - INTERVAL '1 year 1 month 3 hours'
i32 ** 2 * 2
2 ** 3 ** 2
-2 ** 2
i16 ^ 2
log10(abs(i64) + 1) + log2(abs(i32) + 1) + log(abs(i16) + 1)
sin(f32) + cos(i32) + atan(i32) + atan2(i32, i16)
radians(i32) + degrees(f32) + tan(0.5) + asin(0.5) + acos(0.5)
isnan(f64) OR isinf(f64) OR isfinite(f64)
coalesce(ts - ts, INTERVAL '1' DAY)
greatest(b, FALSE)
least(tz, TIMESTAMPTZ '2000-01-01 00:00:00+02')
nullif(day, DATE '2000-01-01')
'{"a": {"b": [1, 2.5, "x", null, true]}}' -> 'a'
'{"a": {"b": [1, 2.5, "x", null, true]}}' -> '$.a.b[1]'
'{"a": {"b": [1, 2.5, "x", null, true]}}' ->> '$.a.b[2]'
'{"a": {"b": [1, null]}}' -> 'a' -> 'b' ->> 1
('{"s": "' || i32 || '"}') ->> 's'
json_extract('{"' || CASE WHEN b THEN 'a' ELSE 'b' END || '": [' || i32 || ', {"é": "ü\n"}]}', '$.a[1]')
json_extract_string('[' || i32 || ', "x"]', '$[' || abs(i8 % 3) || ']')
json_extract('[' || i32 || ', 2]', -1)
json_extract('{"a b": 1, "c": {"d": 1.0}}', '$."a b"') || json_extract('{"c": {"d": 1.0}}', '/c/d')
'{"a": 1}' ->> 'b'
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
