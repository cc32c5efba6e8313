"""Types, errors and corner cases of expressions that random tests reach only by chance."""

import datetime as dt
import pickle
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest

from weft.errors import QueryError
from weft.expr.evaluate import evaluate, filter_mask
from weft.expr.model import Call, Column, Expr, Literal, Udf, aliases, columns, without_alias
from weft.expr.render import to_sql
from weft.expr.types import common_type, is_orderable, normalize, normalize_schema
from weft.expr.typing import add_types

TS = pa.timestamp("us")
NAN = float("nan")


def column(name: str, kind: pa.DataType) -> Column:
    return Column("o", name, kind)


def run(expr: Expr, **data: pa.Array) -> list[object]:
    batch = pa.RecordBatch.from_pydict({f"o.{name}": values for name, values in data.items()})
    return evaluate(add_types(expr), batch, {}).to_pylist()


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (pa.large_string(), pa.string()),
        (pa.string_view(), pa.string()),
        (pa.dictionary(pa.int32(), pa.large_string()), pa.string()),
        (pa.large_binary(), pa.binary()),
        (pa.binary(16), pa.binary()),
        (pa.timestamp("ns"), TS),
        (pa.timestamp("s", "Europe/Berlin"), pa.timestamp("us", "UTC")),
        (pa.uint64(), pa.int64()),
        (pa.uint8(), pa.int64()),
        (pa.int8(), pa.int8()),
        (pa.float16(), pa.float32()),
        (pa.date64(), pa.date32()),
        (pa.decimal64(9, 2), pa.decimal128(9, 2)),
        (pa.list_(pa.int8()), pa.list_(pa.int8())),
    ],
)
def test_normalize(given: pa.DataType, wanted: pa.DataType) -> None:
    assert normalize(given) == wanted
    assert normalize(wanted) == wanted
    assert normalize_schema(pa.schema([pa.field("x", given, nullable=False)])).field("x").type == wanted


@pytest.mark.parametrize(
    ("a", "b", "wanted"),
    [
        (pa.int8(), pa.int32(), pa.int32()),
        (pa.int64(), pa.float32(), pa.float64()),
        (pa.float32(), pa.float64(), pa.float64()),
        (pa.int32(), pa.decimal128(9, 2), pa.decimal128(12, 2)),
        (pa.decimal128(9, 2), pa.decimal128(9, 4), pa.decimal128(11, 4)),
        (pa.decimal128(38, 2), pa.decimal128(38, 10), pa.decimal128(38, 10)),
        (pa.decimal128(9, 2), pa.float32(), pa.float64()),
        (pa.date32(), TS, TS),
        (TS, pa.timestamp("us", "UTC"), None),
        (pa.date32(), pa.timestamp("us", "UTC"), None),
        (pa.string(), pa.int64(), None),
        (pa.bool_(), pa.int64(), None),
        (pa.null(), pa.string(), pa.string()),
        (pa.duration("us"), pa.duration("us"), pa.duration("us")),
        (pa.binary(), pa.string(), None),
    ],
)
def test_common_type(a: pa.DataType, b: pa.DataType, wanted: pa.DataType | None) -> None:
    assert common_type(a, b) == wanted
    assert common_type(b, a) == wanted


def test_nested_types_are_compared_for_equality_only() -> None:
    values = column("x", pa.list_(pa.int8()))
    assert not is_orderable(values.type)  # type: ignore[arg-type]
    for op in ("<", ">="):
        with pytest.raises(QueryError, match="is not defined"):
            add_types(Call(op, (values, values)))
    rare = column("x", pa.map_(pa.string(), pa.int8()))
    with pytest.raises(QueryError, match="comparison is not defined"):
        add_types(Call("=", (rare, rare)))


POINT = pa.struct([("x", pa.float64()), ("tags", pa.list_(pa.string()))])
POINTS: list[object] = [
    None, {"x": 1.0, "tags": []}, {"x": 1.0, "tags": ["a"]}, {"x": 1.0, "tags": None}, {"x": None, "tags": ["a", None]},
    {"x": NAN, "tags": ["a"]}, {"x": 0.0, "tags": ["a", "b"]}, {"x": -0.0, "tags": ["a", "b"]},
]  # fmt: skip


