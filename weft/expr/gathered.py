"""What is made of all values of a group: lists, texts of many, medians, deviations, the value beside the greatest one.

`pack` puts a value and what it is ordered by into one struct, `v` and `k0`, `k1`, ...; the structs of a group are a
list.  `gather(list, function, distinct, order, constant)` is what an aggregate function makes of it.

What must hold: the result does not depend on the order of the list.  So values at the same place are taken in their
own order, ascending, NULL last.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_, or_, xor
from typing import Any

import pyarrow as pa
from pyarrow import types as pt

from weft.errors import QueryError
from weft.expr.casts import Datum
from weft.expr.model import Call, Literal
from weft.expr.types import MAX_DIGITS, is_number, is_orderable, sql_name

Row = dict[str, Any]
Flags = tuple[tuple[bool, bool], ...]
"""For each key of an order: whether it is descending, whether NULLs come first."""


def _itself(kind: pa.DataType) -> pa.DataType:
    return kind


def _total(kind: pa.DataType) -> pa.DataType:
    if pt.is_floating(kind):
        return pa.float64()
    return pa.decimal128(MAX_DIGITS, kind.scale) if pt.is_decimal(kind) else pa.int64()


def _always(kind: pa.DataType) -> Callable[[pa.DataType], pa.DataType]:
    return lambda _: kind


@dataclass(frozen=True, slots=True)
class Gathering:
    """An aggregate over all values of a group."""

    value: Callable[[list[Row], Any], Any]
    """Of the rows in order, without those whose value is NULL, and of a constant."""
    gives: Callable[[pa.DataType], pa.DataType]
    takes: Callable[[pa.DataType], bool] = is_number
    nulls: bool = False
    """Whether rows whose value is NULL count too."""


def _values(rows: list[Row], _: Any) -> Any:
    return [row["v"] for row in rows] or None


def _joined(rows: list[Row], separator: Any) -> Any:
    return separator.join(row["v"] for row in rows) if rows else None


def _first(rows: list[Row], _: Any) -> Any:
    """The value beside the first key that is not NULL."""
    return next((row["v"] for row in rows if row["k0"] is not None), None)


def _nth(place: int) -> Callable[[list[Row], Any], Any]:
    """The value at a place, counted from 0, or from the end."""
    return lambda rows, _: rows[place]["v"] if rows else None


def _counted(rows: list[Row], place: Any) -> Any:
    """The value at a place that the query says, counted from 1."""
    return rows[int(place) - 1]["v"] if 1 <= place <= len(rows) else None


def _variance(sample: bool) -> Callable[[list[Row], Any], Any]:
    def variance(rows: list[Row], _: Any) -> Any:
        values = [float(row["v"]) for row in rows]
        count = len(values) - sample
        if count <= 0:
            return None
        mean = math.fsum(values) / len(values) if all(map(math.isfinite, values)) else math.nan
        return math.fsum((value - mean) ** 2 for value in values) / count

    return variance


def _root(inner: Callable[[list[Row], Any], Any]) -> Callable[[list[Row], Any], Any]:
    def root(rows: list[Row], constant: Any) -> Any:
        value = inner(rows, constant)
        return None if value is None else math.sqrt(value)

    return root


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Pairs of a dependent and an independent value: how many there are, their means, sums of products around these."""

    count: int
    y: float
    x: float
    yy: float
    xx: float
    yx: float


def _paired(value: Callable[[_Pairs], float | None], least: int = 1) -> Callable[[list[Row], Any], Any]:
    """A value of pairs in which nothing is NULL; NULL if there are too few, or it divides by 0."""

    def found(rows: list[Row], _: Any) -> Any:
        pairs = [(float(row["v"]), float(row["k0"])) for row in rows if row["k0"] is not None]
        if len(pairs) < least:
            return None
        ys, xs = zip(*pairs, strict=True) if pairs else ((), ())
        y, x = (_added([*side]) / max(len(pairs), 1) for side in (ys, xs))
        moments = (
            _added([(a - b) * (c - d) for a, c in zip(one, other, strict=True)])
            for one, b, other, d in ((ys, y, ys, y), (xs, x, xs, x), (ys, y, xs, x))
        )
        try:
            return value(_Pairs(len(pairs), y, x, *moments))
        except ZeroDivisionError:
            return None

    return found


