"""GROUP BY, HAVING, DISTINCT and aggregates: what they mean, and what is refused."""

import pyarrow as pa
import pytest

from tests.sql.shop import FUNCTIONS, STREAMS
from weft.errors import QueryError, WeftError
from weft.expr.render import to_sql
from weft.query.builder import col, count, fn, from_, rel, window
from weft.query.grouping import Aggregate, Grouping, TimeWindow
from weft.query.model import Query, Stream, Unit
from weft.sql import parse_expression, to_query

MINUTE = 60_000_000
J = "FROM orders o JOIN lineitem l ON o.o_orderkey = l.l_orderkey"


def query(text: str) -> Query:
    return to_query(text, STREAMS, FUNCTIONS)


def grouping(text: str) -> Grouping:
    found = query(text).grouping
    assert found is not None
    return found


def joined(text: str) -> dict[str, str]:
    return {output.name: to_sql(output.expr) for output in query(text).outputs}


def shown(text: str) -> dict[str, str]:
    return {output.name: to_sql(output.expr) for output in grouping(text).outputs}


def values(text: str) -> list[tuple[str, str | None]]:
    return [(aggregate.kind, aggregate.argument) for aggregate in grouping(text).aggregates]


def test_the_example_of_the_model() -> None:
    text = f"SELECT o.o_custkey AS c, SUM(l.l_partkey) / 2 AS half {J} GROUP BY o.o_custkey HAVING COUNT(*) > 1"
    assert joined(text) == {"#k0": "o.o_custkey", "#x0": "l.l_partkey"}
    found = grouping(text)
    assert found.keys == ("#k0",)
    assert found.aggregates == (Aggregate("sum", "#x0", pa.int64()), Aggregate("count", None, pa.int64()))
    assert shown(text) == {"c": '"#k0"', "half": 'CAST("#a0" AS DOUBLE) / 2.0e0'}
    assert found.having is not None
    assert to_sql(found.having) == '"#a1" > 1'
    assert query(text).schema == pa.schema([("c", pa.int64()), ("half", pa.float64())])


@pytest.mark.parametrize(
    ("call", "kind", "argument", "gives"),
    [
        ("count(*)", "count", None, pa.int64()),
        ("count()", "count", None, pa.int64()),
        ("COUNT(1)", "count", None, pa.int64()),
        ("count(NULL)", "count", "CAST(NULL AS BOOLEAN)", pa.int64()),
        ("count(l_price)", "count", "l.l_price", pa.int64()),
        ("count(DISTINCT l_price)", "distinct", "l.l_price", pa.int64()),
        ("approx_count_distinct(l_price)", "distinct", "l.l_price", pa.int64()),
        ("sum(l_orderkey)", "sum", "l.l_orderkey", pa.int64()),
        ("sum(l_price)", "sum", "l.l_price", pa.float64()),
        ("sum(o_limit)", "sum", "o.o_limit", pa.decimal128(38, 2)),
        ("sum(l_price > 1)", "sum", "CAST(l.l_price > 1.0e0 AS BIGINT)", pa.int64()),
        ("avg(o_limit)", "avg", "o.o_limit", pa.float64()),
        ("mean(l_orderkey)", "avg", "l.l_orderkey", pa.float64()),
        ("min(o_ts)", "min", "o.o_ts", pa.timestamp("us")),
        ("max(DISTINCT l_orderkey)", "max", "l.l_orderkey", pa.int32()),
        ("bool_and(l_price > 1)", "bool_and", "l.l_price > 1.0e0", pa.bool_()),
        ("bool_or(NULL)", "bool_or", "CAST(NULL AS BOOLEAN)", pa.bool_()),
        ("sum(l_price) FILTER (WHERE l_partkey = 1)", "sum",
         "CASE WHEN l.l_partkey = 1 THEN l.l_price ELSE CAST(NULL AS DOUBLE) END", pa.float64()),
        ("count(*) FILTER (WHERE l_partkey = 1)", "count",
         "CASE WHEN l.l_partkey = 1 THEN 1 ELSE CAST(NULL AS BIGINT) END", pa.int64()),
    ],
)  # fmt: skip
def test_what_aggregates_take_and_give(call: str, kind: str, argument: str | None, gives: pa.DataType) -> None:
    text = f"SELECT {call} AS x {J}"
    assert list(joined(text).values()) == ([] if argument is None else [argument])
    assert grouping(text).aggregates == (Aggregate(kind, None if argument is None else "#x0", gives),)  # type: ignore[arg-type]


