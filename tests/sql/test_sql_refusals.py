"""Whatever Weft does not do is refused, with a caret under the construct."""

import pytest

from tests.sql.shop import FUNCTIONS, STREAMS
from weft.errors import ParseError, QueryError, WeftError
from weft.query.builder import from_, rel
from weft.sql import to_query


def refusal(text: str) -> WeftError:
    with pytest.raises(WeftError) as caught:
        to_query(text, STREAMS, FUNCTIONS, cross_product=True)
    return caught.value


def underlined(text: str) -> str:
    """What the caret line of the error stands under."""
    lines = str(refusal(text)).splitlines()
    at = next(number for number, line in enumerate(lines) if line.strip() and set(line.strip()) == {"^"})
    first = lines[at].index("^")
    return lines[at - 1][first : first + lines[at].count("^")]


O = "SELECT o_orderkey FROM orders o"  # noqa: E741
J = "SELECT o_orderkey FROM orders o JOIN lineitem l"

SYNTAX = [
    (f"{O} ORDER BY o_orderkey", "ORDER BY", "ORDER BY"),
    (f"{O} LIMIT 5", "LIMIT", "LIMIT"),
    (f"{O} WHERE o_custkey = 1 OFFSET 5", "OFFSET", "OFFSET"),
    (f"{O} POSITIONAL JOIN lineitem l", "POSITIONAL joins", "POSITIONAL JOIN"),
    (f"{O}, LATERAL spread(o_ts) x", "LATERAL", "LATERAL"),
    (f"{O}, TUMBLE(orders, o_ts, 5) t", "INTERVAL is missing", "5"),
    (f"{O}, TUMBLE(orders, o_ts, INTERVAL '1' YEAR) t", "no fixed length", "INTERVAL '1' YEAR"),
    (f"{O}, TABLE(HOP(TABLE orders, DESCRIPTOR(o_ts), INTERVAL '1' DAY)) t", "lengths of HOP", "^"),
    (f"{O}, CUMULATE(orders, o_ts, INTERVAL '2' DAY, INTERVAL '3' DAY) t", "cut short", "^"),
    (f"{O}, SESSION(orders, o_ts, INTERVAL '2' DAY) t", "windows of sessions", "SESSION("),
    (f"{O}, HOP(orders, o_ts, INTERVAL '1' SECOND, INTERVAL '1' DAY) t", "too many windows", "^"),
    (f"{J} ON", "ON has no condition", "^"),
    (f"{J} ON WHERE 1 = 1", "ON has no condition", "WHERE"),
    (f"{J}", "has no ON", "^"),
    (f"{J} WHERE true", "has no ON", "WHERE"),
    (f"{O} WHERE", "WHERE has no condition", "^"),
    ("VALUES 1", "( is missing", "1"),
    (f"SELECT * FROM ({O}", ") is missing", "^"),
    (f"SELECT * FROM ({O} OFFSET 3) x", "OFFSET", "OFFSET"),
    (f"{J} USING o_orderkey", "( is missing", "o_orderkey"),
    (f"WITH RECURSIVE x AS ({O}) SELECT * FROM x", "RECURSIVE", "RECURSIVE"),
    (f"WITH x AS ({O}), x AS ({O}) SELECT * FROM x", "two x", "x"),
    (f"WITH x ({O}) SELECT * FROM x", "a column is missing", "SELECT"),
    (f"{O} WHERE o_custkey IS DISTINCT 1", "FROM is missing", "1"),
    (f"{O} WHERE o_custkey[1:2] = 2", "slices", ":"),
    (f"{O} WHERE EXISTS (1)", "EXISTS takes a SELECT", "1"),
    (f"{O} WHERE o_custkey IN (VALUES 1)", "( is missing", "1"),
    (f"{O} LEFT lineitem l ON true", "LEFT joins", "LEFT"),
    (f"{O} POSITIONAL JOIN lineitem l", "POSITIONAL joins", "POSITIONAL JOIN"),
    (f"{O} UNION ALL", "SELECT", "^"),
    (f"{O} WINDOW w AS () WHERE o_custkey = 1", "the query should end here", "WHERE"),
    (f"{O} WINDOW w (ORDER BY o_ts)", "AS is missing", "("),
    (f"{O} JOIN lineitem l WINDOW w AS ()", "WINDOW cannot stand here", "WINDOW"),
    ("SELECT sum(o_custkey IGNORE NULLS) FROM orders", "IGNORE NULLS is not supported in SUM", "IGNORE"),
    ("SELECT ntile() OVER (ORDER BY o_ts) FROM orders", "NTILE cannot be called so", "ntile()"),
    ("SELECT cume_dist(o_ts) OVER (ORDER BY o_ts) FROM orders", "CUME_DIST cannot be called so", "cume_dist(o_ts)"),
    ("SELECT lag() OVER (ORDER BY o_ts) FROM orders", "LAG cannot be called so", "lag()"),
    ("SELECT lag(o_ts) OVER (ORDER BY o_ts) IGNORE NULLS FROM orders", "IGNORE NULLS", "IGNORE"),
    ("SELECT sum(o_custkey) OVER (ORDER BY o_ts EXCLUDE TIES) FROM orders", "EXCLUDE", "EXCLUDE"),
    (
        "SELECT sum(o_custkey) OVER (ORDER BY o_ts, o_custkey RANGE 1 PRECEDING) FROM orders",
        "this RANGE needs an order by one key",
        "RANGE 1 PRECEDING",
    ),
    (
        "SELECT sum(o_custkey) OVER (RANGE 1 PRECEDING) FROM orders",
        "a frame of RANGE needs an order",
        "RANGE 1 PRECEDING",
    ),
    (
        "SELECT sum(o_custkey) OVER (ORDER BY o_ts ROWS INTERVAL '1' DAY PRECEDING) FROM orders",
        "ROWS are counted",
        "ROWS INTERVAL '1' DAY PRECEDING",
    ),
    (
        "SELECT sum(o_custkey) OVER (ORDER BY o_ts RANGE INTERVAL '1' MONTH PRECEDING) FROM orders",
        "a frame cannot be as long as that",
        "INTERVAL '1' MONTH",
    ),
    ("SELECT sum(o_custkey) OVER w FROM orders", 'there is no window "w" here', "w"),
    ("SELECT sum(o_custkey) OVER w FROM orders WINDOW v AS (w), w AS ()", 'there is no window "w" here', "w"),
    (
        "SELECT sum(o_custkey) OVER (w PARTITION BY o_ts) FROM orders WINDOW w AS ()",
        "a named window has its own PARTITION BY",
        "PARTITION",
    ),
    (
        "SELECT sum(o_custkey) OVER (w ORDER BY o_ts) FROM orders WINDOW w AS (ORDER BY o_ts)",
        "the named window has an ORDER BY",
        "ORDER",
    ),
    (
        "SELECT sum(o_custkey) OVER (w) FROM orders WINDOW w AS (ORDER BY o_ts ROWS 1 PRECEDING)",
        'the window "w" has a frame',
        "w",
    ),
    (
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY o_custkey, o_ts) FROM orders",
        "WITHIN GROUP takes one value",
        "WITHIN GROUP (ORDER BY o_custkey, o_ts)",
    ),
    ("SELECT row_number() OVER w FROM orders", 'there is no window "w" here', "w"),
    ("SELECT rank(o_ts) OVER (ORDER BY o_ts) FROM orders", "RANK takes no argument", "rank(o_ts)"),
    (f"{O} ORDER BY o_orderkey LIMIT o_orderkey", "whole number", "o_orderkey"),
    (f"{O} ORDER BY o_orderkey LIMIT 5 QUALIFY true", "QUALIFY cannot stand here", "QUALIFY"),
    (f"{O} WHERE o_custkey = ?", "parameters", "?"),
    (f"{O} WHERE o_custkey = $1", "parameters", "$"),
    (f"{O}; {O}", "more than one statement", "SELECT"),
    (f"{O} WHERE o_custkey WITHIN '1 minute' = 2", "should end here", "="),
    ("SELECT o_orderkey WITHIN '1 minute' FROM orders", "WITHIN cannot stand here", "WITHIN"),
    (f"{O} WITHIN '1 minute' WHERE true WITHIN '1 minute' WITHIN '2 minutes'", "WITHIN cannot stand here", "WITHIN"),
    (f"{O} WITHIN '1 fortnight'", "not a duration", "'1 fortnight'"),
    (f"{O} WITHIN INTERVAL '1' MONTH", "no fixed length", "INTERVAL '1' MONTH"),
    (f"{O} WITHIN INTERVAL '0' MINUTE", "longer than 0", "INTERVAL '0' MINUTE"),
    (f"{O} WITHIN", "length of the window is missing", "^"),
    ("SELECT a, FROM orders", "SELECT list", "FROM"),
    ("SELECT 'abc FROM orders", "never closed", "'abc FROM orders"),
    ("SELECT o_orderkey", "FROM is missing", "^"),
    ("UPDATE orders SET a = 1", "SELECT is missing", "UPDATE"),
    ("SELECT * EXCLUDE () FROM orders", "the name of a column is missing", ")"),
    ("SELECT a FROM spread(5)", "no table function", "spread"),
    ("SELECT a FROM db.orders", "one part", "."),
    ("SELECT a FROM orders TABLESAMPLE 5", "TABLESAMPLE", "TABLESAMPLE"),
    (f"{O} WHERE o_custkey = ANY (1)", "a list that is written", "1"),
    (f"{O} WHERE (o_custkey, 1) = (1, 2, 3)", "different length", "(o_custkey, 1) = (1, 2, 3)"),
    (f"{O} WHERE (o_custkey, 1) < ANY (SELECT 1, 2 FROM orders)", "no order", "(o_custkey, 1) < ANY ("),
    (f"{O} WHERE o_custkey = []", "an empty list", "[]"),
    (f"{O} WHERE o_custkey <-> 2 = 1", "operator <-> is not supported", "<->"),
    (f"{O} WHERE 'a' SIMILAR 'b'", "TO is missing", "'b'"),
    (f"{O} WHERE position('a') = 1", "IN is missing", ")"),
    ("SELECT o_custkey -> FROM orders", "expression", "FROM"),
    ("SELECT o_custkey & 1 AS x FROM orders", "operator & is not supported", "&"),
    (f"{O} WHERE 1 < o_custkey < 3", "cannot be chained", "<"),
    (f"{O} WHERE o_custkey IS NULL = true", "= cannot stand here", "="),
    (f"{O} WHERE (o_custkey = 1", ") is missing", "^"),
    (f"{O} WHERE CAST(o_custkey AS blurb) = 1", "no type", "blurb"),
    (f"{O} WHERE o_custkey BETWEEN 1", "AND is missing", "^"),
    (f"{O} WHERE o_custkey = 0x1F", "number", "0x1F"),
    (f"{O} FOR UPDATE", "FOR", "FOR"),
    (f"{O} WHERE o_ts < INTERVAL '1' YEAR TO MONTH", "TO", "TO"),
    ("", "SELECT is missing", "^"),
]


