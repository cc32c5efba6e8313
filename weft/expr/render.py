"""Expressions as SQL text, for explain, for error messages and for DuckDB.

The text is a function of the tree alone.  DuckDB reads it back with the same meaning, NaN aside: there a
comparison with NaN is true or false where ours is NULL.  `to_sql(expr, nan_is_null=True)` writes our meaning out.
"""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal

import pyarrow as pa
from pyarrow import types as pt

from weft.expr.model import Call, Column, Expr, Literal, Udf
from weft.expr.types import MONTHS, TIMESTAMP_UTC, sql_name

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
_BINDING = {
    "or": 1, "and": 2, "not": 3, "is_null": 4, "same": 4, **dict.fromkeys(_COMPARISONS, 5), "in": 5, "like": 5,
    "ilike": 5, "||": 6, "+": 7, "add_months": 7, "-": 7, "*": 8, "/": 8, "%": 8, "div": 8, "neg": 9,
}  # fmt: skip
_ATOM = 10
_BOUNDS = (("window", "start"), ("window", "end"))
"""Bounds of a window of event time; they are read without quotes."""
_WORDS = {"and": "AND", "or": "OR", "like": "LIKE", "ilike": "ILIKE", "div": "//"}
_RESERVED = frozenset(
    [
        "all",
        "and",
        "any",
        "as",
        "asc",
        "between",
        "both",
        "by",
        "case",
        "cast",
        "collate",
        "column",
        "constraint",
        "create",
        "cross",
        "default",
        "desc",
        "distinct",
        "do",
        "else",
        "end",
        "except",
        "exists",
        "false",
        "fetch",
        "for",
        "foreign",
        "from",
        "full",
        "group",
        "having",
        "ilike",
        "in",
        "inner",
        "intersect",
        "interval",
        "into",
        "is",
        "join",
        "lateral",
        "leading",
        "left",
        "like",
        "limit",
        "natural",
        "not",
        "null",
        "offset",
        "on",
        "or",
        "order",
        "outer",
        "primary",
        "references",
        "returning",
        "right",
        "select",
        "semi",
        "set",
        "similar",
        "some",
        "table",
        "then",
        "to",
        "trailing",
        "true",
        "union",
        "unique",
        "unnest",
        "using",
        "values",
        "when",
        "where",
        "window",
        "with",
        "within",
        "anti",
        "asof",
        "positional",
        "qualify",
        "pivot",
        "unpivot",
        "summarize",
        "describe",
        "show",
        "check",
        "deferrable",
        "grant",
        "initially",
        "only",
        "placing",
        "symmetric",
        "asymmetric",
        "variadic",
        "analyse",
        "analyze",
        "array",
        "end-exec",
        "lambda",
        "at",
        "authorization",
        "binary",
        "collation",
        "concurrently",
        "freeze",
        "glob",
        "isnull",
        "notnull",
        "overlaps",
        "pivot_longer",
        "pivot_wider",
        "tablesample",
        "unpack",
        "verbose",
    ]
)


def to_sql(expr: Expr, *, nan_is_null: bool = False) -> str:
    """The expression as SQL.

    >>> to_sql(Call("<", (Column("o", "price"), Literal(7))))
    'o.price < 7'
    """
    return _Writer(nan_is_null).write(expr)


def quote_name(name: str) -> str:
    """The name as an identifier, in double quotes if it needs them.

    >>> quote_name("price"), quote_name("unit price"), quote_name("order")
    ('price', '"unit price"', '"order"')
    """
    if _PLAIN.match(name) and name.lower() not in _RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: str) -> str:
    """The text as a SQL string."""
    return "'" + text.replace("'", "''") + "'"