def test_without_group_by_there_is_one_group() -> None:
    assert grouping("SELECT count(*) AS n FROM orders").keys == ()
    assert grouping("SELECT 1 AS one FROM orders HAVING count(*) > 1").keys == ()


def test_equal_keys_arguments_and_aggregates_are_one() -> None:
    text = (
        "SELECT o_custkey, sum(o_orderkey), SUM(o.o_orderkey) + 1 AS y, avg(O_ORDERKEY) AS z FROM orders o "
        "GROUP BY o.o_custkey, O_CUSTKEY HAVING sum(o_orderkey) > 1"
    )
    assert joined(text) == {"#k0": "o.o_custkey", "#x0": "o.o_orderkey"}
    assert values(text) == [("sum", "#x0"), ("avg", "#x0")]


def test_constants_of_other_types_are_not_equal() -> None:
    text = "SELECT o_custkey + 1 AS a FROM orders GROUP BY o_custkey + 1.0"
    with pytest.raises(QueryError, match="neither grouped nor aggregated"):
        query(text)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("SELECT o_custkey + 1 AS k FROM orders GROUP BY k", "orders.o_custkey + 1"),
        ("SELECT o_custkey + 1 AS k FROM orders GROUP BY 1", "orders.o_custkey + 1"),
        ("SELECT (O_CUSTKEY + 1) * 2 AS x FROM orders GROUP BY o_custkey + 1", "orders.o_custkey + 1"),
        ("SELECT o_custkey AS x FROM orders o GROUP BY o.o_custkey", "o.o_custkey"),
        ("SELECT max(o_ts) AS o_custkey FROM orders GROUP BY o_custkey", "orders.o_custkey"),
        ("SELECT o.o_custkey FROM orders o JOIN orders p ON o.o_orderkey = p.o_orderkey GROUP BY o_custkey",
         "o.o_custkey"),
        ("SELECT 'a' AS x FROM orders GROUP BY 'a'", "'a'"),
    ],
)  # fmt: skip
def test_a_key_is_an_expression_a_name_or_a_position(text: str, key: str) -> None:
    assert joined(text)["#k0"] == key
    assert grouping(text).keys == ("#k0",)


@pytest.mark.parametrize(
    ("having", "expected"),
    [
        ("n > 1", '"#a0" > 1'),
        ("o_custkey > 1", '"#k0" > 1'),
        ("k > 1 AND n < 5", '"#k0" > 1 AND "#a0" < 5'),
        ("sum(o_orderkey) IS NULL OR k = 2", '"#a1" IS NULL OR "#k0" = 2'),
        ("NULL", "CAST(NULL AS BOOLEAN)"),
    ],
)
def test_having_sees_keys_aggregates_and_names_of_outputs(having: str, expected: str) -> None:
    found = grouping(f"SELECT o_custkey AS k, count(*) AS n FROM orders GROUP BY o_custkey HAVING {having}").having
    assert found is not None
    assert to_sql(found) == expected


def test_distinct_groups_by_the_outputs() -> None:
    text = "SELECT DISTINCT o_custkey + 1 AS a, o_custkey + 1 AS b, 'x' AS c FROM orders"
    assert joined(text) == {"#k0": "orders.o_custkey + 1", "#k1": "'x'"}
    assert shown(text) == {"a": '"#k0"', "b": '"#k0"', "c": '"#k1"'}
    assert grouping(text).is_distinct
    assert len(grouping("SELECT DISTINCT * FROM orders").keys) == 4
    assert query("SELECT ALL o_custkey FROM orders").grouping is None


def test_distinct_changes_nothing_where_every_key_is_selected() -> None:
    with_it = "SELECT DISTINCT o_custkey, count(*) AS n FROM orders GROUP BY o_custkey"
    assert query(with_it) == query(with_it.replace("DISTINCT ", ""))
    windowed = "SELECT DISTINCT window.end, o_custkey FROM orders GROUP BY o_custkey, window(o_ts, '1 hour')"
    assert query(windowed) == query(windowed.replace("DISTINCT ", ""))
    assert query("SELECT DISTINCT count(*) AS n FROM orders") == query("SELECT count(*) AS n FROM orders")