def _ratio(one: float, other: float) -> float:
    """NaN where there is nothing to divide by, as in DuckDB."""
    return one / other if other else math.nan


def _agreement(pairs: _Pairs) -> float:
    """How well a line fits: 1 where all values of y are equal."""
    return 1.0 if pairs.xx and not pairs.yy else (pairs.yx / (math.sqrt(pairs.xx) * math.sqrt(pairs.yy))) ** 2


_PAIRED: dict[str, Callable[[list[Row], Any], Any]] = {
    "covar_pop": _paired(lambda p: p.yx / p.count),
    "covar_samp": _paired(lambda p: p.yx / (p.count - 1)),
    "corr": _paired(lambda p: _ratio(p.yx, math.sqrt(p.yy) * math.sqrt(p.xx))),
    "regr_count": _paired(lambda p: p.count, least=0),
    "regr_avgx": _paired(lambda p: p.x),
    "regr_avgy": _paired(lambda p: p.y),
    "regr_sxx": _paired(lambda p: p.xx),
    "regr_syy": _paired(lambda p: p.yy),
    "regr_sxy": _paired(lambda p: p.yx),
    "regr_slope": _paired(lambda p: _ratio(p.yx, p.xx)),
    "regr_intercept": _paired(lambda p: p.y - p.yx / p.xx * p.x),
    "regr_r2": _paired(_agreement),
}
PAIRED = tuple(_PAIRED)
"""Aggregates of two values."""


def _between(rows: list[Row], share: Any) -> Any:
    """The value at a share of the way from the first to the last one, between two values if need be."""
    if not rows:
        return None
    place = float(share) * (len(rows) - 1)
    low, high = (float(rows[at]["v"]) for at in (math.floor(place), math.ceil(place)))
    return low + (high - low) * (place - math.floor(place))


def _at(rows: list[Row], share: Any) -> Any:
    """The first value that a share of all do not exceed."""
    return rows[max(math.ceil(float(share) * len(rows)) - 1, 0)]["v"] if rows else None


def _often(rows: list[Row], _: Any) -> Any:
    """The value that is there most often; of several the least."""
    counts = Counter(_place(row["v"]) for row in rows)
    return max((row["v"] for row in rows), key=lambda value: counts[_place(value)], default=None)


def _sum(rows: list[Row], _: Any) -> Any:
    return _added([row["v"] for row in rows]) if rows else None


def _added(values: list[Any]) -> Any:
    return math.fsum(values) if all(isinstance(one, float) and math.isfinite(one) for one in values) else sum(values)


def _mean(rows: list[Row], _: Any) -> Any:
    return _added([float(row["v"]) for row in rows]) / len(rows) if rows else None


def _product(rows: list[Row], _: Any) -> Any:
    return math.prod(float(row["v"]) for row in rows) if rows else None


def _bits(operator: Callable[[int, int], int]) -> Callable[[list[Row], Any], Any]:
    return lambda rows, _: reduce(operator, (row["v"] for row in rows)) if rows else None


_DOUBLE = _always(pa.float64())

GATHERINGS: dict[str, Gathering] = {
    "list": Gathering(_values, lambda kind: pa.list_(kind), lambda _: True, nulls=True),
    "text": Gathering(_joined, _always(pa.string()), pt.is_string),
    "first": Gathering(_first, _itself, lambda _: True),
    **{
        f"{name}{' known' if known else ''}": Gathering(value, _itself, lambda _: True, nulls=not known)
        for name, value in (("leading", _nth(0)), ("trailing", _nth(-1)), ("nth", _counted))
        for known in (False, True)
    },
    "var_pop": Gathering(_variance(False), _DOUBLE),
    "var_samp": Gathering(_variance(True), _DOUBLE),
    "stddev_pop": Gathering(_root(_variance(False)), _DOUBLE),
    "stddev_samp": Gathering(_root(_variance(True)), _DOUBLE),
    **{name: Gathering(value, _DOUBLE) for name, value in _PAIRED.items()},
    "regr_count": Gathering(_PAIRED["regr_count"], _always(pa.int64())),
    "quantile_cont": Gathering(_between, _DOUBLE),
    "quantile_disc": Gathering(_at, _itself, is_orderable),
    "mode": Gathering(_often, _itself, is_orderable),
    "sum": Gathering(_sum, _total),
    "avg": Gathering(_mean, _DOUBLE),
    "product": Gathering(_product, _DOUBLE),
    "bit_and": Gathering(_bits(and_), _itself, pt.is_integer),
    "bit_or": Gathering(_bits(or_), _itself, pt.is_integer),
    "bit_xor": Gathering(_bits(xor), _itself, pt.is_integer),
}
"""By the names that `gather` knows."""


