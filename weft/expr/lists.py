"""Lists: functions that give them, and what their elements are.

`unnest` and `ordinal` are outputs of a join, and nothing else: they have a value for each element of a list, where all
other functions have one for each row.  `weft.expr.apart` makes the rows.  A second argument that is true keeps a row
without elements, with NULL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from weft.errors import QueryError
from weft.expr.casts import Datum, cast
from weft.expr.coerce import cast_to, unify
from weft.expr.logic import Kernel
from weft.expr.model import Call
from weft.expr.nested import same_values
from weft.expr.types import common_type, normalize, sql_name

UNNEST, ORDINAL = "unnest", "ordinal"
_MOST = 1_000_000
"""A list that is counted out has at most so many elements."""

Longs = npt.NDArray[np.int64]


def is_spread(expr: object) -> bool:
    """Whether an output has a value for each element of a list."""
    return isinstance(expr, Call) and expr.op in (UNNEST, ORDINAL)


def element(call: Call) -> Call:
    """unnest(list): an element."""
    return replace(call, type=normalize(_list(call).value_type))


def ordinal(call: Call) -> Call:
    """ordinal(list): the place of an element, counted from 1."""
    _list(call)
    return replace(call, type=pa.int64())


def _list(call: Call) -> pa.ListType:
    kind = call.args[0].type
    if kind is None or not pt.is_list(kind):
        hint = "name a column with lists, or make one: ARRAY[a, b], string_split(text, ','), generate_series(1, n)."
        raise QueryError(f"a {sql_name(kind)} has no elements", hint=hint, span=call.args[0].span or call.span)
    return kind


def listing(call: Call) -> Call:
    """ARRAY[value, ...]: a list of values of one type."""
    args = unify(call.args, "a list")
    if pt.is_null(args[0].type):
        raise QueryError("this list has no type of its own", hint="CAST one of its values.", span=call.span)
    return replace(call, args=args, type=pa.list_(args[0].type))


def listed(args: Sequence[Datum], kind: pa.DataType) -> Datum:
    """A list of one value of each argument, for each row."""
    rows, whole = _whole(args)
    count, width = len(whole[0]), len(whole)
    order = np.arange(count * width).reshape(width, count).T.ravel()
    offsets = pa.array(np.arange(0, count * width + 1, width, dtype=np.int32))
    made = pa.ListArray.from_arrays(offsets, pa.concat_arrays(whole).take(pa.array(order))).cast(kind)
    return made if rows is not None else made[0]


def _whole(args: Sequence[Datum]) -> tuple[int | None, list[pa.Array]]:
    """How many rows there are, None if all are constants, and arrays of as many values."""
    rows = max((len(arg) for arg in args if not isinstance(arg, pa.Scalar)), default=None)
    size = 1 if rows is None else rows
    return rows, [pa.repeat(arg, size) if isinstance(arg, pa.Scalar) else arg for arg in args]


def series(call: Call) -> Call:
    """generate_series(first, last, step) and range(first, end, step): whole numbers."""
    if any(not (pt.is_integer(arg.type) or pt.is_null(arg.type)) for arg in call.args):
        hint = "both ends and the step are whole numbers."
        raise QueryError(f"{call.op} counts whole numbers", hint=hint, span=call.span)
    return replace(call, args=tuple(cast_to(arg, pa.int64()) for arg in call.args), type=pa.list_(pa.int64()))


def counted(*, closed: bool) -> Kernel:
    """A list of numbers for each row, with the last one if `closed`; NULL where an end or the step is NULL."""

    def kernel(args: Sequence[Datum], kind: pa.DataType) -> Datum:
        rows, whole = _whole(args)
        made = _counted([_numbers(one) for one in whole], _unknown(whole), closed=closed).cast(kind)
        return made if rows is not None else made[0]

    return kernel


def _counted(args: list[Longs], unknown: npt.NDArray[np.bool_], *, closed: bool) -> pa.ListArray:
    first, last = (np.zeros_like(args[0]), args[0]) if len(args) == 1 else (args[0], args[1])
    step = args[2] if len(args) == 3 else np.ones_like(first)
    beyond = last + np.sign(step) if closed else last
    counts = np.maximum(0, -((first - beyond) // np.where(step == 0, 1, step)))
    counts = np.where(unknown | (step == 0), 0, counts)
    if counts.max(initial=0) > _MOST:
        raise QueryError(f"a list of {counts.max()} numbers is too long", hint=f"{_MOST} are the most.")
    rows, offsets = np.repeat(np.arange(len(counts)), counts), np.concatenate([[0], np.cumsum(counts)])
    place = np.arange(len(rows)) - offsets[rows]
    values = pa.array(first[rows] + place * step[rows])
    mask = pa.array(unknown) if unknown.any() else None
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values, mask=mask)


def _numbers(values: pa.Array) -> Longs:
    found: Longs = pc.fill_null(values, 1).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _unknown(columns: Sequence[pa.Array]) -> Any:
    return np.logical_or.reduce([pc.is_null(one).to_numpy(zero_copy_only=False) for one in columns])


def splitting(call: Call) -> Call:
    """string_split(text, separator)."""
    args = tuple(cast_to(arg, pa.string()) if pt.is_null(arg.type) else arg for arg in call.args)
    if any(not pt.is_string(arg.type) for arg in args):
        raise QueryError(f"{call.op} takes text", hint="CAST the argument to VARCHAR.", span=call.span)
    return replace(call, args=args, type=pa.list_(pa.string()))


def split(texts: pa.Array, separator: str) -> pa.Array:
    """The parts of texts between a separator; an empty one parts all characters."""
    made = pc.split_pattern(texts, separator) if separator else pc.split_pattern_regex(texts, "")
    return made.cast(pa.list_(pa.string()))


def containing(call: Call) -> Call:
    """list_contains(list, value): the value may have another type that can be compared."""
    held, given = normalize(_list(call).value_type), call.args[1].type
    common = None if given is None else common_type(held, given)
    if common is None:
        raise QueryError(
            f"a list of {sql_name(held)} cannot hold a {sql_name(given)}",
            hint=f"CAST the value AS {sql_name(held)}.",
            span=call.args[1].span or call.span,
        )
    return replace(call, args=(call.args[0], cast_to(call.args[1], common)), type=pa.bool_())


def contained(args: Sequence[Datum], _kind: pa.DataType) -> Datum:
    """Whether a list holds a value; NULL where one of them is NULL, and no NULL in a list is a value."""
    rows, (lists, values) = _whole(args)
    places = pc.list_parent_indices(lists)
    held = cast(pc.list_flatten(lists), values.type)
    hits = same_values(held, values.take(places)) & held.is_valid().to_numpy(zero_copy_only=False)
    found = np.zeros(len(lists), dtype=bool)
    found[places.to_numpy()[hits]] = True
    made = pa.array(found, mask=_unknown([lists, values]))
    return made if rows is not None else made[0]
