"""Outer joins and subqueries: the plain query that Weft makes of a text answers what DuckDB answers to the text."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import weft
from tests.outer import STREAMS, RandomOuter, connect, plain_sql, rows, tables
from weft import col, exists, fn, from_, rel, value_of
from weft.errors import WeftError
from weft.query.model import Query
from weft.query.visible import unique_names
from weft.sql import to_query
from weft.testing import Trial


def plain(text: str) -> Query:
    return to_query(text, STREAMS, cross_product=True)


def is_inner_join(text: str) -> bool:
    return not any(relation.stream.made for relation in plain(text).relations)


def agree(text: str, seeds: range = range(4)) -> None:
    made = plain(text)
    for seed in seeds:
        with connect(tables(random.Random(seed))) as con:
            assert rows(con, plain_sql(made)) == rows(con, text), (seed, text)


@pytest.mark.fuzz
@pytest.mark.parametrize("start", range(0, 90, 10))
def test_random_outer_joins_mean_what_they_mean_in_duckdb(start: int) -> None:
    for seed in range(start, start + 10):
        rng = random.Random(seed)
        with connect(tables(rng)) as con:
            text = RandomOuter(rng, size=5).text()
            assert rows(con, plain_sql(plain(text))) == rows(con, text), (seed, text)


@pytest.mark.parametrize("on", ["1 = 0", "NULL", "b.k > 1 AND b.k IS NULL"])
def test_a_side_that_is_never_there_is_null_in_a_union_of_terms(on: str) -> None:
    agree(
        f"SELECT a.k, b.k AS l, c.k AS r FROM a LEFT JOIN b ON {on} FULL JOIN c ON c.k = a.k LEFT JOIN d ON d.j = c.j"
    )
    agree(
        f"SELECT a.k, d.x FROM a LEFT JOIN b ON {on} FULL JOIN c ON c.k = a.k FULL JOIN d ON coalesce(b.k, c.j) = d.j"
    )


@pytest.mark.fuzz
@pytest.mark.parametrize("start", range(0, 24, 6))
def test_random_outer_joins_are_right_after_every_batch(start: int) -> None:
    for seed in range(start, start + 6):
        rng = random.Random(seed)
        data, text = tables(rng), RandomOuter(rng, size=3).text()
        session = weft.Session("never-made", workers=2)
        for name, table in data.items():
            session.stream(name, weft.read.batches([table]))
        session.query("q", text, cross_product=True)
        trial = Trial(session)
        for first in (0, 3, 6):
            trial.feed({name: table.slice(first, 3) for name, table in data.items()})
            with connect({name: table.slice(0, first + 3) for name, table in data.items()}) as con:
                found = sorted(str(tuple(row.values())) for row in trial.table("q").to_pylist())
                assert found == rows(con, text), (seed, first, text)


@pytest.mark.parametrize("kind", ["LEFT", "RIGHT", "FULL", "LEFT OUTER", "RIGHT OUTER", "FULL OUTER", "SEMI", "ANTI"])
@pytest.mark.parametrize("condition", ["{} JOIN b USING (k)", "{} JOIN b ON a.k = b.k", "NATURAL {} JOIN b"])
def test_star_lists_the_columns_that_duckdb_lists(kind: str, condition: str) -> None:
    text = f"SELECT * FROM a {condition.format(kind)}"
    agree(text)
    with connect(tables(random.Random(0))) as con:
        assert unique_names(con.sql(text).columns) == tuple(plain(text).schema.names)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k, a.k AS l, b.k AS r FROM a FULL JOIN b USING (k)",
        "SELECT a.*, b.y FROM a RIGHT JOIN b USING (k)",
        "SELECT k, z FROM a FULL JOIN b USING (k) FULL JOIN c USING (k)",
        "SELECT a.k, c.j FROM a LEFT JOIN b JOIN c ON b.k = c.k ON a.k = b.k",
        "SELECT a.k, z FROM (a LEFT JOIN (b LEFT JOIN c ON b.k = c.k) ON a.x = b.x)",
        "SELECT a.k, d.n FROM a LEFT JOIN (SELECT k, COUNT(*) AS n FROM b GROUP BY k) d ON d.k = a.k",
        "SELECT a.x, COUNT(b.k) AS n FROM a LEFT JOIN b ON a.k = b.k GROUP BY a.x HAVING COUNT(b.k) < 3",
        "SELECT DISTINCT a.x FROM a LEFT JOIN b ON a.k = b.k WHERE b.k IS NULL",
        "WITH p AS (SELECT a.k, b.y FROM a LEFT JOIN b ON a.k = b.k) SELECT p.k, c.j FROM p LEFT JOIN c ON c.k = p.y",
        "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k UNION ALL SELECT k FROM c WHERE NOT EXISTS (FROM_D)",
        "SELECT k FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND x IN (SELECT j FROM c WHERE c.k = y))",
        "SELECT k FROM a WHERE x = (SELECT MAX(x) FROM a AS i WHERE i.k = a.k)",
        "SELECT k, (SELECT COUNT(*) FROM b WHERE b.k = a.k) AS n FROM a",
        "SELECT k FROM a WHERE (SELECT COUNT(*) FROM b WHERE b.k = a.k) = 0",
        "SELECT k FROM a WHERE NOT (NOT EXISTS (SELECT * FROM b WHERE b.k < a.k))",
        "SELECT k FROM a WHERE CASE WHEN x = 1 THEN EXISTS (SELECT 1 FROM b WHERE b.k = a.k) ELSE x = 2 END",
        "SELECT x FROM a WHERE x NOT IN (SELECT x FROM b WHERE b.k = 1) OR x IS NULL",
        "SELECT a.k FROM a LEFT JOIN b ON FALSE",
        "SELECT k, SUM(x) AS s FROM a GROUP BY k HAVING SUM(x) > (SELECT MAX(k) FROM b) AND COUNT(*) < 9",
        "SELECT x, COUNT(*) + (SELECT MAX(y) FROM b) AS n FROM a GROUP BY x HAVING x IN (SELECT k FROM c)",
        "SELECT k, (SELECT MAX(y) FROM b) AS m FROM a",
        "SELECT a.k, b.y FROM a LEFT JOIN b ON a.k = b.k AND a.x > 1 WHERE b.y IS NULL OR b.y > 1",
        "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k WHERE FALSE",
        "SELECT t.k, t.y FROM (a NATURAL JOIN b) AS t",
        "SELECT t.p, t.s FROM (a LEFT JOIN b ON a.k = b.k) t (p, q, r, s) WHERE t.s IS NULL",
        "SELECT k FROM a WHERE x IN (WITH t AS (SELECT x, k FROM b WHERE y > 1) SELECT x FROM t WHERE t.k = a.k)",
        "SELECT k FROM a WHERE EXISTS (WITH t (v) AS (SELECT k FROM b), u AS (FROM_T) SELECT 1 FROM u WHERE v = a.k)",
        "SELECT k, (WITH t AS (SELECT y FROM b) SELECT MAX(y) FROM t) AS m FROM a",
        "SELECT MAX((SELECT COUNT(*) FROM b WHERE b.k = a.k)) AS m FROM a",
        "SELECT x, COUNT(*) FILTER (WHERE k IN (SELECT k FROM b)) AS n FROM a GROUP BY x",
        "SELECT x FROM a GROUP BY x HAVING MAX((SELECT COUNT(*) FROM b WHERE b.k = a.k)) > 1",
        "SELECT x, SUM(k) + (SELECT COUNT(*) FROM b WHERE b.k = x) AS n FROM a GROUP BY x",
        "SELECT k FROM a WHERE (k, x) IN (SELECT k, x FROM b)",
        "SELECT k FROM a WHERE (k, x) NOT IN (SELECT k, x FROM b WHERE b.y = 1)",
        "SELECT k, (k, x) IN (SELECT k, x FROM b) AS found FROM a",
        "SELECT a.k FROM a, b WHERE (a.k, b.y) IN ((1, 1), (2, 3))",
        "SELECT k FROM a WHERE x < ANY (SELECT y FROM b WHERE b.k = a.k)",
        "SELECT k FROM a WHERE x >= ALL (SELECT y FROM b WHERE b.k = a.k)",
        "SELECT k, x <= ALL (SELECT y FROM b) AS least, x <> SOME (SELECT x FROM b) AS other FROM a",
        "SELECT k, (x = ANY (SELECT y FROM b WHERE b.k = a.k)) IS NULL AS is_open FROM a",
        "SELECT a.k, d.s FROM a, LATERAL (SELECT b.y + a.x AS s FROM b WHERE b.k = a.k AND b.y > 1) d",
        "SELECT a.k, w, z FROM a LEFT JOIN LATERAL (SELECT y + a.x w, ifnull(y, 0) z FROM b WHERE b.k < a.k) ON TRUE",
        "SELECT k FROM a WHERE EXISTS (SELECT 1 FROM (SELECT y FROM b WHERE b.k = a.k) t JOIN c ON c.k = t.y)",
        "SELECT k FROM a WHERE x IN (WITH t AS (SELECT y FROM b WHERE b.k = a.k) SELECT y FROM t)",
        "SELECT (SELECT MAX(y) FROM b WHERE k = 2 GROUP BY k) AS m FROM a GROUP BY a.x",
        "SELECT a.k, d.m, d.n FROM a, LATERAL (SELECT MAX(y) AS m, COUNT(*) AS n FROM b WHERE b.k = a.k) d",
        "SELECT a.k, d.m FROM a LEFT JOIN LATERAL (SELECT MAX(y) AS m FROM b WHERE b.k = a.k) d ON TRUE WHERE d.m > 1",
        "SELECT a.k, v.s FROM a JOIN b ON a.k = b.k, LATERAL (SELECT a.x + b.y) v (s)",
        "SELECT a.k, v.s FROM a LEFT JOIN LATERAL (SELECT a.x + 1 AS s) v ON v.s > 2",
        "SELECT k FROM a WHERE EXISTS (SELECT 1 FROM b, LATERAL (SELECT b.y + a.x AS s) d WHERE b.k = a.k AND s > 2)",
        "SELECT a.k, c.one FROM a, (SELECT 1 AS one, 2 AS two) c",
        "SELECT a.k, c.one FROM a FULL JOIN (SELECT 1 AS one, 2 AS two) c ON a.k = c.two",
        "SELECT k FROM a WHERE k IN (SELECT 1) OR EXISTS (SELECT 1 WHERE a.x > 1)",
        "SELECT k, (SELECT a.k + 1) AS n FROM a",
        "SELECT k FROM a UNION ALL SELECT 1",
        "SELECT a.k, v.n FROM a JOIN (VALUES (1, 'x'), (2, 'y')) AS v (k, n) ON v.k = a.k",
        "SELECT v.n, a.x FROM (VALUES (1, 'x'), (9, 'y')) AS v (k, n) LEFT JOIN a ON v.k = a.k",
        "WITH v (p) AS (VALUES (1), (2)) SELECT COUNT(*) AS n FROM v, a WHERE p = k",
        "SELECT k FROM a WHERE (k, x) IN (VALUES (1, 1), (2, 3)) AND k NOT IN (VALUES (0))",
        "SELECT k, (SELECT COUNT(*) FROM b WHERE b.k > a.k) AS n FROM a",
        "SELECT k, x, (SELECT MAX(y) FROM b WHERE b.k <> a.k AND b.y >= a.x + 1) AS m FROM a",
        "SELECT k FROM a WHERE k IN (SELECT MAX(k) FROM b WHERE b.y < a.x GROUP BY b.x)",
    ],
)
def test_these_mean_what_they_mean_in_duckdb(text: str) -> None:
    agree(text.replace("FROM_D", "SELECT 1 FROM d WHERE d.j = c.j").replace("FROM_T", "SELECT v + 1 AS v FROM t"))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k, (SELECT y FROM b WHERE b.k = a.k) AS y FROM a",
        "SELECT k FROM a WHERE x = (SELECT y FROM b WHERE b.k = a.k)",
        "SELECT k FROM a WHERE (SELECT y FROM b WHERE b.k = a.k) > 1",
        "SELECT k, (SELECT y FROM b WHERE b.k = 2) AS y, (SELECT k FROM b UNION SELECT 2) AS u FROM a WHERE k > 1",
    ],
)
def test_a_subquery_that_is_a_value_has_one_row_at_most(text: str) -> None:
    once = {"a": [(1, 1), (2, 4), (3, None)], "b": [(2, 4), (7, 7), (7, 8)]}
    left = pa.table({"k": [k for k, _ in once["a"]], "x": [x for _, x in once["a"]]})
    right = pa.table({"k": [k for k, _ in once["b"]], "y": [y for _, y in once["b"]]})
    session = weft.Session("never-made", workers=2)
    session.stream("a", weft.read.batches([left]))
    session.stream("b", weft.read.batches([right]))
    session.query("q", text.replace("UNION SELECT 2", "WHERE k < 7 UNION SELECT 2"))
    trial = Trial(session)
    trial.feed({"a": left, "b": right})
    with connect({"a": left, "b": right}) as con:
        expected = sorted(map(str, con.sql(text.replace("UNION SELECT 2", "WHERE k < 7 UNION SELECT 2")).fetchall()))
    assert sorted(str(tuple(row.values())) for row in trial.table("q").to_pylist()) == expected
    with pytest.raises(WeftError, match="more than one row") as caught:
        trial.feed({"b": pa.table({"k": [2], "y": [5]})})
    assert caught.value.detail
    assert caught.value.hint


@pytest.mark.parametrize(
    ("rows_", "spelled"),
    [
        ("(a.k, a.x) = (b.k, b.x)", "a.k = b.k AND a.x = b.x"),
        ("(a.k, a.x) <> (b.k, b.x)", "NOT (a.k = b.k AND a.x = b.x)"),
        ("(a.k, a.x) < (b.k, b.x)", "a.k < b.k OR (a.k = b.k AND a.x < b.x)"),
        ("(a.k, a.x, 1) >= (b.k, b.x, b.y)", "a.k > b.k OR (a.k = b.k AND (a.x > b.x OR (a.x = b.x AND 1 >= b.y)))"),
    ],
)
def test_rows_are_compared_as_the_standard_says(rows_: str, spelled: str) -> None:
    made = plain(f"SELECT a.k, b.y FROM a, b WHERE {rows_}")
    with connect(tables(random.Random(0))) as con:
        assert rows(con, plain_sql(made)) == rows(con, f"SELECT a.k, b.y FROM a, b WHERE {spelled}")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k WHERE b.x > 1",
        "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k WHERE b.x IS NOT NULL",
        "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k WHERE b.x + a.x < 5 OR b.x = 1",
        "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k JOIN c ON c.k = b.x",
        "SELECT a.k FROM a FULL JOIN b ON a.k = b.k WHERE a.x = b.x",
        "SELECT a.k FROM a RIGHT JOIN b ON a.k = b.k WHERE lower(a.s::VARCHAR) = '1'",
        "SELECT c.k FROM (a LEFT JOIN b ON a.k = b.k) JOIN c ON c.j = a.x AND c.z IN (b.x, 3) WHERE b.y IN (1, 2)",
    ],
)
def test_a_condition_that_rejects_nulls_makes_an_inner_join(text: str) -> None:
    assert is_inner_join(text)
    agree(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k WHERE coalesce(b.x, 1) = 1",
        "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k WHERE b.x = 1 OR a.x = 1",
        "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k WHERE b.x IS NULL",
        "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k WHERE b.x IS DISTINCT FROM 1",
        "SELECT a.k FROM c LEFT JOIN (a LEFT JOIN b ON a.k = b.k) ON c.k = a.k WHERE a.x = 1",
    ],
)
def test_a_condition_that_lets_nulls_through_does_not(text: str) -> None:
    assert not is_inner_join(text)
    agree(text)


TIES = ("c.k = a.k", "c.k = b.k", "c.j < b.x", "c.j >= a.x", "TRUE", "c.k = a.k AND c.j = b.y")
ASKED = (
    "EXISTS (SELECT 1 FROM c WHERE {})",
    "NOT EXISTS (SELECT 1 FROM c LEFT JOIN d ON d.j = c.j AND EXISTS (SELECT 1 FROM a p WHERE p.k = d.x) WHERE {})",
    "b.x IN (SELECT c.k FROM c WHERE {})",
    "a.x NOT IN (SELECT c.j FROM c WHERE {})",
    "b.x >= (SELECT MAX(c.z) FROM c WHERE {})",
    "(a.x = 1 OR b.x NOT IN (SELECT c.j FROM c WHERE {}) OR EXISTS (SELECT 1 FROM d))",
)


@pytest.mark.parametrize("kind", ["LEFT", "RIGHT", "FULL", "SEMI", "ANTI"])
@pytest.mark.parametrize("asked", ASKED)
def test_subqueries_in_on_mean_what_they_mean_in_duckdb(kind: str, asked: str) -> None:
    for tie in TIES:
        condition = asked.format(tie)
        if kind != "FULL" or not ("a." in condition and "b." in condition):
            agree(f"SELECT a.k, a.x FROM a {kind} JOIN b ON a.k = b.k AND {condition}", range(2))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SELECT k FROM a LEFT JOIN b ON a.k = b.k", 'column "k" is ambiguous'),
        ("SELECT a.nope FROM a LEFT JOIN b ON a.k = b.k", '"a" has no column "nope"'),
        ("SELECT a.k FROM a LEFT JOIN b AS a ON TRUE", "duplicate alias"),
        ("SELECT b.k FROM a SEMI JOIN b ON a.k = b.k", 'no alias "b"'),
        ("SELECT a.k FROM a WHERE x = (SELECT DISTINCT x FROM b WHERE b.k = a.k)", "must be an aggregate"),
        ("SELECT a.k FROM a WHERE x IN (SELECT k, x FROM b)", "must select one column"),
        ("SELECT a.k FROM a ASOF JOIN b ON a.x >= b.x AND EXISTS (SELECT 1 FROM c)", "cannot stand in ON"),
        ("SELECT a.k FROM a GROUP BY (SELECT MAX(k) FROM b)", "cannot stand in GROUP BY"),
    ],
)
def test_what_cannot_be_answered_is_refused_with_a_caret(text: str, says: str) -> None:
    with pytest.raises(WeftError) as caught:
        plain(text)
    assert says in str(caught.value)
    assert "^" in str(caught.value)


def test_the_builder_says_the_same_as_sql() -> None:
    a, b, c = rel("a"), rel("b"), rel("c")
    partners = from_(c).where(col("c.k") == col("a.k"), "c.z > 1")
    largest = from_(rel("d")).where("d.j = a.k").select(fn("max", col("d.x")))
    pairs = [
        (
            from_(a).left_join(b, "a.k = b.k", col("b.x") > 1).select("a.k", "b.y"),
            "SELECT a.k, b.y FROM a LEFT JOIN b ON a.k = b.k AND b.x > 1",
        ),
        (
            from_(a).join(b, "a.k = b.k").full_join(c, "a.k = c.k").where("c.j = 1 OR a.x = 1").select("a.k", "c.z"),
            "SELECT a.k, c.z FROM a JOIN b ON a.k = b.k FULL JOIN c ON a.k = c.k WHERE c.j = 1 OR a.x = 1",
        ),
        (from_(a).right_join(b, "a.k = b.k").select("b.k"), "SELECT b.k FROM a RIGHT JOIN b ON a.k = b.k"),
        (from_(a).semi_join(b, "a.k = b.k").select("a.k"), "SELECT a.k FROM a SEMI JOIN b ON a.k = b.k"),
        (from_(a).anti_join(b, "a.k = b.k").select("a.k"), "SELECT a.k FROM a ANTI JOIN b ON a.k = b.k"),
        (
            from_(a).where(~exists(partners.select("c.j")), col("a.x").is_in(partners.select("c.j"))).select("a.k"),
            (
                "SELECT a.k FROM a WHERE NOT EXISTS (SELECT c.j FROM c WHERE c.k = a.k AND c.z > 1)"
                " AND a.x IN (SELECT c.j FROM c WHERE c.k = a.k AND c.z > 1)"
            ),
        ),
        (
            from_(a).where(col("a.x") < value_of(largest)).select("a.k"),
            "SELECT a.k FROM a WHERE a.x < (SELECT max(d.x) FROM d WHERE d.j = a.k)",
        ),
    ]
    for built, text in pairs:
        assert to_query(built, STREAMS).schema == plain(text).schema
        assert plain_sql(to_query(built, STREAMS)) == plain_sql(to_query(text, STREAMS)), text


ADDED = [
    "SELECT a.k, c.z FROM a LEFT JOIN c ON a.k = c.k",
    "SELECT a.k FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k)",
    "SELECT a.k FROM a WHERE x IN (SELECT x FROM b) AND NOT EXISTS (SELECT 1 FROM c WHERE c.j = a.k)",
    "SELECT a.k, EXISTS (SELECT 1 FROM c WHERE c.k = a.k) AS e FROM a",
]
TAKEN_BACK = [
    "SELECT a.k, b.k AS l FROM a LEFT JOIN b ON a.k = b.k",
    "SELECT k FROM a WHERE k NOT IN (SELECT k FROM b)",
]


@pytest.mark.parametrize("text", [*ADDED, *TAKEN_BACK])
def test_rows_are_taken_back_only_where_a_partner_may_come_later(text: str) -> None:
    """Partners in a table are there before the row; one partner more changes nothing for EXISTS."""
    data = tables(random.Random(3), 9)
    session = weft.Session("never-made", workers=2)
    for name in "ab":
        session.stream(name, weft.read.batches([data[name]]))
    session.table("c", weft.read.batches([data["c"]]))
    assert session.query("q", text).query.is_changing == (text in TAKEN_BACK)
    trial = Trial(session)
    for first in (0, 3, 6):
        fed = {name: data[name].slice(first, 3) for name in "ab"}
        trial.feed({**fed, "c": data["c"]} if first == 0 else fed)
        with connect({**{name: data[name].slice(0, first + 3) for name in "ab"}, "c": data["c"]}) as con:
            assert sorted(str(tuple(row.values())) for row in trial.table("q").to_pylist()) == rows(con, text)
