"""Random data and random typed expressions, for tests that compare Weft with DuckDB."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa

from weft.expr.dates import PARTS, UNITS
from weft.expr.model import Call, Column, Expr, Literal
from weft.expr.types import DURATION

TS = pa.timestamp("us")
TZ = pa.timestamp("us", "UTC")
POINT = pa.struct([("x", pa.int64()), ("y", pa.string())])
COLUMNS = {
    "i8": pa.int8(),
    "i16": pa.int16(),
    "i32": pa.int32(),
    "i64": pa.int64(),
    "f32": pa.float32(),
    "f64": pa.float64(),
    "d1": pa.decimal128(9, 2),
    "d2": pa.decimal128(20, 4),
    "s": pa.string(),
    "t": pa.string(),
    "b": pa.bool_(),
    "day": pa.date32(),
    "ts": TS,
    "tz": TZ,
    "p": POINT,
    "q": POINT,
    "v": pa.list_(pa.int64()),
    "w": pa.list_(pa.int64()),
}
TEXTS = [
    "",
    "a",
    "A",
    "abc",
    "aBc",
    " x ",
    "a%b",
    "a_b",
    "é",
    "ß",
    "straße",
    "日本語",
    "a\nb",
    "10",
    "x.y",
    "%",
    "naïve",
    "\\",
]
REGEXES = ["a", "^a", "b$", "[a-c]+", "(é|ß)", "a.b", ".", "x|y", "\\s", "(?i)AB"]
FLOATS = [0.0, 1.0, -1.0, 0.5, -2.5, 2.5, 3.25, 1e10, -1e-3, 7.125]


def random_batch(rng: random.Random, rows: int) -> pa.RecordBatch:
    makers: dict[str, Callable[[], object]] = {
        "i8": lambda: rng.randint(-128, 127),
        "i16": lambda: rng.randint(-300, 300),
        "i32": lambda: rng.choice([0, 1, -1, rng.randint(-1000, 1000)]),
        "i64": lambda: rng.choice([0, 1, 2, -3, rng.randint(-(10**6), 10**6)]),
        "f32": lambda: rng.choice([*FLOATS[:7], float("nan")]),
        "f64": lambda: rng.choice([*FLOATS, float("nan"), rng.uniform(-100, 100)]),
        "d1": lambda: Decimal(rng.randint(-99999, 99999)).scaleb(-2),
        "d2": lambda: Decimal(rng.randint(-(10**8), 10**8)).scaleb(-4),
        "s": lambda: rng.choice(TEXTS),
        "t": lambda: rng.choice(TEXTS),
        "b": lambda: rng.random() < 0.5,
        "day": lambda: dt.date(2000, 1, 1) + dt.timedelta(days=rng.randint(-15000, 9000)),
        "ts": lambda: dt.datetime(2000, 1, 1) + dt.timedelta(microseconds=rng.randint(-(10**15), 10**15)),  # noqa: DTZ001
        "tz": lambda: dt.datetime(2000, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=rng.randint(-(10**9), 10**9)),
    }
    makers["p"] = makers["q"] = lambda: {"x": rng.choice([None, 1, 2]), "y": rng.choice([None, "a", "b"])}
    makers["v"] = makers["w"] = lambda: [rng.choice([None, 1, 2]) for _ in range(rng.randrange(4))]
    data = {
        f"o.{name}": pa.array([None if rng.random() < 0.15 else makers[name]() for _ in range(rows)], kind)
        for name, kind in COLUMNS.items()
    }
    return pa.RecordBatch.from_pydict(data)


class Maker:
    """Makes one random expression of a wanted kind."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def any(self, depth: int) -> Expr:
        return getattr(self, self.rng.choice(["bool", "number", "text", "time", "date", "zoned", "span"]))(depth)

    def column(self, *names: str) -> Expr:
        name = self.rng.choice(names)
        return Column("o", name, COLUMNS[name])

    def pick(self, *choices: Callable[[], Expr]) -> Expr:
        return self.rng.choice(choices)()

    def call(self, op: str, *args: Expr) -> Expr:
        return Call(op, args)

    def number(self, depth: int) -> Expr:
        leaf = [
            lambda: self.column("i8", "i16", "i32", "i64"),
            lambda: self.column("f32", "f64"),
            lambda: self.column("d1", "d2"),
            lambda: Literal(self.rng.choice([0, 1, 2, -7, 1000])),
            lambda: Literal(self.rng.choice([Decimal("1.5"), Decimal("-0.25"), Decimal("10.00")])),
            lambda: Literal(self.rng.choice(FLOATS)),
        ]
        if depth <= 0:
            return self.pick(*leaf)
        n = lambda: self.number(depth - 1)
        whole = lambda: self.column("i8", "i16", "i32", "i64")
        return self.pick(
            *leaf[:3],
            lambda: self.call(self.rng.choice("+-*"), n(), n()),
            lambda: self.call("/", n(), n()),
            lambda: self.call("%", n(), self.call("nullif", n(), Literal(0))),
            lambda: self.call("div", whole(), self.call("nullif", whole(), Literal(0))),
            lambda: self.call(self.rng.choice(["neg", "abs", "sign", "floor", "ceil", "round"]), n()),
            lambda: self.call("round", n(), Literal(self.rng.choice([-2, -1, 0, 1, 2, 5]))),
            lambda: self.call("coalesce", n(), n()),
            lambda: self.call(self.rng.choice(["greatest", "least"]), n(), n(), n()),
            lambda: self.call("case", self.bool(depth - 1), n(), self.bool(depth - 1), n(), n()),
            lambda: self.call("nullif", n(), n()),
            lambda: self.call("length", self.text(depth - 1)),
            lambda: self.call(self.part(), self.pick(lambda: self.time(depth - 1), lambda: self.zoned(depth - 1))),
            lambda: self.call(self.rng.choice(["year", "month", "day", "week", "dayofweek"]), self.date(depth - 1)),
            lambda: self.call("-", self.date(depth - 1), self.date(depth - 1)),
            lambda: self.call("sqrt", self.call("abs", n())),
            lambda: self.call(self.rng.choice(["sin", "cos", "atan", "radians"]), self.column("i8", "f32", "d1")),
            lambda: self.call(self.rng.choice(["log10", "log2", "ln"]), self.call("abs", self.column("i16", "d2"))),
            lambda: self.call("power", self.column("i8"), Literal(self.rng.choice([0, 2, 3]))),
            lambda: self.call("strpos", self.text(depth - 1), self.text(0)),
            lambda: self.call("date_diff", Literal(self.unit()), self.time(depth - 1), self.time(depth - 1)),
            lambda: self.call("date_part", Literal(self.part()), self.time(depth - 1)),
            lambda: self.call("epoch", self.pick(lambda: self.span(depth - 1), lambda: self.time(depth - 1))),
            lambda: self.call("struct_extract", self.column("p"), Literal("x")),
            lambda: self.call("list_extract", self.column("v"), self.pick(lambda: Literal(-1), whole)),
            lambda: self.call("length", self.column("v", "w")),
            lambda: Call("cast", (n(),), self.rng.choice([pa.float64(), pa.int64(), pa.decimal128(38, 3)])),
            lambda: Call("cast", (self.bool(depth - 1),), pa.int32()),
            lambda: Call("try_cast", (self.text(depth - 1),), self.rng.choice([pa.int8(), pa.int64(), pa.float64()])),
            lambda: Call("try_cast", (n(),), self.rng.choice([pa.int8(), pa.decimal128(5, 2)])),
        )

    def part(self) -> str:
        return self.rng.choice([*PARTS])

    def unit(self) -> str:
        return self.rng.choice([*UNITS])

    def text(self, depth: int) -> Expr:
        leaf = [lambda: self.column("s", "t"), lambda: Literal(self.rng.choice(TEXTS))]
        if depth <= 0:
            return self.pick(*leaf)
        t = lambda: self.text(depth - 1)
        small = lambda: Literal(self.rng.randint(-4, 5))
        letters = lambda: Literal(self.rng.choice(["a", "ab", "é", "", "x "]))
        return self.pick(
            leaf[0],
            lambda: self.call(self.rng.choice(["lower", "upper", "trim", "ltrim", "rtrim"]), t()),
            lambda: self.call(self.rng.choice(["trim", "ltrim", "rtrim"]), t(), letters()),
            lambda: self.call("||", t(), t()),
            lambda: self.call("concat", t(), t(), self.column("i32", "b", "d1", "day")),
            lambda: self.call("substring", t(), small()),
            lambda: self.call("substring", t(), small(), small()),
            lambda: self.call("replace", t(), letters(), letters()),
            lambda: self.call("substring", t(), self.column("i8"), self.column("i8")),
            lambda: self.call("replace", t(), self.text(0), letters()),
            lambda: self.call(self.rng.choice(["trim", "ltrim", "rtrim"]), t(), self.text(0)),
            lambda: self.call(self.rng.choice(["left", "right"]), t(), self.pick(small, lambda: self.column("i8"))),
            lambda: self.call(self.rng.choice(["lpad", "rpad"]), t(), small(), Literal(self.rng.choice(["x", "é-"]))),
            lambda: self.call("repeat", self.text(0), self.pick(small, lambda: Literal(None, pa.int64()))),
            lambda: self.call("reverse", self.text(0)),
            lambda: self.call("md5", t()),
            lambda: self.call("split_part", t(), self.text(0), small()),
            lambda: self.call("concat_ws", self.text(0), t(), self.column("t", "i32")),
            lambda: self.call("regexp_replace", t(), Literal(self.rng.choice(REGEXES)), Literal("<\\0>")),
            lambda: self.call("regexp_extract", t(), Literal(self.rng.choice(REGEXES))),
            lambda: self.call("struct_extract", self.column("q"), Literal("y")),
            lambda: self.call("json_extract_string", self.document(), Literal(self.rng.choice(["a", "$.b[0]", "x"]))),
            lambda: self.call("json_extract", self.document(), Literal(self.rng.choice(["b", "$.b[1].c", "/b/1"]))),
            lambda: self.call("strftime", self.time(depth - 1), Literal("%Y-%m-%d %H:%M:%S 100%%")),
            lambda: self.call("strftime", self.zoned(depth - 1), Literal(self.rng.choice(["%j/%y", "day"]))),
            lambda: self.call("date_format", self.date(depth - 1), Literal("yyyy-MM'T'dd ''HH:mm:ss DDD yy")),
            lambda: self.call("coalesce", t(), t()),
            lambda: self.call("case", self.bool(depth - 1), t(), t()),
            lambda: self.call("greatest", t(), t()),
            lambda: Call("cast", (self.column("i64", "b", "d2", "day", "ts", "tz", "f64"),), pa.string()),
        )

    def document(self) -> Expr:
        """Some JSON."""
        return self.call("||", Literal('{"a": "é", "b": ['), self.column("i64"), Literal(', {"c": null}]}'))

    def bool(self, depth: int) -> Expr:
        if depth <= 0:
            return self.pick(
                lambda: self.column("b"), lambda: Literal(self.rng.choice([True, False, None]), pa.bool_())
            )
        b = lambda: self.bool(depth - 1)
        compare = self.rng.choice(["=", "<>", "<", "<=", ">", ">="])
        kind = self.rng.choice(["number", "text", "time", "date", "zoned", "span", "bool"])
        x = lambda: getattr(self, kind)(depth - 1)
        return self.pick(
            lambda: self.column("b"),
            lambda: self.call(compare, x(), x()),
            lambda: self.call(compare, x(), x()),
            lambda: self.call("and", self.call(">=", x(), x()), self.call("<=", x(), x())),
            lambda: self.call(self.rng.choice(["and", "or"]), b(), b()),
            lambda: self.call("not", b()),
            lambda: self.call("is_null", self.any(depth - 1)),
            lambda: self.call("same", x(), x()),
            lambda: self.call(self.rng.choice(["=", "<>", "same"]), self.column("p"), self.column("q")),
            lambda: self.call(self.rng.choice(["=", "<>", "same"]), self.column("v"), self.column("w")),
            lambda: self.call("regexp_matches", self.text(depth - 1), Literal(self.rng.choice(REGEXES))),
            lambda: self.call("regexp_full_match", self.text(depth - 1), Literal(self.rng.choice(REGEXES))),
            lambda: self.call("isnan", self.column("f32", "f64")),
            lambda: self.call(self.rng.choice(["like", "ilike", "contains"]), self.text(depth - 1), self.text(0)),
            lambda: self.call("in", self.number(depth - 1), Literal(1), Literal(Decimal("1.5")), Literal(0.5)),
            lambda: self.call("in", self.column("i32"), Literal(1), Literal(None), Literal(-1)),
            lambda: self.call("in", self.text(depth - 1), Literal("a"), self.text(0)),
            lambda: self.like(depth),
            lambda: self.call(
                self.rng.choice(["starts_with", "ends_with", "contains"]),
                self.text(depth - 1),
                Literal(self.rng.choice(["a", "", "é", "b"])),
            ),
            lambda: self.call("=", self.column("day"), Literal("2001-02-03")),
            lambda: self.call("<", self.column("ts"), Literal("2001-02-03 04:05:06")),
            lambda: self.call("<", self.column("tz"), Literal("2001-02-03 04:05:06+02")),
            lambda: self.call(compare, self.column("day"), self.column("ts")),
        )

    def like(self, depth: int) -> Expr:
        pattern = self.rng.choice(["a%", "%b", "_", "__", "%", "", "a_b", "%é%", "a\\%", "A%c", "x.y", "ß", "%\n%"])
        return self.call(self.rng.choice(["like", "ilike"]), self.text(depth - 1), Literal(pattern))

    def span(self, depth: int) -> Expr:
        constant = lambda: Literal(dt.timedelta(seconds=self.rng.randint(-(10**6), 10**6)), DURATION)
        if depth <= 0:
            return constant()
        return self.pick(
            constant,
            lambda: self.call("-", self.time(depth - 1), self.time(depth - 1)),
            lambda: self.call("-", self.zoned(depth - 1), self.zoned(depth - 1)),
            lambda: self.call(self.rng.choice("+-"), self.span(depth - 1), self.span(depth - 1)),
            lambda: self.call("*", constant(), self.column("i8")),
            lambda: self.call("neg", self.span(depth - 1)),
        )

    def time(self, depth: int) -> Expr:
        if depth <= 0:
            return self.column("ts")
        return self.pick(
            lambda: self.column("ts"),
            lambda: self.call(self.rng.choice("+-"), self.time(depth - 1), self.span(0)),
            lambda: self.call("+", self.span(0), self.time(depth - 1)),
            lambda: self.call("+", self.date(depth - 1), self.span(0)),
            lambda: self.call("date_trunc", Literal(self.trunc()), self.time(depth - 1)),
            lambda: self.call("date_trunc", Literal(self.trunc()), self.date(depth - 1)),
            lambda: Call("cast", (self.date(depth - 1),), TS),
            lambda: self.call("add_months", self.time(depth - 1), Literal(self.rng.randint(-30, 30))),
            lambda: self.call("make_timestamp_ms", self.column("i64")),
            lambda: self.call("greatest", self.time(depth - 1), self.time(depth - 1)),
        )

    def trunc(self) -> str:
        return self.unit()

    def zoned(self, depth: int) -> Expr:
        if depth <= 0:
            return self.column("tz")
        return self.pick(
            lambda: self.column("tz"),
            lambda: self.call(self.rng.choice("+-"), self.zoned(depth - 1), self.span(0)),
            lambda: self.call("date_trunc", Literal(self.trunc()), self.zoned(depth - 1)),
            lambda: Call("cast", (self.column("ts"),), TZ),
        )

    def date(self, depth: int) -> Expr:
        if depth <= 0:
            return self.pick(lambda: self.column("day"), lambda: Literal(dt.date(2001, 2, 3)))
        return self.pick(
            lambda: self.column("day"),
            lambda: self.call(self.rng.choice("+-"), self.date(depth - 1), self.column("i8")),
            lambda: Call("cast", (self.time(depth - 1),), pa.date32()),
            lambda: self.call("coalesce", self.date(depth - 1), self.date(depth - 1)),
        )