class _Writer:
    def __init__(self, nan_is_null: bool) -> None:
        self.nan_is_null = nan_is_null

    def write(self, expr: Expr, binding: int = 0) -> str:
        """The text, in parentheses if it binds weaker than `binding`."""
        if isinstance(expr, Column):
            if expr.type is None and (expr.alias.lower(), expr.name.lower()) in _BOUNDS:
                return f"{expr.alias}.{expr.name}"
            prefix = f"{quote_name(expr.alias)}." if expr.alias else ""
            return prefix + quote_name(expr.name)
        if isinstance(expr, Literal):
            return literal_sql(expr)
        if isinstance(expr, Udf):
            counts_all = not expr.args and expr.name.lower() == "count"
            name = expr.name if expr.name.lower() == "window" else quote_name(expr.name)
            return f"{name}({'*' if counts_all else self._list(expr.args)})"
        text = self._call(expr)
        return f"({text})" if _BINDING.get(expr.op, _ATOM) < binding else text

    def _call(self, call: Call) -> str:
        if call.op in ("and", "or", "||", "+", "-", "*", "/", "%", "div", *_COMPARISONS):
            return self._infix(call)
        special = getattr(self, f"_write_{call.op}", None)
        if special is not None:
            return str(special(call))
        args = (
            [self._compared(arg, 0) for arg in call.args]
            if call.op in ("greatest", "least")
            else map(self.write, call.args)
        )
        return f"{call.op}({', '.join(args)})"

    def _list(self, args: tuple[Expr, ...]) -> str:
        return ", ".join(self.write(arg) for arg in args)

    def _infix(self, call: Call) -> str:
        binding = _BINDING[call.op]
        operator = f" {_WORDS.get(call.op, call.op)} "
        if call.op in _COMPARISONS:
            return operator.join(self._compared(arg, binding + 1) for arg in call.args)
        first, *rest = call.args
        return operator.join([self.write(first, binding), *(self.write(arg, binding + 1) for arg in rest)])

    def _compared(self, arg: Expr, binding: int) -> str:
        if self.nan_is_null and arg.type is not None and pt.is_floating(arg.type) and not isinstance(arg, Literal):
            text = self.write(arg)
            return (
                f"CASE WHEN NOT isnan({text}) THEN {text} END"
                if not binding
                else f"(CASE WHEN NOT isnan({text}) THEN {text} END)"
            )
        return self.write(arg, binding)

    def _write_not(self, call: Call) -> str:
        inner = call.args[0]
        if isinstance(inner, Call) and inner.op == "is_null":
            return f"{self.write(inner.args[0], 5)} IS NOT NULL"
        if isinstance(inner, Call) and inner.op == "same":
            return self._write_same(inner, "IS DISTINCT FROM")
        return f"NOT {self.write(inner, 4)}"

    def _write_same(self, call: Call, words: str = "IS NOT DISTINCT FROM") -> str:
        return f" {words} ".join(self.write(arg, 5) for arg in call.args)

    def _write_neg(self, call: Call) -> str:
        return f"-{self.write(call.args[0], _ATOM)}"

    def _write_is_null(self, call: Call) -> str:
        return f"{self.write(call.args[0], 5)} IS NULL"

    def _write_in(self, call: Call) -> str:
        return f"{self._compared(call.args[0], 6)} IN ({self._list(call.args[1:])})"

    def _write_like(self, call: Call) -> str:
        subject, pattern, *escape = (self.write(arg, 6) for arg in call.args)
        return f"{subject} {_WORDS[call.op]} {pattern}" + (f" ESCAPE {escape[0]}" if escape else "")

    _write_ilike = _write_like

    def _write_distinct(self, call: Call) -> str:
        return f"DISTINCT {self._list(call.args)}"

    def _write_filter(self, call: Call) -> str:
        return f"{self.write(call.args[0])} FILTER (WHERE {self.write(call.args[1])})"

    def _write_case(self, call: Call) -> str:
        parts = [
            f"WHEN {self.write(call.args[at])} THEN {self.write(call.args[at + 1])}"
            for at in range(0, len(call.args) - 1, 2)
        ]
        return f"CASE {' '.join(parts)} ELSE {self.write(call.args[-1])} END"

    def _write_only(self, call: Call) -> str:
        value, count = (self.write(arg) for arg in call.args[:2])
        return f"CASE WHEN {count} > 1 THEN error('more than one row') ELSE {value} END"

    def _write_add_months(self, call: Call) -> str:
        time, months = call.args
        count = months.value if isinstance(months, Literal) else 0
        return f"{self.write(time, 7)} + INTERVAL '{count}' MONTH"

    def _write_json_extract(self, call: Call) -> str:
        return f"CAST({call.op}({self._list(call.args)}) AS VARCHAR)"  # it is text here, and JSON there

    def _write_cast(self, call: Call) -> str:
        return f"{call.op.upper()}({self.write(call.args[0])} AS {sql_name(call.type)})"

    _write_try_cast = _write_cast


def literal_sql(literal: Literal) -> str:
    """A constant as SQL, of the right type in DuckDB as well."""
    value, kind = literal.value, literal.type
    if value is None:
        return "NULL" if kind is None or pt.is_null(kind) else f"CAST(NULL AS {sql_name(kind)})"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if kind is not None and (pt.is_floating(kind) or pt.is_decimal(kind)):
        return _number_sql(value, kind)
    if isinstance(value, int):
        return str(value) if value >= 0 else f"({value})"
    return _other_sql(value, kind)


def _number_sql(value: object, kind: pa.DataType) -> str:
    if pt.is_floating(kind):
        number = float(str(value))
        text = repr(number)
        if number - number != 0:
            return f"CAST('{text}' AS {sql_name(kind)})"
        if kind != pa.float64():
            return f"CAST({text} AS {sql_name(kind)})"
        text = text if "e" in text else f"{text}e0"
    else:
        text = format(Decimal(str(value)), "f")
        return f"CAST({text} AS {sql_name(kind)})" if kind != _written_type(text) else _in_parentheses(text)
    return _in_parentheses(text)


def _in_parentheses(text: str) -> str:
    return f"({text})" if text.startswith("-") else text


def _written_type(text: str) -> pa.DataType | None:
    """The type SQL gives to this decimal constant; None if it is not a decimal there."""
    whole, point, places = text.lstrip("-").partition(".")
    whole = whole.lstrip("0")
    return pa.decimal128(max(1, len(whole) + len(places)), len(places)) if point else None


def _other_sql(value: object, kind: pa.DataType | None) -> str:
    if isinstance(value, dt.datetime):
        zoned = value.tzinfo is not None or kind == TIMESTAMP_UTC
        text = value.replace(tzinfo=None).isoformat(" ")
        return f"TIMESTAMPTZ '{text}+00'" if zoned else f"TIMESTAMP '{text}'"
    if isinstance(value, dt.date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, dt.timedelta):
        return _interval_sql(value // dt.timedelta(microseconds=1))
    if isinstance(value, bytes):
        return "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::BLOB"
    if kind == MONTHS:
        return f"INTERVAL '{value.months} months {value.days} days'"  # type: ignore[attr-defined]
    return quote_text(str(value))


_UNITS = (
    ("DAY", 86_400_000_000),
    ("HOUR", 3_600_000_000),
    ("MINUTE", 60_000_000),
    ("SECOND", 1_000_000),
    ("MILLISECOND", 1000),
)


def _interval_sql(microseconds: int) -> str:
    for unit, size in _UNITS:
        if microseconds % size == 0:
            return f"INTERVAL '{microseconds // size}' {unit}"
    return f"INTERVAL '{microseconds}' MICROSECOND"