def test_structs_and_lists_are_equal_where_duckdb_says_so() -> None:
    pairs = [(a, b) for a in POINTS for b in POINTS]
    x, y = (pa.array([pair[side] for pair in pairs], POINT) for side in (0, 1))
    a, b = column("a", POINT), column("b", POINT)
    data = duckdb.connect()
    data.register("t", pa.table({"row": range(len(pairs)), "a": x, "b": y}))
    for op, sql in (("=", "a = b"), ("<>", "a <> b"), ("same", "a IS NOT DISTINCT FROM b")):
        theirs = [found for (found,) in data.execute(f"SELECT {sql} FROM t ORDER BY row").fetchall()]
        assert run(Call(op, (a, b)), a=x, b=y) == theirs
        assert run(Call(op, (a, b)), a=x.slice(5), b=y.slice(5)) == theirs[5:]


@pytest.mark.parametrize("op", ["+", "-", "*"])
def test_overflow_is_an_error_that_names_the_expression(op: str) -> None:
    big = column("x", pa.int64())
    other = Literal(-(2**62) if op == "-" else 2**62)
    with pytest.raises(QueryError, match=r"cannot compute o\.x"):
        run(Call(op, (big, other)), x=pa.array([1, 2**62 + 5]))


def test_small_integers_do_not_overflow() -> None:
    small = column("x", pa.int8())
    assert run(Call("*", (small, small)), x=pa.array([127], pa.int8())) == [16129]


def test_decimal_overflow_is_an_error() -> None:
    wide = column("x", pa.decimal128(38, 0))
    with pytest.raises(QueryError, match="cannot compute"):
        run(Call("+", (wide, wide)), x=pa.array([Decimal(9 * 10**37)], pa.decimal128(38, 0)))
    assert run(Call("+", (wide, wide)), x=pa.array([Decimal(4 * 10**37)], pa.decimal128(38, 0))) == [
        Decimal(8 * 10**37)
    ]


def test_a_decimal_of_all_digits_can_be_multiplied() -> None:
    wide = column("x", pa.decimal128(38, 10))
    values = pa.array([Decimal("1234567890123456789012345678.0000000001"), None], pa.decimal128(38, 10))
    doubled = [Decimal("2469135780246913578024691356.0000000002"), None]
    assert run(Call("*", (wide, Literal(2))), x=values) == doubled
    assert run(Call("*", (Literal(2), wide)), x=values) == doubled


def test_decimal_remainder_of_many_digits() -> None:
    wide = column("x", pa.decimal128(38, 0))
    values = pa.array([Decimal(10**37 + 3), None, Decimal(-(10**37) - 3)], pa.decimal128(38, 0))
    assert run(Call("%", (wide, Literal(10))), x=values) == [Decimal(3), None, Decimal(-3)]


@pytest.mark.parametrize("op", ["=", "<>", "<", "<=", ">", ">="])
def test_nan_compares_with_nothing_even_under_not(op: str) -> None:
    x = column("x", pa.float64())
    compare = Call(op, (x, Literal(1.0)))
    assert run(compare, x=pa.array([NAN, None])) == [None, None]
    assert run(Call("not", (compare,)), x=pa.array([NAN, None])) == [None, None]
    assert run(Call(op, (x, x)), x=pa.array([NAN])) == [None]


def test_nan_in_lists_and_extremes() -> None:
    x = column("x", pa.float64())
    assert run(Call("in", (x, Literal(1.0), Literal(NAN))), x=pa.array([NAN, 1.0, 2.0])) == [None, True, None]
    assert run(Call("greatest", (x, Literal(1.0))), x=pa.array([NAN, 2.0])) == [1.0, 2.0]
    assert run(Call("is_null", (x,)), x=pa.array([NAN, None])) == [False, True]


def test_negative_zero_equals_zero() -> None:
    x = column("x", pa.float64())
    assert run(Call("=", (x, Literal(0.0))), x=pa.array([-0.0, 0.0])) == [True, True]
    assert run(Call("in", (x, Literal(0.0))), x=pa.array([-0.0, 0.0])) == [True, True]


def test_guards_protect_what_they_guard() -> None:
    x = column("x", pa.int64())
    nonzero = Call("<>", (x, Literal(0)))
    rest = Call("%", (Literal(7), x))
    data = pa.array([0, 2, None, 4])
    assert run(Call("case", (nonzero, rest, Literal(-1))), x=data) == [-1, 1, -1, 3]
    assert run(Call("and", (nonzero, Call("=", (rest, Literal(1))))), x=data) == [False, True, None, False]
    assert run(Call("or", (Call("=", (x, Literal(0))), Call("=", (rest, Literal(1))))), x=data) == [
        True,
        True,
        None,
        False,
    ]
    batch = pa.RecordBatch.from_pydict({"o.x": data})
    mask = filter_mask([add_types(nonzero), add_types(Call("=", (rest, Literal(1))))], batch, {})
    assert mask.to_pylist() == [False, True, False, False]
    with pytest.raises(QueryError, match="cannot compute"):
        run(rest, x=data)


