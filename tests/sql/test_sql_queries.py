"""SQL text and the builder give equal queries; names, windows and outputs come out as written."""

import datetime as dt
from decimal import Decimal
from functools import reduce
from operator import or_

import pyarrow as pa
import pytest

from tests.sql.shop import FUNCTIONS, STREAMS
from weft.errors import PlanError, QueryError
from weft.expr.model import Call, Literal, Udf
from weft.expr.render import to_sql
from weft.query.builder import col, fn, from_, lit, rel
from weft.query.model import Query
from weft.sql import parse_expression, to_query

MINUTE = 60_000_000
Q3 = """
  SELECT o.o_orderkey, l.l_partkey, c.c_name -- the three keys
  FROM customer c
  JOIN orders   o WITHIN INTERVAL '10' MINUTE ON o.o_custkey = c.c_custkey
  JOIN lineitem l WITHIN INTERVAL '5' MINUTE  ON l.l_orderkey = o.o_orderkey AND l.l_price > o.o_limit
  WHERE c.c_segment = 'BUILDING';
"""


def query(text: str, **options: bool) -> Query:
    return to_query(text, STREAMS, FUNCTIONS, **options)


def windows(text: str) -> dict[str, int | None]:
    return {relation.alias: relation.window for relation in query(text, cross_product=True).relations}


def predicates(where: str, tables: str = "orders o, lineitem l") -> list[str]:
    found = query(f"SELECT 1 AS one FROM {tables} WHERE {where}", cross_product=True)
    return [to_sql(predicate) for predicate in found.predicates]


def test_the_example_of_the_readme() -> None:
    q = query(Q3)
    assert q.aliases == ("c", "o", "l")
    assert [relation.window for relation in q.relations] == [None, 10 * MINUTE, 5 * MINUTE]
    assert [to_sql(predicate) for predicate in q.predicates] == [
        "c.c_custkey = o.o_custkey",
        "o.o_orderkey = CAST(l.l_orderkey AS BIGINT)",
        "CAST(o.o_limit AS DOUBLE) < l.l_price",
        "c.c_segment = 'BUILDING'",
    ]
    assert q.schema == pa.schema([("o_orderkey", pa.int64()), ("l_partkey", pa.int64()), ("c_name", pa.string())])


def test_the_builder_gives_an_equal_query() -> None:
    sources = (rel("customer", "c"), rel("orders", "o", within="10 minutes"), rel("lineitem", "l", within=300))
    terms = (
        from_(*sources)
        .where(col("o.o_custkey") == col("c.c_custkey"), col("l.l_orderkey") == col("o.o_orderkey"))
        .where(col("l.l_price") > col("o.o_limit"), col("c.c_segment") == "BUILDING")
        .select(col("o.o_orderkey"), "l.l_partkey", c_name=col("c.c_name"))
    )
    texts = (
        from_(*sources)
        .where("o.o_custkey = c.c_custkey", "l.l_orderkey = o.o_orderkey AND l.l_price > o.o_limit")
        .where("c.c_segment = 'BUILDING'")
        .select("o.o_orderkey", "l.l_partkey", "c.c_name")
    )
    assert to_query(terms, STREAMS) == to_query(texts, STREAMS) == query(Q3)