def pack_rule(call: Call) -> Call:
    """pack(value, key, ...): a struct."""
    names = ["v", *(f"k{at}" for at in range(len(call.args) - 1))]
    for key in call.args[1:]:
        if not is_orderable(key.type):
            hint = "order by another column."
            raise QueryError(f"values cannot be ordered by a {sql_name(key.type)}", hint=hint, span=key.span)
    kinds = [pa.int32() if pt.is_null(arg.type) else arg.type for arg in call.args]
    return replace(call, type=pa.struct(list(zip(names, kinds, strict=True))))


def pack(args: Sequence[Datum], kind: pa.DataType) -> Datum:
    """The structs."""
    rows = max((len(arg) for arg in args if not isinstance(arg, pa.Scalar)), default=None)
    columns = [pa.repeat(arg, rows or 1) if isinstance(arg, pa.Scalar) else arg for arg in args]
    columns = [
        (one.combine_chunks() if isinstance(one, pa.ChunkedArray) else one).cast(field.type)
        for one, field in zip(columns, kind, strict=True)
    ]
    made = pa.StructArray.from_arrays(columns, fields=list(kind))
    return made if rows is not None else made[0]


def gather_rule(call: Call) -> Call:
    """gather(list, function, distinct, order, constant)."""
    listed, what = call.args[0].type, _constant(call, 1)
    assert listed is not None
    value = listed.value_type.field("v").type
    return replace(call, type=GATHERINGS[what].gives(value))


def gather(args: Sequence[Datum], kind: pa.DataType) -> Datum:
    """The value of each group."""
    lists, what, distinct, order, constant = args
    flags: Flags = tuple((mark[0] == "d", mark[1] == "f") for mark in order.as_py().split())
    found = GATHERINGS[what.as_py()]
    groups = lists.to_pylist() if not isinstance(lists, pa.Scalar) else [lists.as_py()]
    values = [_value(found, rows or [], distinct.as_py(), flags, constant.as_py()) for rows in groups]
    made = pa.array(values, kind)
    return made if not isinstance(lists, pa.Scalar) else made[0]


def _value(found: Gathering, rows: list[Row], distinct: bool, flags: Flags, constant: Any) -> Any:
    rows = rows if found.nulls else [row for row in rows if row["v"] is not None]
    rows = sorted(rows, key=lambda row: _place(row["v"]))
    if distinct:
        rows = [row for at, row in enumerate(rows) if at == 0 or _place(row["v"]) != _place(rows[at - 1]["v"])]
    for at, (descending, nulls_first) in reversed([*enumerate(flags)]):
        key = f"k{at}"
        known = [row for row in rows if row[key] is not None]
        unknown = [row for row in rows if row[key] is None]
        known.sort(key=lambda row, key=key: _place(row[key]), reverse=descending)  # type: ignore[misc]
        rows = [*unknown, *known] if nulls_first else [*known, *unknown]
    return found.value(rows, constant)


def _place(value: Any) -> tuple[Any, ...]:
    """A value in an order: NaN behind all numbers, NULL behind everything."""
    if value is None:
        return (2,)
    if isinstance(value, float) and math.isnan(value):
        return (1,)
    if isinstance(value, dict):
        return (0, tuple(map(_place, value.values())))
    return (0, tuple(map(_place, value))) if isinstance(value, list) else (0, value)


def _constant(call: Call, at: int) -> Any:
    arg = call.args[at]
    assert isinstance(arg, Literal)
    return arg.value