def test_no_predicates_keep_every_row() -> None:
    batch = pa.RecordBatch.from_pydict({"x": [1, 2]})
    assert filter_mask([], batch, {}).to_pylist() == [True, True]
    assert filter_mask([], batch.slice(0, 0), {}).to_pylist() == []


def test_python_functions_are_checked() -> None:
    batch = pa.RecordBatch.from_pydict({"o.x": [1, 2]})
    call = Udf("twice", (column("x", pa.int64()), Literal(1, pa.int64())), pa.int64())
    assert evaluate(call, batch, {"twice": lambda x, y: x}).to_pylist() == [1, 2]
    for bad, message in [
        (lambda x, y: x.slice(1), "1 values for 2 rows"),
        (lambda x, y: x.cast(pa.int32()), "int32"),
        (lambda x, y: [1, 2], "returned a list"),
    ]:
        with pytest.raises(QueryError, match=message) as caught:
            evaluate(call, batch, {"twice": bad})
        assert '"twice"' in str(caught.value)
    with pytest.raises(QueryError, match="not registered"):
        evaluate(call, batch, {})


def test_text_constants_become_the_dates_they_stand_beside() -> None:
    day, time = column("d", pa.date32()), column("t", TS)
    assert to_sql(add_types(Call("<", (day, Literal("2020-01-02"))))) == "o.d < DATE '2020-01-02'"
    assert to_sql(add_types(Call("in", (time, Literal("2020-01-02"))))) == "o.t IN (TIMESTAMP '2020-01-02 00:00:00')"
    assert to_sql(add_types(Call("=", (day, Literal("2020-01-02 03:04:05"))))).startswith("CAST(o.d AS TIMESTAMP)")


def test_names_are_quoted_where_needed() -> None:
    assert to_sql(Column("o", "order")) == 'o."order"'
    assert to_sql(Column("my alias", 'a"b')) == '"my alias"."a""b"'
    assert to_sql(Column("", "x")) == "x"


def test_an_alias_free_column_reads_the_stores_own_column() -> None:
    batch = pa.RecordBatch.from_pydict({"x": [1, None]})
    assert evaluate(Column("", "x", pa.int64()), batch, {}).to_pylist() == [1, None]


def test_months_move_dates_and_timestamps() -> None:
    months = Literal(pa.MonthDayNano((13, 0, 0)), pa.month_day_nano_interval())
    moved = add_types(Call("-", (Literal(dt.date(2020, 3, 31)), months)))
    assert isinstance(moved, Literal)
    assert moved.value == dt.datetime(2019, 2, 28)  # noqa: DTZ001
    times = pa.array([dt.datetime(2020, 1, 31, 5), None, dt.datetime(1960, 2, 29)], TS)  # noqa: DTZ001
    wanted = [dt.datetime(2021, 2, 28, 5), None, dt.datetime(1961, 3, 29)]  # noqa: DTZ001
    assert run(Call("+", (column("t", TS), months)), t=times) == wanted
    for other in (Literal(dt.timedelta(days=1)), Literal(7), months):
        with pytest.raises(QueryError, match="no fixed length"):
            add_types(Call("+", (other, months)))


def test_what_a_node_keeps_is_no_part_of_its_value_and_is_not_pickled() -> None:
    def made() -> Call:
        return Call("=", (Column("a", "k", pa.int64()), Column("b", "k", pa.int64())), pa.bool_())

    asked, fresh = made(), made()
    assert (aliases(asked), {c.field for c in columns(asked)}) == ({"a", "b"}, {"a.k", "b.k"})
    assert (hash(asked), asked, repr(asked)) == (hash(fresh), fresh, repr(fresh))
    again = pickle.loads(pickle.dumps(asked))
    assert not any(hasattr(again, kept) for kept in ("_hash", "_aliases", "_columns"))
    assert again == asked
    assert pickle.dumps(asked) == pickle.dumps(made())
    assert aliases(without_alias(asked)) == {""}