@pytest.mark.parametrize(("text", "message", "place"), SYNTAX, ids=[case[0] for case in SYNTAX])
def test_syntax_is_refused_where_it_stands(text: str, message: str, place: str) -> None:
    error = refusal(text)
    assert isinstance(error, ParseError)
    assert message in error.message
    assert error.hint
    assert place == "^" or underlined(text) == place


MEANING = [
    ("SELECT a FROM oders", 'no stream "oders"', "oders", "orders"),
    ("SELECT x.o_orderkey FROM orders o", 'no alias "x"', "x.o_orderkey", "aliases are: o"),
    ("SELECT o.o_orderky FROM orders o", 'no column "o_orderky"', "o.o_orderky", '"o_orderkey"'),
    ("SELECT price FROM orders o", 'no column "price"', "price", "o.o_limit"),
    ("SELECT o_orderkey FROM orders a, orders b", "ambiguous", "o_orderkey", "a, b"),
    ("SELECT x.* FROM orders o", 'no alias "x"', "x.*", "aliases are: o"),
    ("SELECT lwer('a') x FROM orders", 'no function "lwer"', "lwer('a')", '"lower"'),
    ("SELECT distnce(1) x FROM orders", "no function", "distnce(1)", '"distance"'),
    ("SELECT DISTINCT -o_custkey AS o_ts FROM orders o ORDER BY o.o_ts LIMIT 3", "does not show", "o.o_ts", "select"),
    ("SELECT nth_value(o_ts, o_custkey) OVER (ORDER BY o_ts) FROM orders", "is no constant", "o_custkey", "constant"),
    ("SELECT nth_value(o_ts, 'a' ORDER BY o_ts) FROM orders", "counts rows", "nth_value(o_ts, 'a' ORDER BY o_ts)", "2"),
    ("SELECT first(o_ts) FROM orders", "FIRST depends on an order", "first(o_ts)", "ORDER BY"),
    (f"{O} NATURAL JOIN lineitem l", "no column in common", "NATURAL JOIN", "CROSS JOIN"),
    (f"{J} USING (o_orderkey)", 'no column "o_orderkey"', "USING (o_orderkey)", "l.l_orderkey"),
    ("SELECT 1 x FROM orders a JOIN orders b ON true JOIN orders c USING (o_ts)", "ambiguous", "USING (o_ts)", "a, b"),
    ("SELECT a FROM orders o (x, y, z, u, v)", "5 names are given", "orders o (x, y, z, u, v)", "leave"),
    ("SELECT o_ts FROM (SELECT o_orderkey FROM orders) o", 'no column "o_ts"', "o_ts", "o.o_orderkey"),
    ("SELECT 1 x FROM (SELECT nothing FROM orders) o", 'no column "nothing"', "nothing", "orders.o_limit"),
    ("SELECT 1 x FROM (SELECT l.l_ts FROM orders) o, lineitem l", 'no alias "l"', "l.l_ts", "orders"),
    (f"WITH x AS ({O}) SELECT * FROM y", 'no stream "y"', "y", "x"),
    ("SELECT strftime(o_ts, '%Q') x FROM orders", "does not know %Q", "'%Q'", "%Y"),
    ("SELECT date_format(o_ts, 'yyyy EEE') x FROM orders", "does not know EEE", "'yyyy EEE'", "yyyy"),
    (f"{O} WHERE o_custkey[1] = 2", "has no elements", "o_custkey[1]", "list"),
    (f"{O} WHERE o.o_custkey.c = 2", "has no fields", "o.o_custkey.c", "struct"),
    ("SELECT * FROM (VALUES (1)) x, nothing", 'no stream "nothing"', "nothing", "streams are"),
    (
        f"{O} RIGHT JOIN LATERAL (SELECT 1 AS u) x ON TRUE",
        "LATERAL cannot stand here",
        "LATERAL (SELECT 1 AS u) x",
        "LEFT",
    ),
    ("SELECT * EXCLUDE (a) FROM orders", '* has no column "a"', "a", "leave it out"),
    ("SELECT grouping(o_custkey) FROM orders GROUP BY o_custkey", "GROUPING", "grouping(o_custkey)", "ROLLUP"),
    (f"{O}, TUMBLE(orders, o_custkey, INTERVAL '1' DAY) t", "needs a date or timestamp", "o_custkey", "CAST"),
    (f"{O} WHERE (o_custkey, 1)", "row of values", "(o_custkey, 1)", ""),
    (
        f"{O} WHERE (o_custkey, 1) IN (SELECT o_custkey FROM orders)",
        "2 columns",
        "(o_custkey, 1) IN (SELECT o_custkey FROM orders)",
        "",
    ),
    (f"{O} WHERE a.b.c = 1", 'no alias "a"', "a.b", "aliases are: o"),
    (f"{O} WHERE o_custkey = 'a'", "BIGINT and VARCHAR", "'a'", "CAST"),
    (f"{O} WHERE o_custkey = o_ts", "BIGINT and TIMESTAMP", "o_ts", "CAST"),
    (f"{O} WHERE o_custkey", "condition is needed", "o_custkey", "compare"),
    (f"{O} WHERE o_custkey AND true", "condition is needed", "o_custkey", ""),
    (f"{O} WHERE o_ts + 1 > o_ts", "not defined", "o_ts + 1", ""),
    (f"{O} WHERE o_ts - o_ts > INTERVAL '1' MONTH", "no fixed length", "INTERVAL '1' MONTH", "30"),
    (f"{O} WHERE o_custkey + INTERVAL '1' MONTH > o_ts", "no fixed length", "INTERVAL '1' MONTH", "30"),
    (f"{O} WHERE o_custkey ~ 'a'", "needs text", "o_custkey", "CAST"),
    (f"{O} WHERE 'a' ~ '(' || 'b'", "cannot compute", "'a' ~ '(' || 'b'", "missing )"),
    (f"{O} WHERE left('a', 'b') = ''", "needs a BIGINT", "'b'", "CAST"),
    (f"{O} WHERE EXTRACT(eon FROM o_ts) = 1", "unit 'eon'", "eon", "isodow"),
    (f"{O} WHERE date_diff(lower('a'), o_ts, o_ts) = 1", "unit 'a'", "lower('a')", "quarter"),
    (f"{O} WHERE '{{' -> 'a' = '1'", "cannot compute", "'{' -> 'a'", "not JSON"),
    (f"{O} WHERE '{{}}' -> '$.*' = '1'", "cannot compute", "'{}' -> '$.*'", "path"),
    (f"{O} WHERE o_ts > 'yesterday'", "cannot read 'yesterday'", "'yesterday'", "2020-12-31"),
    (f"{O} WHERE lower(o_custkey) = 'a'", "needs text", "o_custkey", "CAST"),
    (f"{O} WHERE round(o_limit, o_custkey) = 1", "needs a constant", "o_custkey", "number"),
    (f"{O} WHERE substring('a') = 'b'", "2 to 3 arguments", "substring('a')", ""),
    (f"{O} WHERE 1 % 0 = 1", "cannot compute 1 % 0", "1 % 0", "NULLIF"),
    (f"{O} WHERE 9223372036854775807 + 1 > 0", "cannot compute", "9223372036854775807 + 1", ""),
    ("SELECT NULL AS x FROM orders", "no type", "NULL", "CAST"),
    ("SELECT c_name FROM customer c WITHIN '1 minute'", "has no event time", "WITHIN '1 minute'", "event_time="),
    ("SELECT c_name FROM customer c WHERE true WITHIN '1 minute'", "no event time", "customer c", "WITHIN UNBOUNDED"),
    (f"{O} WHERE date_trunc('eon', o_ts) = o_ts", "unit 'eon'", "'eon'", "quarter"),
]


