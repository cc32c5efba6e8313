"""Every refusal that the text of a query can cause has a caret under a construct, and a hint, whoever finds it.

The queries come from the tests of refusals, and from every place behind the parser that raises an error about a query.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import weft
from tests.sql.shop import FUNCTIONS, STREAMS
from tests.sql.test_sql_refusals import MEANING, SYNTAX
from weft.cli.entry import main

TS = pa.timestamp("us")
MORE = {
    "ticks": pa.schema([("k", pa.int64()), ("n", pa.int64())]),
    "trades": pa.schema([("k", pa.int64()), ("ts", TS), ("v", pa.int64())]),
}


DECLARED = """
CREATE STREAM orders (o_orderkey BIGINT, o_custkey BIGINT, o_limit DECIMAL(12, 2), o_ts TIMESTAMP)
  FROM PARQUET 'orders' WITH (event_time = 'o_ts');
CREATE STREAM lineitem (l_orderkey INT, l_partkey BIGINT, l_price DOUBLE, l_ts TIMESTAMP)
  FROM PARQUET 'lineitem' WITH (event_time = 'l_ts');
CREATE STREAM ticks (k BIGINT, n BIGINT) FROM PARQUET 'ticks' WITH (event_time = 'n', unit = 's');
CREATE STREAM trades (k BIGINT, ts TIMESTAMP, v BIGINT) FROM PARQUET 'trades' WITH (event_time = 'ts');
CREATE STREAM kept (k BIGINT, n BIGINT) FROM PARQUET 'kept' WITH (key = 'k');
CREATE TABLE rates (k BIGINT, n BIGINT) FROM PARQUET 'rates' KEY (k);
CREATE TABLE dated (k BIGINT, ts TIMESTAMP, v BIGINT) FROM PARQUET 'dated' KEY (k) WITH (event_time = 'ts');
CREATE TABLE fixed (k BIGINT, n BIGINT) FROM PARQUET 'fixed';
CREATE VIEW view_of_trades AS SELECT k, ts, v FROM trades;
"""


def session(root: Path) -> weft.Session:
    s = weft.Session(root / "state", workers=1)
    for name, stream in STREAMS.items():
        s.stream(name, weft.read.batches([stream.schema.empty_table()]), event_time=stream.event_time)
    for name, signature in FUNCTIONS.items():
        s.function(name, lambda *_: None, signature.returns)
    s.stream("ticks", weft.read.batches([MORE["ticks"].empty_table()]), event_time="n", unit="s")
    s.stream("trades", weft.read.batches([MORE["trades"].empty_table()]), event_time="ts")
    s.stream("kept", weft.read.batches([MORE["ticks"].empty_table()]), key="k")
    s.table("rates", weft.read.batches([MORE["ticks"].empty_table()]), key="k")
    s.table("dated", weft.read.batches([MORE["trades"].empty_table()]), key="k", event_time="ts")
    s.table("fixed", weft.read.batches([MORE["ticks"].empty_table()]))
    s.view("view_of_trades", "SELECT k, ts,\n  v FROM trades")
    return s


def refused(call: Callable[[], object]) -> weft.WeftError:
    with pytest.raises(weft.WeftError) as caught:
        call()
    return caught.value


def underlined(error: weft.WeftError) -> str:
    """What the carets stand under, where they point alone."""
    lines = (error.detail or "").splitlines()
    marks = [number for number, line in enumerate(lines) if line.strip() and set(line.strip()) == {"^"}]
    assert len(marks) == 1, str(error)
    first = lines[marks[0]].index("^")
    return lines[marks[0] - 1][first : first + lines[marks[0]].count("^")] or "the end"


WRITTEN = list(dict.fromkeys([text for text, *_ in (*SYNTAX, *MEANING) if text]))


@pytest.mark.parametrize("text", WRITTEN)
def test_whatever_is_refused_points_and_has_a_hint(text: str, tmp_path: Path) -> None:
    error = refused(lambda: session(tmp_path).query("q", text, cross_product=True))
    assert error.hint
    assert underlined(error)


ASOF = "FROM orders o ASOF JOIN"
LATER = [
    ("SELECT a.o_ts FROM orders a, lineitem b", "lineitem b"),
    ("SELECT a.o_ts FROM orders a, (SELECT * FROM lineitem) b", "lineitem"),
    ("SELECT a.o_ts FROM orders a JOIN lineitem b ON a.o_custkey + b.l_partkey > 0, trades c", "trades c"),
    ("SELECT k.n FROM kept k JOIN rates r ON k.k = r.k", "kept k"),
    ("SELECT o.o_ts FROM orders o LEFT JOIN lineitem l ON o.o_orderkey = l.l_orderkey JOIN rates r ON r.k = 1",
     "lineitem l"),
    ("SELECT t.v FROM trades t WITHIN '1 minute' LEFT JOIN ticks k ON k.k = t.k", "WITHIN '1 minute'"),
    ("SELECT t.v FROM trades t LEFT JOIN ticks k ON k.k = t.k WITHIN '1 minute'", "trades t"),
    ("SELECT t.v FROM trades t ASOF JOIN trades u WITHIN '1 minute' ON t.k = u.k AND t.v >= u.v", "WITHIN '1 minute'"),
    ("SELECT t.v FROM trades t ASOF JOIN trades u WITHIN '1 minute' ON t.k = u.k AND t.ts <= u.ts", "trades t"),
    ("SELECT t.v FROM trades t JOIN fixed FOR SYSTEM_TIME AS OF t.ts AS d ON t.k = d.k", "t.ts"),
    ("SELECT t.v FROM trades t JOIN trades FOR SYSTEM_TIME AS OF now() AS d ON t.k = d.k", "now()"),
    ("SELECT t.v FROM trades t JOIN dated FOR SYSTEM_TIME AS OF t.v AS d ON t.k = d.k", "t.v"),
    ("SELECT 1 FROM trades t JOIN orders o ON o_custkey = t.k JOIN dated FOR SYSTEM_TIME AS OF t.v AS d ON t.k = d.k",
     "t.v"),
    ("SELECT o.o_ts FROM orders o JOIN dated FOR SYSTEM_TIME AS OF o.o_ts + INTERVAL '1' DAY AS d ON d.k = o.o_custkey",
     "o.o_ts + INTERVAL '1' DAY"),
    (f"SELECT o.o_ts {ASOF} trades t ON o.o_custkey = t.k", "o.o_custkey = t.k"),
    (f"SELECT o.o_ts {ASOF} (trades t JOIN ticks k ON t.k = k.k) ON o.o_ts >= t.ts", "o.o_ts >= t.ts"),
    (f"SELECT o.o_ts {ASOF} trades t ON o.o_ts >= t.ts AND o.o_custkey < t.k", "o.o_ts >= t.ts"),
    ("SELECT k.n, now() FROM kept k", "now()"),
    ("SELECT k, now() AS n, COUNT(*) FROM trades GROUP BY k", "now()"),
    ("SELECT k FROM trades UNION ALL SELECT k, v FROM trades", "k, v"),
    ("SELECT k, NULL AS x FROM trades UNION SELECT k, NULL FROM ticks", "trades"),
    ("SELECT MAX(k) AS m FROM trades WHERE MAX(v) > 1", "MAX(v)"),
    ("SELECT v, COUNT(*) FROM trades GROUP BY k", "v"),
    ("SELECT LAST(v) FROM trades GROUP BY k", "LAST(v)"),
    ("SELECT sum(v, k) FROM trades", "sum(v, k)"),
    ("SELECT k FROM trades WHERE v IN (SELECT n, k FROM ticks)", "v IN (SELECT n, k FROM ticks)"),
    ("SELECT k FROM trades t WHERE v = (SELECT MAX(n) FROM (SELECT n FROM ticks i WHERE i.k < t.k GROUP BY n) x)",
     "i.k < t.k"),
    ("SELECT k FROM fixed WITHIN '1 minute'", "WITHIN '1 minute'"),
    ("SELECT k AS \"#w\" FROM trades", "trades"),
    ("SELECT x.k FROM trades \"x.y\"", "x.k"),
    ("SELECT 1 AS one FROM trades \"x.y\"", "trades \"x.y\""),
    ("SELECT row_number() OVER (ORDER BY nothing) AS r FROM trades", "nothing"),
    ("SELECT k, row_number() OVER (ORDER BY v) AS r FROM trades ORDER BY 7 LIMIT 3", "7"),
    ("SELECT COUNT(*) FROM trades GROUP BY window(v, '1 minute')", "v"),
    ("SELECT window.start FROM trades GROUP BY k", "window.start"),
    ("SELECT * FROM view_of_trades JOIN trades u ON view_of_trades.nothing = u.k", "view_of_trades.nothing"),
    ("SELECT CAST('x' AS BIGINT) AS x FROM trades", "CAST('x' AS BIGINT)"),
    (f"SELECT {'(' * 300}k{')' * 300} FROM trades", f"SELECT {'(' * 300}k{')' * 300} FROM trades"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "place"), LATER, ids=[text[:90] for text, _ in LATER])
def test_what_is_found_behind_the_parser_points_too(text: str, place: str | None, tmp_path: Path) -> None:
    error = refused(lambda: session(tmp_path).query("q", text))
    assert error.hint
    assert place in (None, underlined(error))


def test_closed_windows_beside_an_outer_join_point_at_from(tmp_path: Path) -> None:
    text = "SELECT o.o_ts FROM orders o LEFT JOIN lineitem l ON o.o_orderkey = l.l_orderkey WITHIN '1 minute'"
    assert (
        underlined(refused(lambda: session(tmp_path).query("q", text, closed=True))) == "orders o LEFT JOIN lineitem l"
    )


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("SELECT COUNT(*) FROM trades t WHERE t.v > :least", "trades t"),
        ("SELECT t.k FROM trades t LEFT JOIN ticks k ON t.k = k.k WHERE t.v > :least", "trades t LEFT JOIN ticks k"),
        ("SELECT t.k FROM kept t WHERE t.n > :least", "kept t"),
        ("SELECT t.k FROM trades t, ticks k WHERE t.v > :least", "ticks k"),
        ("SELECT t.k FROM trades t WHERE t.v > :most", ":most"),
    ],
)
def test_subscriptions_point_too(text: str, place: str, tmp_path: Path) -> None:
    given = pa.table({"who": ["a"], "least": [1]})
    error = refused(lambda: session(tmp_path).subscriptions("q", text, parameters=given, key="who"))
    assert error.hint
    assert underlined(error) == place


def test_an_error_in_a_view_points_into_its_text(tmp_path: Path) -> None:
    """Parts of several texts stand in one query: each error points into its own."""
    s = session(tmp_path)
    s.view("pairs", "SELECT t.k,\n  t.v FROM trades t,\n  ticks k")
    error = refused(lambda: s.query("q", "SELECT k FROM pairs"))
    assert "cross product" in error.message
    assert "line 3, column 3" in (error.detail or "")
    assert underlined(error) == "ticks k"


@pytest.mark.parametrize("text", [text for text, _ in LATER])
def test_scripts_point_too(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "job.sql"
    script.write_text(f"{DECLARED}CREATE QUERY q INTO PARQUET 'out' AS {text};\n")
    with pytest.raises(SystemExit):
        main(["explain", str(script)])
    said = capsys.readouterr().err
    assert "in query q" in said or "deeply" in said
    assert "^" in said
    assert "hint:" in said
