"""What other engines write: lists taken apart, rows of one SELECT without those of another, first rows beside a row.

After every batch the answer is DuckDB's; where its spelling differs, the second text is for DuckDB.
"""

from __future__ import annotations

import random

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import weft
from weft.errors import WeftError
from weft.testing import Trial

PART = pa.struct([("a", pa.int64()), ("b", pa.string())])
SCHEMAS = {
    "basket": pa.schema([
        ("k", pa.int64()), ("items", pa.list_(pa.int64())), ("words", pa.string()), ("n", pa.int64()),
        ("parts", pa.list_(PART)),
    ]),
    "price": pa.schema([("item", pa.int64()), ("cents", pa.int64())]),
    "stock": pa.schema([("item", pa.int64()), ("cents", pa.int64())]),
}  # fmt: skip
PARTS = "(SELECT k, unnest(parts) AS p FROM basket)"
TAKEN = "(SELECT k, unnest(items) AS x FROM basket)"

APART = {
    "comma": ("SELECT b.k, u.x FROM basket b, UNNEST(b.items) AS u (x)", None),
    "cross": ("SELECT k, x FROM basket CROSS JOIN UNNEST(items) AS u (x) WHERE x > 1", None),
    "alias": ("SELECT k, x FROM basket, UNNEST(items) AS x", f"SELECT k, x FROM {TAKEN}"),
    "joined": ("SELECT k, x, cents FROM basket b, UNNEST(b.items) AS u (x) JOIN price p ON p.item = x", None),
    "behind a join": ("SELECT k, x, item FROM price JOIN basket ON item = k, UNNEST(items) AS u (x)", None),
    "padded": ("SELECT k, x FROM basket LEFT JOIN UNNEST(items) AS u (x) ON TRUE", None),
    "then padded": (
        "SELECT k, x, cents FROM basket, UNNEST(items) AS u (x) LEFT JOIN price ON item = x",
        f"SELECT k, x, cents FROM {TAKEN} LEFT JOIN price ON item = x",
    ),
    "places": ("SELECT k, x, o FROM basket, UNNEST(items) WITH ORDINALITY AS u (x, o)", None),
    "groups": ("SELECT x, COUNT(*) AS n, MAX(k) AS m FROM basket, UNNEST(items) AS u (x) GROUP BY x", None),
    "words": ("SELECT k, w FROM basket, UNNEST(string_split(words, ',')) AS u (w)", None),
    "twice": ("SELECT k, x, w FROM basket, UNNEST(items) u (x), UNNEST(string_split(words, ',')) v (w)", None),
    "behind SELECT": ("SELECT k, unnest(items) AS x FROM basket WHERE n > 1", None),
    "behind SELECT, with all": ("SELECT basket.*, 2 * unnest(items) + k AS x FROM basket", None),
    "behind SELECT, all of it": ("SELECT *, unnest(string_split(words, ',')) AS w FROM basket", None),
    "behind SELECT, different": ("SELECT DISTINCT unnest(items) AS x, n FROM basket", None),
    "behind SELECT of a join": ("SELECT k, unnest(items) AS x, cents FROM basket JOIN price ON item = k", None),
    "behind SELECT of a padded join": ("SELECT k, unnest(items) AS x FROM basket LEFT JOIN price ON item = n", None),
    "behind SELECT, written": ("SELECT k, unnest([1, 2, 2]) AS x FROM basket", None),
    "behind SELECT without FROM": ("SELECT x FROM (SELECT unnest([1, 2, 2]) AS x) JOIN basket ON k = x", None),
    "behind SELECT inside": ("SELECT SUM(x) AS s FROM (SELECT unnest(items) AS x FROM basket)", None),
    "counted": (
        "SELECT k, g FROM basket, LATERAL generate_series(1, n) AS g",
        "SELECT k, unnest(generate_series(1, n)) AS g FROM basket",
    ),
    "backwards": (
        "SELECT k, g FROM basket, range(n, 0, -2) AS r (g)",
        "SELECT k, unnest(range(n, 0, -2)) AS g FROM basket",
    ),
    "constants": ("SELECT k, i FROM basket, generate_series(2, 4) AS g (i) WHERE i = k", None),
    "many numbers": ("SELECT k, COUNT(*) AS n FROM basket, range(5, 90000, 7) g (i) WHERE i % 9 = k GROUP BY k", None),
    "no numbers": ("SELECT k, i FROM basket LEFT JOIN generate_series(3, 1) AS g (i) ON i = k", None),
    "numbers alone": ("SELECT a.i, b.j FROM range(3) a (i) JOIN range(4) b (j) ON i < j", None),
    "written lists": ("SELECT k, ARRAY[k, n, 7] AS l, [n][1] AS m, [words, 'x', NULL] AS w FROM basket", None),
    "written lists beside groups": ("SELECT k, [1, 2] AS l FROM basket GROUP BY k HAVING COUNT(*) > 2", None),
    "written list of each row": (
        "SELECT k, x FROM basket, UNNEST(ARRAY[k, n, NULL]) AS u (x)",
        "SELECT k, unnest([k, n, NULL]) FROM basket",
    ),
    "written list alone": ("SELECT k, x FROM basket LEFT JOIN UNNEST(ARRAY[1, 2, 2]) AS u (x) ON x = k", None),
    "places of a written list": (
        "SELECT k, o FROM basket JOIN UNNEST(['a,b', 'c', NULL]) WITH ORDINALITY AS u (x, o) ON x = words",
        None,
    ),
    "written list in a subquery": ("SELECT k FROM basket WHERE k IN (SELECT * FROM UNNEST([2, NULL]))", None),
    "fields": ("SELECT k, p.a, p.b FROM basket, UNNEST(parts) p", f"SELECT k, p.a, p.b FROM {PARTS}"),
    "named fields": (
        "SELECT k, one, two FROM basket, UNNEST(parts) p (one, two)",
        f"SELECT k, p.a, p.b FROM {PARTS}",
    ),
    "whole structs": ("SELECT k, u.x.b AS b FROM basket, UNNEST(parts) AS u (x)", f"SELECT k, p.b FROM {PARTS}"),
    "lists": ("SELECT k, generate_series(1, 2) AS c, string_split('a,b', ',') AS w, range(n) AS r FROM basket", None),
    "held": ("SELECT list_contains(items, k) AS a, list_contains(items, 2.0) AS b FROM basket", None),
    "held in a written list": ("SELECT k, list_contains([k, NULL], n) AS a FROM basket", None),
    "held words": (
        "SELECT k, array_contains(string_split(words, ','), 'a') AS a, list_contains(items, NULL) AS b FROM basket",
        None,
    ),
    "held in a condition": ("SELECT b.k, p.item FROM basket b JOIN price p ON list_contains(b.items, p.item)", None),
    "in a subquery": ("SELECT item FROM price WHERE item IN (SELECT x FROM basket, UNNEST(items) AS u (x))", None),
    "numbered": (
        "SELECT k, x FROM basket, UNNEST(items) AS u (x) QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY x) = 1",
        None,
    ),
}  # fmt: skip
DUCK_LEFT = "SELECT p.item FROM price p LEFT JOIN stock s ON s.item = p.item"
BEST = "SELECT p.cents AS c FROM price p WHERE p.item = s.item AND p.cents > 0 ORDER BY 1 DESC"
TIMES = "(SELECT make_timestamp(cents * 200000000000) AS t FROM price)"
ROWS = {
    "except": ("SELECT item FROM price EXCEPT SELECT item FROM stock", None),
    "intersect": ("SELECT * FROM price INTERSECT SELECT * FROM stock", None),
    "both": ("SELECT item FROM price UNION SELECT item FROM stock INTERSECT SELECT cents FROM stock", None),
    "left to right": ("SELECT item FROM price EXCEPT SELECT item FROM stock UNION ALL SELECT cents FROM stock", None),
    "inside": ("SELECT COUNT(*) AS n FROM (SELECT item FROM price EXCEPT SELECT item FROM stock) AS d", None),
    "with": ("WITH p AS (SELECT item FROM price) SELECT item FROM p EXCEPT SELECT item FROM stock", None),
    "first": (f"SELECT s.item, f.c FROM stock s, LATERAL ({BEST} LIMIT 1) f", None),
    "first two": (f"SELECT s.item, f.c FROM stock s LEFT JOIN LATERAL ({BEST} LIMIT 2) f ON TRUE", None),
    "first as a value": (
        "SELECT item, (SELECT cents FROM price p WHERE p.item = s.item ORDER BY cents DESC LIMIT 1) AS c FROM stock s",
        None,
    ),
    "some row": ("SELECT item FROM stock s WHERE EXISTS (SELECT 1 FROM price p WHERE p.item = s.item LIMIT 1)", None),
    "some row of more than are compared": (
        "SELECT item FROM stock s WHERE NOT EXISTS (SELECT 1 FROM price p WHERE p.cents > s.cents LIMIT 5)", None,
    ),
    "some group": (
        """SELECT item FROM stock s WHERE EXISTS (SELECT item, MAX(cents) FROM price p WHERE p.cents > s.cents
           GROUP BY item ORDER BY item LIMIT 1)""",
        None,
    ),
    "some different row": (
        "SELECT item FROM stock s WHERE EXISTS (SELECT DISTINCT cents FROM price p WHERE p.item = s.item LIMIT 2)",
        None,
    ),
    "no row": ("SELECT item FROM stock s WHERE EXISTS (SELECT 1 FROM price p WHERE p.item = s.item LIMIT 0)", None),
    "places from the end": (
        """SELECT item, PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY cents DESC) AS a,
           PERCENTILE_DISC(0.3) WITHIN GROUP (ORDER BY cents DESC) AS b,
           MODE() WITHIN GROUP (ORDER BY item DESC) AS c FROM price GROUP BY item""",
        None,
    ),
    "texts in an order": (
        "SELECT n, LISTAGG(words, '-') WITHIN GROUP (ORDER BY words DESC) AS a FROM basket GROUP BY n",
        "SELECT n, LISTAGG(words, '-' ORDER BY words DESC) AS a FROM basket GROUP BY n",
    ),
    "which keys": ("SELECT item, cents, GROUPING_ID() AS g FROM price GROUP BY CUBE (item, cents)", None),
    "one row": ("SELECT item, (SELECT MAX(cents) FROM price p WHERE p.item = s.item LIMIT 1) AS c FROM stock s", None),
    "few rows": ("SELECT COUNT(*) AS n FROM (SELECT * FROM price LIMIT 3) AS d", None),
    "named columns": (
        "SELECT j.item, price.cents, stock.cents AS c FROM price FULL JOIN stock USING (item) AS j",
        "SELECT item, price.cents, stock.cents AS c FROM price FULL JOIN stock USING (item)",
    ),
    "values alone": ("SELECT 3 IN (SELECT item FROM price) AS e, (SELECT MAX(cents) FROM stock) + 1 AS m", None),
    "values in values": (
        "SELECT item, (SELECT CASE WHEN s.item > 1 THEN (SELECT MAX(cents) FROM price) ELSE 0 END) AS m FROM stock s",
        None,
    ),
    "rows beside a row": (
        "SELECT p.item, v.what, v.x FROM price p, LATERAL (VALUES ('item', p.item), ('cents', p.cents)) v (what, x)",
        None,
    ),
    "some rows beside a row": (
        "SELECT x FROM price p LEFT JOIN LATERAL (SELECT p.item UNION ALL SELECT cents WHERE item > 1) v (x) ON x < 3",
        None,
    ),
    "units as words": (
        f"SELECT date_trunc(MONTH, t) a, timestamp_trunc(t, WEEK) b, datediff(day, DATE '2020-01-31', t) FROM {TIMES}",
        f"SELECT date_trunc('month', t) a, date_trunc('week', t) b, datediff('day', DATE '2020-01-31', t) FROM {TIMES}",
    ),
    "schemas": (
        "SELECT p.item FROM public.price p JOIN main.stock ON stock.item = p.item",
        "SELECT p.item FROM price p JOIN stock ON stock.item = p.item",
    ),
    "how to join": ("SELECT p.item FROM price p LEFT HASH JOIN stock s ON s.item = p.item", DUCK_LEFT),
    "left of a comma": (
        "SELECT p.item, d.z FROM price p, stock s JOIN LATERAL (SELECT p.cents + s.cents) AS d (z) ON d.z > 2",
        None,
    ),
}  # fmt: skip


