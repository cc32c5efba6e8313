"""The operators and functions of Weft: name -> number of arguments, type rule, kernel.

This table is the whole language.  The planner reads the rules, the workers the kernels, error messages the names.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from weft.expr import (
    buckets,
    casts,
    dates,
    gathered,
    jsontext,
    lists,
    logic,
    nested,
    numeric,
    regex,
    rules,
    strings,
    temporal,
    text,
    timerules,
    timetext,
)  # fmt: skip
from weft.expr.arguments import Rule, all_integer
from weft.expr.casts import Datum
from weft.expr.logic import Kernel
from weft.expr.spread import spread
from weft.expr.strings import strict
from weft.expr.types import TIMESTAMP, TIMESTAMP_UTC

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


def _try_cast(args: Sequence[Datum], kind: pa.DataType) -> Datum:
    return casts.try_cast(args[0], kind)


def _never(_args: Sequence[Datum], _kind: pa.DataType) -> Datum:
    raise AssertionError("the planner rewrites this function")


def _search(constant: Callable[..., Datum], elementwise: Callable[[Any, Any], Any]) -> Kernel:
    return strings.search(spread(text.matcher(constant)), elementwise)


def _is_time(kind: pa.DataType) -> bool:
    return bool(pt.is_timestamp(kind) or pt.is_duration(kind))


_PLUS = numeric.arithmetic(pc.add_checked)
_MINUS = numeric.arithmetic(pc.subtract_checked)
_TIMES = numeric.arithmetic(pc.multiply_checked, total=75)
_POSITION = strings.search(spread(strict(strings.position)), strings.find)
_TEXT, _INT, _BOOL = pa.string(), pa.int64(), pa.bool_()

FUNCTIONS: dict[str, Function] = {
    "=": Function(rules.comparison, logic.comparison(pc.equal), 2, 2),
    "<>": Function(rules.comparison, logic.comparison(pc.not_equal), 2, 2),
    "<": Function(rules.comparison, logic.comparison(pc.less), 2, 2),
    "<=": Function(rules.comparison, logic.comparison(pc.less_equal), 2, 2),
    ">": Function(rules.comparison, logic.comparison(pc.greater), 2, 2),
    ">=": Function(rules.comparison, logic.comparison(pc.greater_equal), 2, 2),
    "same": Function(rules.same, _never, 2, 2),
    "before": Function(rules.before, _never, 2, 2),
    "and": Function(rules.logical, logic.and_, 1, _ANY),
    "or": Function(rules.logical, logic.or_, 1, _ANY),
    "not": Function(rules.logical, logic.not_, 1, 1),
    "is_null": Function(rules.anything_to(_BOOL), logic.is_null, 1, 1),
    "in": Function(rules.membership, logic.in_, 2, _ANY),
    "case": Function(rules.case, logic.case, 3, _ANY),
    "only": Function(rules.only, logic.only, 2, _ANY),
    "coalesce": Function(rules.same_type, logic.coalesce, 1, _ANY),
    "nullif": Function(rules.nullif, _never, 2, 2),
    "greatest": Function(rules.same_type, logic.greatest, 1, _ANY),
    "least": Function(rules.same_type, logic.least, 1, _ANY),
    "+": Function(rules.arithmetic, _plus, 2, 2),
    "-": Function(rules.arithmetic, _minus, 2, 2),
    "*": Function(rules.product, _times, 2, 2),
    "/": Function(rules.all_double, numeric.divide, 2, 2),
    "%": Function(rules.remainder, numeric.modulo, 2, 2),
    "div": Function(all_integer, numeric.integer_divide, 2, 2),
    "neg": Function(rules.negation, _negative, 1, 1),
    "abs": Function(rules.negation, numeric.abs_, 1, 1),
    "round": Function(rules.rounding, numeric.rounded("half_towards_infinity"), 1, 2),
    "trunc": Function(rules.rounding, numeric.rounded("towards_zero"), 1, 2),
    "floor": Function(rules.whole, numeric.floor, 1, 1),
    "ceil": Function(rules.whole, numeric.ceil, 1, 1),
    "sign": Function(rules.sign, numeric.sign, 1, 1),
    "sqrt": Function(rules.all_double, numeric.unary(pc.sqrt), 1, 1),
    "power": Function(rules.all_double, numeric.power, 2, 2),
    "ln": Function(rules.all_double, numeric.unary(pc.ln), 1, 1),
    "exp": Function(rules.all_double, numeric.unary(pc.exp), 1, 1),
    "log10": Function(rules.all_double, numeric.unary(pc.log10), 1, 1),
    "log2": Function(rules.all_double, numeric.unary(pc.log2), 1, 1),
    "sin": Function(rules.all_double, numeric.unary(pc.sin), 1, 1),
    "cos": Function(rules.all_double, numeric.unary(pc.cos), 1, 1),
    "tan": Function(rules.all_double, numeric.unary(pc.tan), 1, 1),
    "asin": Function(rules.all_double, numeric.unary(pc.asin), 1, 1),
    "acos": Function(rules.all_double, numeric.unary(pc.acos), 1, 1),
    "atan": Function(rules.all_double, numeric.unary(pc.atan), 1, 1),
    "atan2": Function(rules.all_double, numeric.binary(pc.atan2), 2, 2),
    "radians": Function(rules.all_double, numeric.times(math.pi / 180), 1, 1),
    "degrees": Function(rules.all_double, numeric.times(180 / math.pi), 1, 1),
    "||": Function(rules.concatenation, text.concat_strict, 2, _ANY),
    "concat": Function(rules.concatenation, text.concat_all, 1, _ANY),
    "concat_ws": Function(rules.concatenation, strings.concat_ws, 1, _ANY),
    "like": Function(rules.text(_BOOL, (_TEXT, _TEXT)), text.like_pairs(False, spread(text.like)), 2, 3),
    "ilike": Function(rules.text(_BOOL, (_TEXT, _TEXT)), text.like_pairs(True, spread(text.ilike)), 2, 3),
    "lower": Function(rules.text(), text.apply_to_text(pc.utf8_lower), 1, 1),
    "upper": Function(rules.text(), text.apply_to_text(pc.utf8_upper), 1, 1),
    "reverse": Function(rules.text(), text.apply_to_text(pc.utf8_reverse), 1, 1),
    "length": Function(rules.length, text.length, 1, 1),
    "substring": Function(rules.text(others=(_INT, _INT)), spread(text.substring), 2, 3),
    "left": Function(rules.text(others=(_INT,)), spread(strict(strings.left)), 2, 2),
    "right": Function(rules.text(others=(_INT,)), spread(strict(strings.right)), 2, 2),
    "lpad": Function(rules.text(others=(_INT, _TEXT)), spread(strict(strings.lpad)), 3, 3),
    "rpad": Function(rules.text(others=(_INT, _TEXT)), spread(strict(strings.rpad)), 3, 3),
    "repeat": Function(rules.text(others=(_INT,)), spread(strict(strings.repeat)), 2, 2),
    "strpos": Function(rules.text(_INT, (_TEXT,)), _POSITION, 2, 2),
    "split_part": Function(rules.text(others=(_TEXT, _INT)), spread(strict(strings.split_part)), 3, 3),
    "ascii": Function(rules.text(_INT), strings.code_of, 1, 1),
    "chr": Function(rules.code, strings.character, 1, 1),
    "md5": Function(rules.text(), strings.digest("md5"), 1, 1),
    "sha256": Function(rules.text(), strings.digest("sha256"), 1, 1),
    "trim": Function(rules.text(others=(_TEXT,)), spread(text.trim(pc.utf8_trim)), 1, 2),
    "ltrim": Function(rules.text(others=(_TEXT,)), spread(text.trim(pc.utf8_ltrim)), 1, 2),
    "rtrim": Function(rules.text(others=(_TEXT,)), spread(text.trim(pc.utf8_rtrim)), 1, 2),
    "replace": Function(rules.text(others=(_TEXT, _TEXT)), spread(text.replace), 3, 3),
    "starts_with": Function(rules.text(_BOOL, (_TEXT,)), _search(pc.starts_with, np.strings.startswith), 2, 2),
    "ends_with": Function(rules.text(_BOOL, (_TEXT,)), _search(pc.ends_with, np.strings.endswith), 2, 2),
    "contains": Function(rules.text(_BOOL, (_TEXT,)), _search(pc.match_substring, strings.contains), 2, 2),
    "regexp_matches": Function(rules.text(_BOOL, (_TEXT, _TEXT)), spread(strict(regex.matches)), 2, 3),
    "regexp_full_match": Function(rules.text(_BOOL, (_TEXT, _TEXT)), spread(strict(regex.full_match)), 2, 3),
    "regexp_replace": Function(rules.text(others=(_TEXT, _TEXT, _TEXT)), spread(strict(regex.replace)), 3, 4),
    "regexp_extract": Function(rules.text(others=(_TEXT, _INT, _TEXT)), spread(strict(regex.extract)), 2, 4),
    "json_extract": Function(rules.json_part, spread(strict(jsontext.extract)), 2, 2),
    "json_extract_string": Function(rules.json_part, spread(strict(jsontext.extract_string)), 2, 2),
    **{name: Function(timerules.extraction, dates.part(name), 1, 1) for name in dates.PARTS},
    "date_part": Function(timerules.date_part, _never, 2, 2),
    "date_trunc": Function(timerules.truncation, dates.date_trunc, 2, 2),
    "strftime": Function(timerules.written_time, timetext.strftime, 2, 2),
    "date_format": Function(timerules.java_time, _never, 2, 2),
    "time_bucket": Function(buckets.rule, buckets.kernel, 2, 3),
    "date_diff": Function(timerules.difference, dates.date_diff, 3, 3),
    "add_months": Function(timerules.months_added, dates.add_months, 2, 2),
    "make_date": Function(timerules.date_of_parts, dates.make_date, 3, 3),
    "make_timestamp": Function(timerules.from_epoch(TIMESTAMP), dates.from_epoch(1), 1, 1),
    "make_timestamp_ms": Function(timerules.from_epoch(TIMESTAMP), dates.from_epoch(1000), 1, 1),
    "to_timestamp": Function(timerules.from_epoch(TIMESTAMP_UTC), dates.from_epoch(1_000_000), 1, 1),
    "now": Function(timerules.moment, _never, 0, 0),
    "isinf": Function(rules.float_test, numeric.unary(pc.is_inf), 1, 1),
    "isfinite": Function(rules.float_test, numeric.unary(pc.is_finite), 1, 1),
    "isnan": Function(rules.float_test, numeric.unary(pc.is_nan), 1, 1),
    "struct_extract": Function(rules.struct_extract, nested.struct_extract, 2, 2),
    "list_extract": Function(rules.list_extract, nested.list_extract, 2, 2),
    "unnest": Function(lists.element, _never, 2, 2),
    "ordinal": Function(lists.ordinal, _never, 2, 2),
    "list_value": Function(lists.listing, lists.listed, 1, _ANY),
    "generate_series": Function(lists.series, lists.counted(closed=True), 1, 3),
    "range": Function(lists.series, lists.counted(closed=False), 1, 3),
    "string_split": Function(lists.splitting, spread(strict(lists.split)), 2, 2),
    "list_contains": Function(lists.containing, lists.contained, 2, 2),
    "pack": Function(gathered.pack_rule, gathered.pack, 1, _ANY),
    "gather": Function(gathered.gather_rule, gathered.gather, 5, 5),
    "cast": Function(rules.cast, _cast, 1, 1),
    "try_cast": Function(rules.cast, _try_cast, 1, 1),
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
    "instr": "strpos",
    "nvl": "coalesce",
    "log": "log10",
    "datediff": "date_diff",
    "current_timestamp": "now",
    "get_current_timestamp": "now",
    "transaction_timestamp": "now",
    "proctime": "now",
    "datepart": "date_part",
    "datetrunc": "date_trunc",
    "timestamp_trunc": "date_trunc",
    "weekofyear": "week",
    "dayofmonth": "day",
    "weekday": "dayofweek",
    "regexp_like": "regexp_matches",
    "rlike": "regexp_matches",
    "truncate": "trunc",
    "unicode": "ascii",
    "ord": "ascii",
    "is_inf": "isinf",
    "is_nan": "isnan",
    "date_bin": "time_bucket",
    "get_json_object": "json_extract_string",
    "json_extract_path_text": "json_extract_string",
    "json_extract_path": "json_extract",
    "element_at": "list_extract",
    "str_split": "string_split",
    "string_to_array": "string_split",
    "split": "string_split",
    "list_pack": "list_value",
    "array_contains": "list_contains",
    "array_has": "list_contains",
    "array_length": "length",
    "list_has": "list_contains",
    "cardinality": "length",
}
"""Other names under which SQL may call a function."""

NAMED = frozenset(name for name in FUNCTIONS if name.isidentifier()) - {
    "and", "or", "not", "is_null", "same", "before", "in", "case", "div", "neg", "like", "ilike", "cast", "add_months",
    "only", "try_cast", "unnest", "ordinal", "pack", "gather",
}  # fmt: skip
"""Functions that are called by name, as opposed to those with a syntax of their own."""