@pytest.mark.parametrize(
    ("term", "text"),
    [
        (col("o_limit") + 1, "o_limit + 1"),
        (2 - col("o_limit") * 3 / 4 % 5, "2 - o_limit * 3 / 4 % 5"),
        (-col("o_custkey") // 2, "-o_custkey // 2"),
        ((col("o_custkey") > 1) & ~(col("o_ts").is_null()) | (col("o_custkey") != 7),
         "o_custkey > 1 AND NOT o_ts IS NULL OR o_custkey <> 7"),
        (col("o_custkey").between(1, 5), "o_custkey BETWEEN 1 AND 5"),
        (reduce(or_, [col("o_custkey") == k for k in range(500)]),
         " OR ".join(f"o_custkey = {k}" for k in range(500))),
        ((col("o_custkey") > 1) & (col("o_custkey") > 2) & ((col("o_custkey") > 3) & (col("o_custkey") > 4)),
         "o_custkey > 1 AND o_custkey > 2 AND (o_custkey > 3 AND o_custkey > 4)"),
        (col("o_custkey").is_in([1, 2]), "o_custkey IN (1, 2)"),
        (col("o.o_ts").is_null(), "o.o_ts IS NULL"),
        (fn("lower", fn("concat", col("o_custkey"), "x")).like("a%"), "lower(concat(o_custkey, 'x')) LIKE 'a%'"),
        (col("o_ts") + dt.timedelta(minutes=5), "o_ts + INTERVAL '5' MINUTE"),
        (lit(Decimal("1.50")), "1.50"),
    ],
)  # fmt: skip
def test_terms_mean_what_their_text_means(term: object, text: str) -> None:
    by_term = from_(rel("orders", "o")).select(x=term)  # type: ignore[arg-type]
    by_text = from_(rel("orders", "o")).select(x=text)
    assert to_query(by_term, STREAMS) == to_query(by_text, STREAMS) == query(f"SELECT {text} AS x FROM orders o")


def test_a_term_has_no_truth_value() -> None:
    with pytest.raises(QueryError, match="no truth value"):
        bool(col("a") == 1)


@pytest.mark.parametrize(
    "length",
    ["INTERVAL '10' MINUTE", "INTERVAL '10 minutes'", "INTERVAL 10 MINUTE", "'10 minutes'", "10 MINUTES", "'600s'"],
)
def test_every_way_to_write_a_window(length: str) -> None:
    text = f"SELECT o_orderkey FROM orders AS o WITHIN {length} JOIN lineitem l ON o.o_orderkey = l.l_orderkey"
    assert windows(text) == {"o": 10 * MINUTE, "l": None}


def test_trailing_window_is_the_default_of_the_others() -> None:
    text = "SELECT 1 AS x FROM orders o JOIN lineitem l WITHIN UNBOUNDED ON o_orderkey = l_orderkey WITHIN '1 minute'"
    assert windows(text) == {"o": MINUTE, "l": None}
    text = "SELECT 1 AS x FROM orders o, lineitem WITHIN '2 minutes' WHERE o_orderkey = l_orderkey WITHIN '1 minute';"
    assert windows(text) == {"o": MINUTE, "lineitem": 2 * MINUTE}


def test_order_of_predicates_is_on_then_where() -> None:
    text = "SELECT 1 AS x FROM orders o JOIN lineitem l ON o_orderkey = l_orderkey WHERE l_price > 2 AND l_price < 3"
    assert [to_sql(p) for p in query(text).predicates] == [
        "o.o_orderkey = CAST(l.l_orderkey AS BIGINT)", "l.l_price > 2.0e0", "l.l_price < 3.0e0",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("l.L_PRICE BETWEEN 1 AND 2", ["l.l_price >= 1.0e0", "l.l_price <= 2.0e0"]),
        ("l_orderkey = 5", ["l.l_orderkey = 5"]),
        ("l_orderkey = 5000000000", ["CAST(l.l_orderkey AS BIGINT) = 5000000000"]),
        ("o_limit > 100", ["o.o_limit > CAST(100.00 AS DECIMAL(12, 2))"]),
        ("o_ts < '2020-01-01'", ["o.o_ts < TIMESTAMP '2020-01-01 00:00:00'"]),
        ("o_ts < DATE '2020-01-31' + INTERVAL '1' MONTH", ["o.o_ts < TIMESTAMP '2020-02-29 00:00:00'"]),
        ("l_ts - o_ts <= INTERVAL '90' SECOND", ["l.l_ts - o.o_ts <= INTERVAL '90' SECOND"]),
        ("l_partkey NOT IN (1, 2, NULL)", ["NOT l.l_partkey IN (1, 2, CAST(NULL AS BIGINT))"]),
        ("l_partkey IN (o_custkey, 3)", ["o.o_custkey = l.l_partkey OR l.l_partkey = 3"]),
        ("l_price > 1 + 2 * 3", ["l.l_price > 7.0e0"]),
        ("l_price IS NOT NULL AND (l_price < 1 OR l_price > 5)",
         ["l.l_price IS NOT NULL", "l.l_price < 1.0e0 OR l.l_price > 5.0e0"]),
        ("CASE l_partkey WHEN 1 THEN true ELSE false END", ["CASE WHEN l.l_partkey = 1 THEN TRUE ELSE FALSE END"]),
        ("l_price::INT = 3", ["CAST(l.l_price AS INTEGER) = 3"]),
        ("EXTRACT(year FROM o_ts) = 2020", ["year(o.o_ts) = 2020"]),
        ("NULL", ["CAST(NULL AS BOOLEAN)"]),
    ],
)  # fmt: skip
def test_typed_predicates(where: str, expected: list[str]) -> None:
    assert predicates(where) == expected