def test_windows_of_event_time() -> None:
    text = (
        "SELECT window.start, Window.End AS e, count(*) AS n FROM orders o "
        "GROUP BY window(o.o_ts, '10 minutes', INTERVAL '5' MINUTE), o_ts HAVING window.start > '2020-01-01'"
    )
    assert grouping(text).window == TimeWindow("#k0", 10 * MINUTE, 5 * MINUTE)
    assert joined(text) == {"#k0": "o.o_ts", "#k1": "o.o_ts"}
    assert shown(text) == {"start": '"#k0"', "e": "\"#k0\" + INTERVAL '10' MINUTE", "n": '"#a0"'}
    tumbling = grouping("SELECT count(*) AS n FROM orders GROUP BY window(o_ts, '1 hour')").window
    assert tumbling == TimeWindow("#k0", 60 * MINUTE, 60 * MINUTE)


@pytest.mark.parametrize(
    ("kind", "unit", "time", "start"),
    [
        (pa.timestamp("ns"), "s", "t.at", pa.timestamp("us")),
        (pa.timestamp("us", "Europe/Berlin"), "s", "CAST(t.at AS TIMESTAMP)", pa.timestamp("us", "UTC")),
        (pa.date32(), "s", "CAST(t.at AS TIMESTAMP)", pa.timestamp("us")),
        (pa.int64(), "ms", "TIMESTAMP '1970-01-01 00:00:00' + INTERVAL '1' MILLISECOND * t.at", pa.timestamp("us")),
    ],
)
def test_every_kind_of_event_time_has_windows(kind: pa.DataType, unit: Unit, time: str, start: pa.DataType) -> None:
    streams = {"t": Stream("t", pa.schema([("at", kind)]), "at", unit)}
    found = to_query("SELECT window.start, window.end AS e FROM t GROUP BY window(at, '1 hour')", streams)
    assert [to_sql(output.expr).replace('"at"', "at") for output in found.outputs] == [time]
    assert found.outputs[0].expr.type == pa.timestamp("us")
    assert found.schema.types == [start, start]


@pytest.mark.parametrize(
    ("by", "within"),
    [("GROUP BY o_custkey", "WITHIN '1 minute'"), ("GROUP BY o_custkey HAVING count(*) > 1", "WITHIN '1 minute'")],
)
def test_the_default_window_stands_before_or_after_the_groups(by: str, within: str) -> None:
    start = f"SELECT o_custkey {J}"
    assert query(f"{start} {within} {by}") == query(f"{start} {by} {within};")
    assert [relation.window for relation in query(f"{start} {by} {within}").relations] == [MINUTE, MINUTE]


def test_the_builder_gives_equal_queries() -> None:
    sources = (rel("orders", "o"), rel("lineitem", "l"))
    on = col("o.o_orderkey") == col("l.l_orderkey")
    text = f"""
        SELECT o.o_custkey, SUM(l.l_price) / 2 AS half, COUNT(*) AS n, COUNT(DISTINCT l.l_partkey) AS parts,
               MAX(l.l_price) FILTER (WHERE l.l_partkey > 3) AS most, window.start AS s
        {J} GROUP BY o.o_custkey, window(o.o_ts, '10 minutes', '5 minutes')
        HAVING COUNT(*) > 1 AND SUM(l.l_price) > 2
    """
    terms = (
        from_(*sources)
        .where(on)
        .group_by(col("o.o_custkey"), window(col("o.o_ts"), "10 minutes", 300))
        .having(count() > 1, fn("sum", col("l.l_price")) > 2)
        .select(
            col("o.o_custkey"),
            half=fn("sum", col("l.l_price")) / 2,
            n=count(),
            parts=count(col("l.l_partkey"), distinct=True),
            most=fn("max", col("l.l_price")).filter(col("l.l_partkey") > 3),
            s=col("window.start"),
        )
    )
    texts = (
        from_(*sources)
        .where("o.o_orderkey = l.l_orderkey")
        .group_by("o.o_custkey", "window(o.o_ts, '10 minutes', '5 minutes')")
        .having("COUNT(*) > 1 AND SUM(l.l_price) > 2")
        .select(
            "o.o_custkey",
            "SUM(l.l_price) / 2 AS half",
            n="count(*)",
            parts="COUNT(DISTINCT l.l_partkey)",
            most="MAX(l.l_price) FILTER (WHERE l.l_partkey > 3)",
            s="window.start",
        )
    )
    assert to_query(terms, STREAMS) == to_query(texts, STREAMS) == query(text)


def test_the_builder_makes_rows_distinct() -> None:
    made = from_(rel("orders")).distinct().select("o_custkey")
    assert to_query(made, STREAMS) == query("SELECT DISTINCT o_custkey FROM orders")


