"""From arguments of aggregates to numbers that can be added up, and back to values.

`to_numbers` works on joined rows, `to_value` on the sums of groups.  What must hold: `to_value` of the sum of
`to_numbers` over some rows is what SQL says the aggregate of these rows is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from weft.errors import HostError
from weft.host.hidden import Frame
from weft.host.weights import weight_of
from weft.kernels.codes import Ints, order_codes, ordered_floats
from weft.query.grouping import Aggregate
from weft.topology.measures import TWO_LIMBS, Number, Part, numbers

LOW = 2**32 - 1
SAFE = 2**61
"""Limbs below this can be put together in 64 bits."""
FITS = 2.0**63 * (1 - 1e-9)
"""Products below this fit into 64 bits, however they were rounded."""


SPECIAL: Mapping[str, Callable[[npt.NDArray[Any]], npt.NDArray[np.bool_]]] = {
    "nan": np.isnan,
    "above": np.isposinf,
    "below": np.isneginf,
}
"""Arguments that are counted instead of added up."""


def to_numbers(number: str, argument: pa.Array, weights: pa.Array) -> pa.Array:
    """One number for each row, counted as often as the row."""
    if number in ("least", "greatest"):
        return orderable(argument)
    if number == "values":
        return pa.array(np.zeros(len(argument), dtype=np.int64))  # found where the values are kept
    valid = pc.is_valid(argument).to_numpy(zero_copy_only=False)
    count = weights.to_numpy(zero_copy_only=False)
    if number == "valid":
        return pa.array(np.where(valid, count, 0))
    if number == "true":
        return pa.array(np.where(pc.fill_null(argument, False).to_numpy(zero_copy_only=False), count, 0))
    if number in SPECIAL:
        special = SPECIAL[number](pc.fill_null(argument, 0).to_numpy(zero_copy_only=False))
        return pa.array(np.where(valid & special, count, 0))
    values = np.where(valid, _limb(number, argument), 0)
    if values.dtype == np.float64:
        return pa.array(values * count)
    if len(values) and float(np.abs(values).max()) * float(np.abs(count).max()) > FITS:
        raise HostError(
            "a sum is too large",
            detail="a row stands for so many joined rows that its value, counted as often, exceeds 64 bits.",
            hint="join fewer rows, or cast the argument to DOUBLE.",
        )
    return pa.array(values * count)


def _limb(number: str, argument: pa.Array) -> npt.NDArray[Any]:
    kind = argument.type
    if number == "finite":
        floats = pc.fill_null(argument, 0).cast(pa.float64()).to_numpy(zero_copy_only=False)
        return np.where(np.isfinite(floats), floats, 0.0)
    if number == "float":
        return pc.fill_null(argument, 0).cast(pa.float64()).to_numpy(zero_copy_only=False)
    if not pt.is_decimal(kind):
        whole = pc.fill_null(argument, 0).cast(pa.int64()).to_numpy(zero_copy_only=False)
        if kind.bit_width < 64:
            return whole
        return whole & LOW if number == "limb0" else whole >> 32
    low, high = _words(argument)
    if number == "limb0":
        return low & LOW
    if kind.precision > TWO_LIMBS:
        return (low >> 32) & LOW if number == "limb1" else high
    return ((low >> 32) & LOW) | (high << 32)  # below 2**32, so nothing is cut off


def _words(column: pa.Array) -> tuple[Ints, Ints]:
    """Low and high 64 bits of a decimal."""
    raw = np.frombuffer(column.buffers()[1], dtype=np.int64, count=2 * len(column), offset=column.offset * 16)
    return raw[0::2], raw[1::2]


def orderable(argument: pa.Array) -> pa.Array:
    """The argument in a form whose least and greatest Arrow finds as SQL does: NaN is greater than all numbers."""
    if not pt.is_floating(argument.type):
        return argument
    codes = order_codes(argument)
    nan = np.isnan(pc.fill_null(argument, 0).to_numpy(zero_copy_only=False))
    values = np.where(nan, np.iinfo(np.int64).max, codes.values)
    return pa.array(values, mask=pc.is_null(argument).to_numpy(zero_copy_only=False))


def to_value(
    aggregate: Aggregate, kind: pa.DataType | None, rows: Frame, say: Callable[[int], str], changing: bool = False
) -> pa.Array:
    """The value of an aggregate for each group; `say` names the group of a row, for errors."""
    argument = aggregate.argument or ""
    found = {n: rows.column(Part(n, argument).name) for n in numbers(aggregate, kind, changing)}
    if "finite" in found:
        found["float"] = _with_special(found)
    match aggregate.kind:
        case "count":
            counts = found["valid"] if "valid" in found else weight_of(rows)
            assert counts is not None
            return counts.cast(aggregate.type)
        case "distinct":
            return found["values"].cast(aggregate.type)
        case "list":
            return found["list"]
        case "min" | "max":
            (values,) = found.values()
            return _plain(values, aggregate.type)
    valid = found["valid"].to_numpy(zero_copy_only=False)
    if aggregate.kind in ("bool_and", "bool_or"):
        true = found["true"].to_numpy(zero_copy_only=False)
        return pa.array(true == valid if aggregate.kind == "bool_and" else true > 0, mask=valid == 0)
    assert kind is not None
    if aggregate.kind == "avg":
        return _average(found, kind, valid)
    return _sum(found, valid, aggregate, say)


def _with_special(found: Mapping[Number, pa.Array]) -> pa.Array:
    """Sums of floats, given those of finite ones and how many are not."""
    names: tuple[Number, ...] = ("finite", "nan", "above", "below")
    sums, nan, above, below = (found[name].to_numpy(zero_copy_only=False) for name in names)
    sums = np.where(above > 0, np.inf, np.where(below > 0, -np.inf, sums))
    return pa.array(np.where((nan > 0) | ((above > 0) & (below > 0)), np.nan, sums))


def _plain(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if not pt.is_floating(kind):
        return values
    codes = pc.fill_null(values, 0).to_numpy(zero_copy_only=False)
    floats = np.where(codes == np.iinfo(np.int64).max, np.nan, ordered_floats(codes))
    return pa.array(floats, mask=pc.is_null(values).to_numpy(zero_copy_only=False)).cast(kind)


def _average(found: dict[Number, pa.Array], kind: pa.DataType, valid: Ints) -> pa.Array:
    count = np.where(valid == 0, 1, valid).astype(np.float64)
    if "float" in found:
        return pa.array(found["float"].to_numpy(zero_copy_only=False) / count, mask=valid == 0)
    scale = 10.0**kind.scale if pt.is_decimal(kind) else 1.0
    exact = _together(found)
    total = np.array([float(value) for value in exact]) if isinstance(exact, list) else exact.astype(np.float64)
    return pa.array(total / count / scale, mask=valid == 0)


def _sum(found: dict[Number, pa.Array], valid: Ints, aggregate: Aggregate, say: Callable[[int], str]) -> pa.Array:
    if "float" in found:
        return pa.array(found["float"].to_numpy(zero_copy_only=False), mask=valid == 0).cast(aggregate.type)
    exact = _together(found)
    if pt.is_decimal(aggregate.type):
        return _decimals(exact, aggregate.type, valid, say)
    if isinstance(exact, list):
        for row, value in enumerate(exact):
            if not -(2**63) <= value < 2**63:
                raise _overflow("SUM", value, say(row))
        exact = np.array(exact, dtype=np.int64)
    return pa.array(exact, mask=valid == 0).cast(aggregate.type)


def _together(found: dict[Number, pa.Array]) -> Ints | list[int]:
    """The sums of limbs as one number each: 64 bits wide if all fit, else as wide as needed."""
    limbs = [found[n].to_numpy(zero_copy_only=False) for n in ("limb0", "limb1", "limb2") if n in found]
    if all(not len(limb) or int(np.abs(limb).max()) < SAFE >> 32 * i for i, limb in enumerate(limbs[:2])) and not any(
        limb.any() for limb in limbs[2:]
    ):
        return sum((limb << 32 * i for i, limb in enumerate(limbs[:2])), np.zeros(len(limbs[0]), dtype=np.int64))
    return [sum(int(part) << 32 * i for i, part in enumerate(row)) for row in zip(*limbs, strict=True)]


def _decimals(exact: Ints | list[int], kind: pa.DataType, valid: Ints, say: Callable[[int], str]) -> pa.Array:
    if isinstance(exact, list):
        for row, value in enumerate(exact):
            if abs(value) >= 10**kind.precision:
                raise _overflow("SUM", value, say(row))
        data = b"".join(value.to_bytes(16, "little", signed=True) for value in exact)
    else:
        data = np.stack([exact, exact >> 63], axis=1).tobytes()
    mask = pa.array(valid != 0)
    whole = pa.Array.from_buffers(kind, len(valid), [None, pa.py_buffer(data)])
    return pc.if_else(mask, whole, pa.scalar(None, kind))


def _overflow(what: str, value: int, group: str) -> HostError:
    return HostError(
        f"{what} is too large in {group}",
        detail=f"the value is {value}, which does not fit into the type of the result.",
        hint="cast the argument to DOUBLE or DECIMAL, or select fewer rows.",
    )


def blank_measure(part: Part, kind: pa.DataType, count: int) -> pa.Array:
    """The measure of groups that count nothing."""
    if part.number in ("least", "greatest"):
        return pa.nulls(count, pa.int64() if pt.is_floating(kind) else kind)
    is_real = part.number in ("float", "finite")
    return pa.array(np.zeros(count, dtype=np.float64 if is_real else np.int64))