def some_rows(rng: random.Random, name: str) -> pa.Table:
    def value(name: str) -> object:
        number = rng.choice((0, 1, 2, 3, None))
        made = {
            "items": lambda: rng.choice((None, [], [rng.choice((1, 2, None)) for _ in range(rng.randrange(4))])),
            "words": lambda: rng.choice((None, "", "a", "a,b", ",b,,c")),
            "parts": lambda: rng.choice((None, [], [{"a": number, "b": rng.choice("xy")}, None])),
        }
        return made.get(name, lambda: number)()

    rows = [{field.name: value(field.name) for field in SCHEMAS[name]} for _ in range(rng.randrange(1, 7))]
    return pa.Table.from_pylist(rows, SCHEMAS[name])


def check(queries: dict[str, tuple[str, str | None]], seed: int, *, changing: bool) -> None:
    rng = random.Random(seed)
    session = weft.Session("never-made", workers=2)
    session.options(sharing="none")
    for name, schema in SCHEMAS.items():
        told = pa.schema([*schema, ("op", pa.int64())]) if changing else schema
        session.stream(name, weft.read.batches([told.empty_table()]), **({"changes": "op"} if changing else {}))
    for place, (text, _) in enumerate(queries.values()):
        session.query(f"q{place}", text, cross_product=True)
    trial, here = Trial(session), {name: schema.empty_table() for name, schema in SCHEMAS.items()}
    for number in range(3):
        fed = {}
        for name in SCHEMAS:
            new, old = some_rows(rng, name), here[name]
            gone = sorted(rng.sample(range(old.num_rows), old.num_rows // 3)) if changing else []
            kept = [row for row in range(old.num_rows) if row not in gone]
            here[name] = pa.concat_tables([old.take(pa.array(kept, pa.int64())), new])
            signed = [new.append_column("op", pa.array([1] * new.num_rows, pa.int64()))]
            signed += [old.take(pa.array(gone, pa.int64())).append_column("op", pa.array([-1] * len(gone), pa.int64()))]
            fed[name] = pa.concat_tables(signed) if changing else new
        trial.feed(fed)
        with duckdb.connect(config={"threads": 1}) as con:
            for name, table in here.items():
                con.register(name, table)
            for place, (name, (text, duck)) in enumerate(queries.items()):
                wanted = sorted(map(str, con.sql(duck or text).fetchall()))
                found = sorted(str(tuple(row.values())) for row in trial.table(f"q{place}").to_pylist())
                assert found == wanted, (name, number, text)


@pytest.mark.parametrize("changing", [False, True])
def test_lists_are_taken_apart(changing: bool) -> None:
    check(APART, 1, changing=changing)


@pytest.mark.parametrize("changing", [False, True])
def test_rows_are_compared_and_first_ones_are_found(changing: bool) -> None:
    check(ROWS, 2, changing=changing)


BY_CENTS = "(SELECT p.cents AS c, COUNT(*) AS n FROM price p WHERE p.item = s.item GROUP BY p.cents) d"
TIED_GROUPS = {
    "aggregate": (f"SELECT item, (SELECT MAX(d.n) FROM {BY_CENTS}) AS m FROM stock s", None),
    "counted": (f"SELECT item, (SELECT COUNT(*) FROM {BY_CENTS}) AS m FROM stock s", None),
    "compared": (f"SELECT item FROM stock s WHERE s.cents > (SELECT SUM(d.n) FROM {BY_CENTS})", None),
    "exists": (f"SELECT item FROM stock s WHERE EXISTS (SELECT 1 FROM {BY_CENTS} WHERE d.n >= s.cents)", None),
    "in": (f"SELECT item FROM stock s WHERE s.cents IN (SELECT d.n FROM {BY_CENTS})", None),
    "not in": (f"SELECT item FROM stock s WHERE s.cents NOT IN (SELECT d.c FROM {BY_CENTS})", None),
    "joined": (
        f"SELECT item, (SELECT SUM(d.n * b.n) FROM {BY_CENTS} JOIN basket b ON b.k = d.c) AS m FROM stock s",
        None,
    ),
    "having": (
        (
            "SELECT item, (SELECT COUNT(*) FROM (SELECT p.cents, COUNT(*) FROM price p WHERE p.item = s.item"
            " GROUP BY p.cents HAVING COUNT(*) > 1) AS d (u, v) WHERE u >= v) AS m FROM stock s"
        ),
        None,
    ),
}


@pytest.mark.parametrize("changing", [False, True])
def test_groups_in_a_subquery_read_the_query_around(changing: bool) -> None:
    check(TIED_GROUPS, 3, changing=changing)


TIED = "(SELECT cents FROM price WHERE item = basket.k) d"
REFUSED = {
    "SELECT k FROM basket, UNNEST(k) AS u (x)": ("a BIGINT has no elements", "string_split"),
    "SELECT x FROM UNNEST(basket.items) AS u (x), basket": ("UNNEST stands behind what it reads", "stream first"),
    "SELECT unnest(items) AS x, unnest([k]) AS y FROM basket": ("UNNEST stands in FROM", "FROM t, UNNEST"),
    "SELECT unnest(items) AS x, COUNT(*) AS n FROM basket GROUP BY x": ("UNNEST stands in FROM", "without groups"),
    "SELECT k FROM basket, UNNEST(items, items) AS u (x)": ("UNNEST takes one list", "for each list"),
    "SELECT k FROM basket LEFT JOIN UNNEST(items) AS u (x) ON x > 1": ("LEFT JOIN UNNEST has a condition", "ON TRUE"),
    "SELECT k FROM price LEFT JOIN basket ON item = k, UNNEST(items) AS u (x)": ("cannot stand behind this", "derived"),
    "SELECT k FROM basket, UNNEST(items) AS u (x, y)": ('"u" has 1 columns', "names out"),
    "SELECT k FROM basket, elements(items) AS u": ("there is no table function elements", "UNNEST"),
    "SELECT k FROM basket WHERE k = ANY (items)": ("ANY and ALL take a SELECT or a list that is written", "UNNEST"),
    "SELECT k, ARRAY(SELECT cents FROM price) AS l FROM basket": ("ARRAY(SELECT ...) is not supported", "ARRAY_AGG"),
    f"SELECT k FROM basket WHERE k IN (SELECT d.cents FROM {TIED} FULL JOIN stock s ON s.item = d.cents)": (
        "this join has a derived table that reads the query around",
        "WHERE of the subquery",
    ),
    "SELECT (SELECT MAX(item) FROM price) AS m FROM basket GROUP BY 1": ("a subquery cannot stand in", "derived table"),
    "SELECT CAST(items AS VARCHAR) AS t FROM basket": ("cannot cast BIGINT[] to VARCHAR", "list[1]"),
    "SELECT abs(k, n) AS t FROM basket": ('"abs" takes 1 argument, not 2', "leave arguments out"),
    "SELECT ARG_MAX(k) AS t FROM basket": ("not 1", "missing"),
    "SELECT k, [] AS l FROM basket": ("an empty list has no type", "value"),
    "SELECT k, ARRAY[NULL] AS l FROM basket": ("this list has no type", "CAST"),
    "SELECT k FROM basket WHERE list_contains(items, 'a')": ("cannot hold a VARCHAR", "CAST the value AS"),
    "SELECT k FROM basket WHERE list_contains(k, 1)": ("a BIGINT has no elements", "lists"),
    "SELECT x FROM basket LATERAL VIEW explode(items) u AS x": ("LATERAL VIEW is not supported", "UNNEST"),
    "SELECT k FROM basket WHERE words RLIKE 'a'": ("RLIKE is not supported", "x ~ 'pattern'"),
    "SELECT k FROM basket WHERE k <=> n": ("<=> is not supported", "IS NOT DISTINCT FROM"),
    'SELECT k FROM basket WHERE words = "a,b"': ('no column "a,b"', "single quotes: 'a,b'"),
    "SELECT k, datediff(k, n) AS d FROM basket": ('"date_diff" takes 3 arguments', "date_diff('day'"),
    "SELECT session_window.start FROM basket GROUP BY session_window(k, '1 hour')": ("session_window", "LAG(time)"),
    "SELECT k, [k, words] AS l FROM basket": ("a list of BIGINT and VARCHAR", "CAST"),
    "SELECT k, [k, 1 AS l FROM basket": ("] is missing", "never closed"),
    "SELECT item FROM price EXCEPT SELECT * FROM stock": ("different numbers of columns", "as many"),
    "SELECT item FROM stock s WHERE EXISTS (SELECT 1 FROM (SELECT MAX(p.cents) AS m FROM price p"
    " WHERE p.item = s.item) d WHERE d.m > 1)": ('"d" reads the query around its subquery', "GROUP BY"),
    "SELECT item FROM stock s WHERE EXISTS (SELECT 1 FROM (SELECT MAX(p.nope) AS m FROM price p"
    " WHERE p.item = s.item GROUP BY p.cents) d)": ('"p" has no column "nope"', "name one"),
    "SELECT item, (SELECT SUM(s.cents) FROM price p WHERE p.item = s.item) AS t FROM stock s": (
        "an aggregate of columns of the query around", "derived table",
    ),
    "SELECT item FROM stock s WHERE item IN (SELECT COUNT(*) FILTER (WHERE s.item > 1) FROM price)": (
        "an aggregate of columns of the query around", "derived table",
    ),
    "SELECT t FROM stock s, LATERAL (SELECT SUM(s.cents) AS t FROM price p WHERE p.item = s.item) d": (
        "an aggregate of columns of the query around", "derived table",
    ),
    "SELECT 1 AS x FROM price p ASOF JOIN stock s ON s.item = p.item AND p.cents >= LAG(s.cents) OVER ()": (
        "among many rows cannot stand in ON of an ASOF JOIN", "derived table",
    ),
    "SELECT COUNT(p.*) AS n FROM price p": ("* stands for columns", "COUNT(p.key)"),
    "SELECT item FROM price UNION SELECT item, cents FROM stock": ("different numbers of columns", "as many"),
    "SELECT item FROM price ORDER BY item LIMIT 1 - 2": ("LIMIT and OFFSET take a whole number", "LIMIT 10"),
    "SELECT item FROM price ORDER BY item LIMIT 2 + item": ("LIMIT and OFFSET take a whole number", "LIMIT 10"),
    "SELECT item FROM price ORDER BY item LIMIT 9999999999 * 9999999999": ("take a whole number", "LIMIT 10"),
    "SELECT item FROM price LIMIT 3": ("LIMIT is not supported without ORDER BY", "ORDER BY column"),
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_there_is_refused_with_a_cure(text: str) -> None:
    session = weft.Session("never-made", workers=1)
    for name, schema in SCHEMAS.items():
        session.stream(name, weft.read.batches([schema.empty_table()]))
    with pytest.raises(WeftError) as raised:
        session.query("q", text)
    said, cure = REFUSED[text]
    assert said in raised.value.message
    assert cure in str(raised.value.hint)
    assert "^" in str(raised.value.detail)


def test_present_versions_are_met_as_of_now() -> None:
    session = weft.Session("never-made", workers=2)
    session.stream("price", weft.read.batches([SCHEMAS["price"].empty_table()]))
    session.table("stock", weft.read.batches([SCHEMAS["stock"].empty_table()]), key="item")
    session.view("timed", "SELECT *, LOCALTIMESTAMP AS proc FROM price")
    joined = "SELECT p.cents, s.cents AS c FROM {} p LEFT JOIN stock {} s ON s.item = p.item"
    texts = {
        "plain": joined.format("price", ""),
        "now": joined.format("price", "FOR SYSTEM_TIME AS OF PROCTIME()"),
        "column": joined.format("timed", "FOR SYSTEM_TIME AS OF p.proc"),
    }
    texts["today"] = f"{texts['plain']} WHERE CURRENT_DATE > DATE '2000-01-01'"
    for name, text in texts.items():
        session.query(name, text)
    trial, rng = Trial(session), random.Random(3)
    for _ in range(4):
        stock = some_rows(rng, "stock").filter(pc.field("item").is_valid())
        trial.feed({"price": some_rows(rng, "price"), "stock": stock})
        shown = {name: sorted(map(str, trial.table(name).to_pylist())) for name in texts}
        assert shown["now"] == shown["column"] == shown["today"] == shown["plain"]
    assert shown["plain"]
    snapshot = "TABLE(SNAPSHOT(input => TABLE stock, load_completed_condition => 'user_time'))"
    asked = f"SELECT p.cents, s.cents AS c FROM price p LEFT JOIN LATERAL {snapshot} AS s ON s.item = p.item"
    assert session.query("flink", asked).query == session.queries["plain"].query
    with pytest.raises(WeftError, match="SNAPSHOT has no state_ttl"):
        session.query("q", asked.replace("load_completed_condition", "state_ttl"))
    with pytest.raises(WeftError, match="is no table"):
        session.query("q", "SELECT 1 AS x FROM price p JOIN price FOR SYSTEM_TIME AS OF now() AS s ON s.item = p.item")


SAME = {
    "SELECT ts FROM bid ORDER BY ts LIMIT 2 + 3 OFFSET (2 * (3 - 1))": (
        "SELECT ts FROM bid ORDER BY ts LIMIT 5 OFFSET 4"
    ),
    "SELECT p.item FROM price p LEFT ASOF JOIN stock s MATCH_CONDITION (p.cents >= s.cents) ON s.item = p.item": (
        "SELECT p.item FROM price p ASOF LEFT JOIN stock s ON s.item = p.item AND p.cents >= s.cents"
    ),
    "SELECT TUMBLE_END(ts, INTERVAL '5' MINUTE) AS s FROM bid GROUP BY TUMBLE(ts, INTERVAL '5' MINUTE)": (
        "SELECT window.end AS s FROM bid GROUP BY window(ts, '5 minutes')"
    ),
    "SELECT COUNT(*) AS n FROM bid GROUP BY HOP(ts, INTERVAL '5' MINUTE, INTERVAL '10' MINUTE)": (
        "SELECT COUNT(*) AS n FROM bid GROUP BY window(ts, '10 minutes', '5 minutes')"
    ),
}


@pytest.mark.parametrize("text", SAME)
def test_another_spelling_is_the_same_query(text: str) -> None:
    session = weft.Session("never-made", workers=1)
    session.stream("bid", weft.read.batches([pa.table({"ts": pa.array([], pa.timestamp("us"))})]), event_time="ts")
    for name in ("price", "stock"):
        session.stream(name, weft.read.batches([SCHEMAS[name].empty_table()]))
    assert session.query("one", text).query == session.query("other", SAME[text]).query