@pytest.mark.parametrize(
    "text",
    [
        "count(*)",
        "count(DISTINCT a)",
        "sum(a) FILTER (WHERE b > 1) + 1",
        "window.start",
        "window.end",
        "window(o.ts, '5 minutes')",
        "approx_count_distinct(a)",
    ],
)
def test_rendered_aggregates_parse_to_the_same_tree(text: str) -> None:
    assert to_sql(parse_expression(text)) == text
    assert parse_expression(to_sql(parse_expression(text))) == parse_expression(text)


O = "FROM orders o"  # noqa: E741
REFUSED = [
    (f"SELECT o_orderkey, count(*) {O}", "o.o_orderkey is neither grouped nor aggregated", "o_orderkey", "GROUP BY o."),
    (f"SELECT o_custkey + o_orderkey AS x {O} GROUP BY o_custkey", "o.o_orderkey is neither", "o_orderkey", "MAX(o."),
    (f"SELECT * {O} GROUP BY o_custkey", "o.o_orderkey is neither", "*", "MAX(o."),
    (f"SELECT o.* {O} GROUP BY o_custkey", "o.o_orderkey is neither", "o.*", "MAX(o."),
    (f"SELECT window, count(*) AS n {O} GROUP BY window(o_ts, '1 hour')", "no value", "window", "window.start"),
    (f"SELECT count(*) AS n {O} HAVING o_custkey > 1", "o.o_custkey is neither", "o_custkey", ""),
    (f"SELECT 1 AS x {O} WHERE count(*) > 1", "cannot stand in WHERE or ON", "count(*)", "HAVING"),
    ("SELECT 1 AS x FROM orders o JOIN lineitem l ON sum(o_orderkey) = l_orderkey", "in WHERE or ON", "sum(o_orderkey)",
     "HAVING"),
    (f"SELECT sum(count(*)) AS x {O}", "cannot be nested", "count(*)", "second query"),
    (f"SELECT sum(o_orderkey) FILTER (WHERE max(o_custkey) > 1) AS x {O}", "nested", "max(o_custkey)", ""),
    (f"SELECT count(*) AS n {O} GROUP BY count(*)", "cannot stand in GROUP BY", "count(*)", ""),
    (f"SELECT count(*) AS n {O} GROUP BY n", "cannot stand in GROUP BY", "count(*)", ""),
    (f"SELECT count(*) AS n {O} GROUP BY 2", "GROUP BY 2 means no output", "2", "write the expression"),
    (f"SELECT count(*) AS n {O} GROUP BY 0", "GROUP BY 0 means no output", "0", "write the expression"),
    (f"SELECT count(*) AS n {O} GROUP BY NULL", "cannot be grouped by", "NULL", "another column"),
    ("SELECT sum(c_name) AS x FROM customer", "SUM is not defined on VARCHAR", "c_name", "CAST"),
    (f"SELECT avg(o_ts) AS x {O}", "AVG is not defined on TIMESTAMP", "o_ts", "CAST"),
    (f"SELECT sum(NULL) AS x {O}", "no type of its own", "NULL", "CAST"),
    (f"SELECT count(DISTINCT o_orderkey, o_custkey) AS x {O}", "takes 1 argument, not 2",
     "count(DISTINCT o_orderkey, o_custkey)", ""),
    (f"SELECT count(DISTINCT) AS x {O}", "takes 1 argument, not 0", "count(DISTINCT)", ""),
    (f"SELECT sum() AS x {O}", "takes 1 argument, not 0", "sum()", ""),
    (f"SELECT sum(*) AS x {O}", "sum does not take *", "sum(*)", "COUNT"),
    (f"SELECT bool_and(o_orderkey) AS x {O}", "condition is needed", "o_orderkey", "compare"),
    (f"SELECT count(*) FILTER (WHERE o_orderkey) AS x {O}", "condition is needed", "o_orderkey", "compare"),
    (f"SELECT count(*) FILTER (o_orderkey > 1) AS x {O}", "WHERE is missing", "o_orderkey", "FILTER (WHERE"),
    (f"SELECT string_agg(o_ts) AS x {O}", "STRING_AGG is not defined on TIMESTAMP", "o_ts", "CAST"),
    (f"SELECT histogram(o_orderkey) AS x {O} GROUP BY o_custkey", '"histogram"', "histogram(o_orderkey)",
     "approx_count_distinct"),
    (f"SELECT quantile_cont(o_orderkey, 2) AS x {O}", "between 0 and 1", "quantile_cont(o_orderkey, 2)", "0.5"),
    (f"SELECT quantile_cont(o_orderkey, o_custkey) AS x {O}", "no constant", "o_custkey", "constant"),
    (f"SELECT array_agg(DISTINCT o_orderkey ORDER BY o_ts) AS x {O}", "by themselves alone",
     "array_agg(DISTINCT o_orderkey ORDER BY o_ts)", "leave DISTINCT out"),
    ("SELECT lower(DISTINCT c_name) AS x FROM customer", "only in aggregates", "DISTINCT c_name", "leave it out"),
    ("SELECT lower(c_name) FILTER (WHERE true) AS x FROM customer", "only after aggregates",
     "lower(c_name) FILTER (WHERE true)", "CASE"),
    ("SELECT count(*) + length(lower(DISTINCT c_name)) AS x FROM customer GROUP BY c_name", "only in aggregates",
     "DISTINCT c_name", "leave it out"),
    (f"SELECT count(*) AS n {O} HAVING count(*)", "condition is needed", "count(*)", "compare"),
    (f"SELECT DISTINCT ON () o_orderkey {O}", "expression is missing", ")", "column"),
    (f"SELECT count(*) AS n {O} GROUP BY GROUPING (o_custkey)", "GROUPING SETS", "(", "GROUPING SETS ("),
    (f"SELECT count(*) AS n {O} GROUP BY window(o_custkey, '1 minute')", "needs the event time", "o_custkey", "o.o_ts"),
    (f"SELECT count(*) AS n {O} GROUP BY window(o_ts + INTERVAL '1' DAY, '1 minute')", "needs the event time",
     "o_ts + INTERVAL '1' DAY", "o.o_ts"),
    ("SELECT count(*) AS n FROM customer GROUP BY window(c_custkey, '1 minute')", "needs the event time", "c_custkey",
     "event_time="),
    (f"SELECT count(*) AS n {O} GROUP BY window(o_ts)", "2 or 3 arguments", "window(o_ts)", "10 minutes"),
    (f"SELECT count(*) AS n {O} GROUP BY window(o_ts, '5 eons')", "not a duration", "'5 eons'", "minute"),
    (f"SELECT count(*) AS n {O} GROUP BY window(o_ts, INTERVAL '1' MONTH)", "no fixed length", "INTERVAL '1' MONTH",
     "30 days"),
    (f"SELECT count(*) AS n {O} GROUP BY window(o_ts, 5)", "is a constant", "5", "10 minutes"),
    (f"SELECT count(*) AS n {O} GROUP BY window(o_ts, '0 minutes')", "longer than 0", "'0 minutes'", "10 minutes"),
    (f"SELECT count(*) AS n {O} GROUP BY window(o_ts, '1 minute', '2 minutes')", "longer than the window",
     "'2 minutes'", "at most"),
    (f"SELECT count(*) AS n {O} GROUP BY window(o_ts, '1 minute'), window(o_ts, '2 minutes')", "at most one window",
     "window(o_ts, '2 minutes')", "each window"),
    (f"SELECT window(o_ts, '1 minute') AS n {O} GROUP BY window(o_ts, '1 minute')", "no value",
     "window(o_ts, '1 minute')", "window.start"),
    (f"SELECT window.start, count(*) AS n {O} GROUP BY o_custkey", "no window", "window.start", "GROUP BY window("),
    (f"SELECT max(window.start) AS n {O} GROUP BY window(o_ts, '1 minute')", "in an aggregate", "window.start",
     "outside"),
    (f"SELECT count(*) AS n {O} WHERE window.start > o_ts", "cannot stand in WHERE", "window.start", "GROUP BY"),
    (f"SELECT window.start {O}", "cannot stand in a query without GROUP BY", "window.start", "GROUP BY"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message", "place", "help_"), REFUSED, ids=[case[0] for case in REFUSED])
def test_what_has_no_meaning_is_refused_where_it_stands(text: str, message: str, place: str, help_: str) -> None:
    with pytest.raises(WeftError) as caught:
        query(text)
    assert message in caught.value.message
    assert help_ in str(caught.value)
    assert not place or underlined(str(caught.value)) == place


def underlined(error: str) -> str:
    """What the caret line of the error stands under."""
    lines = error.splitlines()
    at = next(number for number, line in enumerate(lines) if line.strip() and set(line.strip()) == {"^"})
    first = lines[at].index("^")
    return lines[at - 1][first : first + lines[at].count("^")]