def test_stars_and_names_of_outputs() -> None:
    q = query(
        "SELECT o.*, l_price * 2, upper('a') u, L_PARTKEY FROM orders o, lineitem l WHERE o_orderkey = l_orderkey"
    )
    assert [output.name for output in q.outputs] == [
        "o_orderkey", "o_custkey", "o_limit", "o_ts", "l_price * 2", "u", "l_partkey",
    ]  # fmt: skip
    assert len(query("SELECT * FROM orders o, lineitem l WHERE o_orderkey = l_orderkey").outputs) == 8


def test_self_join() -> None:
    q = query("SELECT a.o_orderkey x, b.o_orderkey y FROM orders a JOIN orders b ON a.o_custkey = b.o_custkey")
    assert q.aliases == ("a", "b")


def test_registered_functions() -> None:
    q = query("SELECT Distance(l_price, 2) d FROM lineitem")
    expr = q.outputs[0].expr
    assert isinstance(expr, Udf)
    assert (expr.name, expr.type) == ("distance", pa.float64())


def test_cross_products_need_consent() -> None:
    text = "SELECT 1 AS x FROM orders a, orders b, lineitem l WHERE a.o_custkey = b.o_custkey"
    with pytest.raises(PlanError, match="cross product") as caught:
        query(text)
    assert "{a, b} and {l}" in str(caught.value)
    assert query(text, cross_product=True).cross_product


def test_a_predicate_over_three_aliases_does_not_connect() -> None:
    with pytest.raises(PlanError, match="cross product"):
        query("SELECT 1 AS x FROM orders a, orders b, lineitem l WHERE a.o_custkey + b.o_custkey = l.l_partkey")


def test_precedence() -> None:
    expr = parse_expression("a + b * 2 = c OR NOT d AND e || 'x' LIKE 'y%'")
    assert to_sql(expr) == "a + b * 2 = c OR NOT d AND e || 'x' LIKE 'y%'"
    assert to_sql(parse_expression("-(a - (b - c))")) == "-(a - (b - c))"
    assert to_sql(parse_expression("(a OR b) AND c")) == "(a OR b) AND c"


def test_rendered_text_parses_to_the_same_tree() -> None:
    for text in ["a = 1 AND b <> 'it''s'", '"odd name"."x y" + 1', "CASE WHEN a THEN 1 ELSE 2 END", "a IN (1, 2)",
                 "CAST(a AS DECIMAL(5, 2))", "a IS NULL OR b IS NOT NULL", "a // 2 % 3"]:  # fmt: skip
        tree = parse_expression(text)
        assert parse_expression(to_sql(tree)) == tree
        assert to_sql(tree) == text


def test_quoted_names_keep_their_case() -> None:
    assert parse_expression('"O"."Weird ""x"""') == parse_expression('"O"."Weird ""x"""')
    assert isinstance(parse_expression("date"), type(parse_expression("x")))
    assert parse_expression("date '2020-01-01'") == Call("cast", (Literal("2020-01-01"),), pa.date32())
