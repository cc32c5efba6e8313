"""The operators and functions of Weft: name -> number of arguments, type rule, kernel.

This table is the whole language.  The planner reads the rules, the workers the kernels, error messages the names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from weft.expr import casts, logic, nested, numeric, rules, temporal, text
from weft.expr.casts import Datum
from weft.expr.logic import Kernel
from weft.expr.rules import Rule

_ANY = 1_000_000


@dataclass(frozen=True, slots=True)
class Function:
    """One operator or function."""

    rule: Rule
    kernel: Kernel
    least: int
    """Smallest number of arguments."""
    most: int
    """Largest number of arguments."""


def _plus(args: Sequence[Datum], kind: pa.DataType) -> Datum:
    if pt.is_date(kind):
        return temporal.add_days(args, kind)
    return (temporal.add_time if _is_time(kind) else _PLUS)(args, kind)


def _minus(args: Sequence[Datum], kind: pa.DataType) -> Datum:
    if pt.is_date(kind):
        return temporal.subtract_days(args, kind)
    if pt.is_date(args[0].type):
        return temporal.days_between(args, kind)
    return (temporal.subtract_time if _is_time(kind) else _MINUS)(args, kind)


def _times(args: Sequence[Datum], kind: pa.DataType) -> Datum:
    return (numeric.multiply_duration if pt.is_duration(kind) else _TIMES)(args, kind)


def _negative(args: Sequence[Datum], kind: pa.DataType) -> Datum:
    return (temporal.negate_time if pt.is_duration(kind) else numeric.negate)(args, kind)


def _cast(args: Sequence[Datum], kind: pa.DataType) -> Datum:
    return casts.cast(args[0], kind)


def _never(_args: Sequence[Datum], _kind: pa.DataType) -> Datum:
    raise AssertionError("the planner rewrites this function")


def _is_time(kind: pa.DataType) -> bool:
    return bool(pt.is_timestamp(kind) or pt.is_duration(kind))


_PLUS = numeric.arithmetic(pc.add_checked)
_MINUS = numeric.arithmetic(pc.subtract_checked)
_TIMES = numeric.arithmetic(pc.multiply_checked, total=75)
_TEXT, _INT, _BOOL = pa.string(), pa.int64(), pa.bool_()

FUNCTIONS: dict[str, Function] = {
    "=": Function(rules.comparison, logic.comparison(pc.equal), 2, 2),
    "<>": Function(rules.comparison, logic.comparison(pc.not_equal), 2, 2),
    "<": Function(rules.comparison, logic.comparison(pc.less), 2, 2),
    "<=": Function(rules.comparison, logic.comparison(pc.less_equal), 2, 2),
    ">": Function(rules.comparison, logic.comparison(pc.greater), 2, 2),
    ">=": Function(rules.comparison, logic.comparison(pc.greater_equal), 2, 2),
    "same": Function(rules.same, _never, 2, 2),
    "and": Function(rules.logical, logic.and_, 1, _ANY),
    "or": Function(rules.logical, logic.or_, 1, _ANY),
    "not": Function(rules.logical, logic.not_, 1, 1),
    "is_null": Function(rules.anything_to(_BOOL), logic.is_null, 1, 1),
    "in": Function(rules.membership, logic.in_, 2, _ANY),
    "case": Function(rules.case, logic.case, 3, _ANY),
    "coalesce": Function(rules.same_type, logic.coalesce, 1, _ANY),
    "nullif": Function(rules.nullif, _never, 2, 2),
    "greatest": Function(rules.same_type, logic.greatest, 1, _ANY),
    "least": Function(rules.same_type, logic.least, 1, _ANY),
    "+": Function(rules.arithmetic, _plus, 2, 2),
    "-": Function(rules.arithmetic, _minus, 2, 2),
    "*": Function(rules.product, _times, 2, 2),
    "/": Function(rules.all_double, numeric.divide, 2, 2),
    "%": Function(rules.remainder, numeric.modulo, 2, 2),
    "div": Function(rules.all_integer, numeric.integer_divide, 2, 2),
    "neg": Function(rules.negation, _negative, 1, 1),
    "abs": Function(rules.negation, numeric.abs_, 1, 1),
    "round": Function(rules.rounding, numeric.round_, 1, 2),
    "floor": Function(rules.whole, numeric.floor, 1, 1),
    "ceil": Function(rules.whole, numeric.ceil, 1, 1),
    "sign": Function(rules.sign, numeric.sign, 1, 1),
    "sqrt": Function(rules.all_double, numeric.unary(pc.sqrt), 1, 1),
    "power": Function(rules.all_double, numeric.power, 2, 2),
    "ln": Function(rules.all_double, numeric.unary(pc.ln), 1, 1),
    "exp": Function(rules.all_double, numeric.unary(pc.exp), 1, 1),
    "||": Function(rules.concatenation, text.concat_strict, 2, _ANY),
    "concat": Function(rules.concatenation, text.concat_all, 1, _ANY),
    "like": Function(rules.text(_BOOL, (_TEXT, _TEXT)), text.like, 2, 3),
    "ilike": Function(rules.text(_BOOL, (_TEXT, _TEXT)), text.ilike, 2, 3),
    "lower": Function(rules.text(), text.apply_to_text(pc.utf8_lower), 1, 1),
    "upper": Function(rules.text(), text.apply_to_text(pc.utf8_upper), 1, 1),
    "length": Function(rules.text(_INT), text.length, 1, 1),
    "substring": Function(rules.text(constants=(_INT, _INT)), text.substring, 2, 3),
    "trim": Function(rules.text(constants=(_TEXT,)), text.trim(pc.utf8_trim), 1, 2),
    "ltrim": Function(rules.text(constants=(_TEXT,)), text.trim(pc.utf8_ltrim), 1, 2),
    "rtrim": Function(rules.text(constants=(_TEXT,)), text.trim(pc.utf8_rtrim), 1, 2),
    "replace": Function(rules.text(constants=(_TEXT, _TEXT)), text.replace, 3, 3),
    "starts_with": Function(rules.text(_BOOL, (_TEXT,)), text.matcher(pc.starts_with), 2, 2),
    "ends_with": Function(rules.text(_BOOL, (_TEXT,)), text.matcher(pc.ends_with), 2, 2),
    "contains": Function(rules.text(_BOOL, (_TEXT,)), text.matcher(pc.match_substring), 2, 2),
    "year": Function(rules.extraction, temporal.extract(pc.year), 1, 1),
    "month": Function(rules.extraction, temporal.extract(pc.month), 1, 1),
    "day": Function(rules.extraction, temporal.extract(pc.day), 1, 1),
    "hour": Function(rules.extraction, temporal.extract(pc.hour), 1, 1),
    "minute": Function(rules.extraction, temporal.extract(pc.minute), 1, 1),
    "second": Function(rules.extraction, temporal.extract(pc.second), 1, 1),
    "date_trunc": Function(rules.truncation, temporal.date_trunc, 2, 2),
    "isnan": Function(rules.float_test, numeric.unary(pc.is_nan), 1, 1),
    "struct_extract": Function(rules.struct_extract, nested.struct_extract, 2, 2),
    "list_extract": Function(rules.list_extract, nested.list_extract, 2, 2),
    "cast": Function(rules.cast, _cast, 1, 1),
}
"""Every operator and function by name."""

SYNONYMS = {
    "ceiling": "ceil",
    "pow": "power",
    "mod": "%",
    "substr": "substring",
    "char_length": "length",
    "character_length": "length",
    "len": "length",
    "ucase": "upper",
    "lcase": "lower",
    "ifnull": "coalesce",
    "startswith": "starts_with",
    "endswith": "ends_with",
    "suffix": "ends_with",
    "prefix": "starts_with",
    "list_element": "list_extract",
    "element_at": "list_extract",
}
"""Other names under which SQL may call a function."""

NAMED = frozenset(name for name in FUNCTIONS if name.isidentifier()) - {
    "and", "or", "not", "is_null", "same", "in", "case", "div", "neg", "like", "ilike", "cast",
}  # fmt: skip
"""Functions that are called by name, as opposed to those with a syntax of their own."""