@pytest.mark.parametrize(("text", "message", "place", "help_"), MEANING, ids=[case[0] for case in MEANING])
def test_meaningless_queries_are_refused_where_it_shows(text: str, message: str, place: str, help_: str) -> None:
    error = refusal(text)
    assert isinstance(error, QueryError)
    assert message in error.message
    assert underlined(text) == place
    assert help_ in str(error)


def test_duplicate_aliases_are_refused() -> None:
    assert "duplicate alias 'o'" in str(refusal("SELECT 1 AS x FROM orders o, lineitem o"))


def test_the_whole_message() -> None:
    assert str(refusal("SELECT o_orderkey\nFROM orders o\n\tLIMIT 5")).splitlines() == [
        "LIMIT is not supported without ORDER BY",
        "detail: line 3, column 2",
        "  \tLIMIT 5",
        "  \t^^^^^",
        "hint: say which rows come first: write ORDER BY column LIMIT n.",
    ]


def test_fragments_of_the_builder_point_into_themselves() -> None:
    draft = from_(rel("orders", "o")).where("o.o_custkey = 1", "o.nothing > 2").select("o.o_orderkey")
    with pytest.raises(QueryError) as caught:
        to_query(draft, STREAMS)
    assert "  o.nothing > 2\n  ^^^^^^^^^" in str(caught.value)


@pytest.mark.parametrize(
    ("cast", "hint"),
    [
        ("CAST('x' AS BLOB)", "it can become VARCHAR, BIGINT"),
        ("CAST(o_custkey AS DATE)", "to_timestamp"),
        ("CAST([o_custkey] AS BIGINT)", "take one value first"),
    ],
)
def test_a_cast_that_is_not_defined_says_what_is(cast: str, hint: str) -> None:
    assert hint in str(refusal(f"{O} WHERE {cast} IS NULL").hint)
