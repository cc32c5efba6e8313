"""Arrow columns as 64-bit codes that compiled kernels can compare.

Two kinds of code, both with a mask of the rows that can match anything at all (NULL and NaN cannot):

- *equality code*: equal values have equal codes.  If `exact`, different values have different codes too;
  otherwise a match of codes is only a candidate and the caller must compare the values.
- *order code*: a < b implies code(a) <= code(b).  If `exact`, also code(a) < code(b); otherwise a range of
  codes is a superset of the range of values and the caller must compare the values.

Both sides of a comparison must have the same Arrow type; the planner ensures that.  A code depends on nothing but
the value, on every machine and in every run: it decides on which worker a row is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit, types
from numba.extending import intrinsic

LOWEST = np.iinfo(np.int64).min
HIGHEST = np.iinfo(np.int64).max
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Codes(NamedTuple):
    """Codes of a column; rows where `valid` is false match nothing.  `valid` None means all are valid."""

    values: Ints
    valid: Bools | None
    exact: bool


def has_codes(kind: pa.DataType) -> bool:
    """Whether values of this type can be hashed and ordered."""
    return exact_order(kind) or any(
        check(kind) for check in (pa.types.is_string, pa.types.is_binary, pa.types.is_decimal)
    )


def exact_equality(kinds: Sequence[pa.DataType]) -> bool:
    """Whether equal codes prove equal values for a key of these types."""
    return len(kinds) == 1 and exact_order(kinds[0]) and not pa.types.is_decimal(kinds[0])


def exact_order(kind: pa.DataType) -> bool:
    """Whether order codes of this type never tie for different values."""
    plain = (
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_boolean,
        pa.types.is_date32,
        pa.types.is_timestamp,
        pa.types.is_duration,
    )
    return any(check(kind) for check in plain) or (pa.types.is_decimal(kind) and kind.precision <= 18)


def equality_codes(columns: Sequence[pa.Array]) -> Codes:
    """One code per row for the tuple of `columns`."""
    parts = [_equality(column) for column in columns]
    if len(parts) == 1:
        return parts[0]
    mixed = np.zeros(len(columns[0]), dtype=np.int64)
    for part in parts:
        mixed = _mix_into(mixed, part.values)
    return Codes(mixed, _all_valid([part.valid for part in parts]), exact=False)


def order_codes(column: pa.Array) -> Codes:
    """One order-preserving code per row."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return Codes(_prefixes(*_bytes(column)), _valid(column), exact=False)
    if pa.types.is_decimal(kind):
        if kind.precision <= 18:
            return Codes(_low_words(column), _valid(column), exact=True)
        column = pc.cast(column, pa.float64())  # rounding is monotone, so the range only widens
        return order_codes(column)._replace(exact=False)
    if pa.types.is_floating(kind):
        values, valid = _floats(column)
        return Codes(_ordered_bits(values), valid, exact=True)
    return _equality(column)


ABSENT = np.int64(0x5851F42D4C957F2D)
"""Stands for NULL and for NaN where they are values like any other."""


def group_codes(columns: Sequence[pa.Array], count: int) -> Ints:
    """One code per row, equal for rows that are equal if NULL equals NULL and NaN equals NaN."""
    mixed = np.zeros(count, dtype=np.int64)
    for part in (_nested(column) if pa.types.is_nested(column.type) else _equality(column) for column in columns):
        mixed = _mix_into(mixed, part.values if part.valid is None else np.where(part.valid, part.values, ABSENT))
    return mixed


def _nested(column: pa.Array) -> Codes:
    """Codes of structs and lists, made of those of their parts; in a list also of their places."""
    if pa.types.is_struct(column.type):
        parts = [pc.struct_field(column, [at]) for at in range(column.type.num_fields)]
        return Codes(group_codes(parts, len(column)), _valid(column), exact=False)
    counts = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    ends = np.cumsum(counts)
    values = column.flatten()
    places = np.arange(len(values)) - np.repeat(ends - counts, counts)
    sums = np.concatenate([[0], np.cumsum(_mix_into(places, group_codes([values], len(values))))])
    return Codes(_mix_into(counts, sums[ends] - sums[ends - counts]), _valid(column), exact=False)


def end_codes(column: pa.Array, *, upper: bool, strict: bool = False) -> Codes:
    """One end of an interval per row, as an order code that is included; NULL means that there is no end.

    A strict end is moved to the neighbouring code.  Where codes are not exact it stays: the interval then admits more,
    and the caller must compare the values.  NaN, and a strict end with no code beyond it, leave nothing.
    """
    found = order_codes(column)
    values, valid = found.values, np.ones(len(column), dtype=np.bool_) if found.valid is None else found.valid.copy()
    if strict and found.exact:
        edge, step = (LOWEST, -1) if upper else (HIGHEST, 1)
        valid &= values != edge
        values = np.where(values == edge, values, values + step)
    missing = pc.is_null(column).to_numpy(zero_copy_only=False)
    return Codes(np.where(missing, HIGHEST if upper else LOWEST, values), valid | missing, found.exact)


def destinations(codes: Ints, workers: int) -> npt.NDArray[np.int32]:
    """The worker that owns each code."""
    return _destinations(codes, workers)


def _equality(column: pa.Array) -> Codes:
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return Codes(_hash_bytes(*_bytes(column)), _valid(column), exact=False)
    if pa.types.is_decimal(kind):
        words = _words(column)
        return Codes(
            _mix_into(_mix_into(np.zeros(len(column), dtype=np.int64), words[0]), words[1]), _valid(column), exact=False
        )
    if pa.types.is_floating(kind):
        values, valid = _floats(column)
        return Codes((values + 0.0).view(np.int64), valid, exact=True)  # + 0.0 makes -0.0 equal 0.0
    return Codes(_integers(column), _valid(column), exact=True)


def _integers(column: pa.Array) -> Ints:
    kind = column.type
    if pa.types.is_boolean(kind):
        column = pc.cast(column, pa.int8())
    elif pa.types.is_date32(kind):
        column = column.view(pa.int32())
    elif pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        column = column.view(pa.int64())
    elif pa.types.is_time(kind):
        column = column.view(pa.int64() if kind.bit_width == 64 else pa.int32())
    elif pa.types.is_null(kind):
        return np.zeros(len(column), dtype=np.int64)
    elif not pa.types.is_integer(kind):
        raise TypeError(f"no code for values of type {kind}")
    return _plain(column).astype(np.int64, copy=False)


def _plain(column: pa.Array) -> npt.NDArray[Any]:
    """The value buffer as numpy; behind NULLs it may hold anything."""
    dtype = np.dtype(column.type.to_pandas_dtype())
    if len(column) == 0:
        return np.empty(0, dtype=dtype)
    return np.frombuffer(column.buffers()[1], dtype=dtype, count=len(column), offset=column.offset * dtype.itemsize)


def _floats(column: pa.Array) -> tuple[npt.NDArray[np.float64], Bools | None]:
    values = _plain(column).astype(np.float64)
    nan = np.isnan(values)
    valid = _valid(column)
    if nan.any():
        valid = ~nan if valid is None else valid & ~nan
    return values, valid


def _valid(column: pa.Array) -> Bools | None:
    if column.null_count == 0:
        return None
    valid: Bools = pc.is_valid(column).to_numpy(zero_copy_only=False)
    return valid


def _all_valid(masks: Sequence[Bools | None]) -> Bools | None:
    known = [mask for mask in masks if mask is not None]
    return np.logical_and.reduce(known) if known else None


def _words(column: pa.Array) -> tuple[Ints, Ints]:
    """Low and high 64 bits of a decimal128 column."""
    if len(column) == 0:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    raw = np.frombuffer(column.buffers()[1], dtype=np.int64, count=2 * len(column), offset=column.offset * 16)
    return np.ascontiguousarray(raw[0::2]), np.ascontiguousarray(raw[1::2])


def _low_words(column: pa.Array) -> Ints:
    return _words(column)[0]


def _bytes(column: pa.Array) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """Offsets and data of a string or binary column."""
    if len(column) == 0:
        return np.zeros(1, dtype=np.int32), np.empty(0, dtype=np.uint8)
    _, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int32, count=len(column) + 1, offset=column.offset * 4)
    return bounds, np.frombuffer(data, dtype=np.uint8) if data is not None and data.size else np.empty(
        0, dtype=np.uint8
    )


INTS = types.Array(types.int64, 1, "C", readonly=True)
INTS32 = types.Array(types.int32, 1, "C", readonly=True)
BYTES = types.Array(types.uint8, 1, "C", readonly=True)
WORDS = types.Array(types.uint64, 1, "C", readonly=True)
BOOLS = types.Array(types.bool_, 1, "C", readonly=True)
# Signatures are given, so that each kernel is compiled once.  Otherwise it would be compiled again for every
# combination of writable and memory-mapped arrays.


@intrinsic
def _load64(typing_context: Any, data: Any, at: Any) -> Any:  # noqa: ARG001
    """Eight bytes of a contiguous uint8 array as one little-endian word, at any alignment."""
    signature = types.uint64(types.Array(types.uint8, 1, "C", readonly=True), types.int64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        array = context.make_array(sig.args[0])(context, builder, args[0])
        address = builder.gep(array.data, [args[1]])
        word = builder.load(builder.bitcast(address, context.get_value_type(types.uint64).as_pointer()))
        word.align = 1
        return word

    return signature, generate


@njit(inline="always")
def mix(value: Any) -> Any:
    """A bijective scramble of 64 bits (the finalizer of splitmix64)."""
    x = np.uint64(value)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@njit(types.int64[::1](INTS, INTS), cache=True)
def _mix_into(state: Ints, values: Ints) -> Ints:
    out = np.empty(len(state), dtype=np.int64)
    for i in range(len(state)):
        out[i] = np.int64(mix(mix(values[i]) + np.uint64(state[i]) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(1)))
    return out


@njit(types.int32[::1](INTS, types.int64), cache=True)
def _destinations(codes: Ints, workers: int) -> npt.NDArray[np.int32]:
    out = np.empty(len(codes), dtype=np.int32)
    for i in range(len(codes)):
        out[i] = np.int32(mix(codes[i]) % np.uint64(workers))
    return out


@njit(types.int64[::1](INTS32, BYTES), cache=True)
def _hash_bytes(offsets: npt.NDArray[np.int32], data: npt.NDArray[np.uint8]) -> Ints:
    out = np.empty(len(offsets) - 1, dtype=np.int64)
    for i in range(len(out)):
        start, end = offsets[i], offsets[i + 1]
        h = np.uint64(end - start) * np.uint64(0x9E3779B97F4A7C15)
        at = start
        while at + 8 <= end:
            h = mix(h ^ _load64(data, np.int64(at)))
            at += 8
        tail = np.uint64(0)
        while at < end:
            tail = (tail << np.uint64(8)) | np.uint64(data[at])
            at += 1
        out[i] = np.int64(mix(h ^ tail))
    return out


@njit(types.int64[::1](INTS32, BYTES), cache=True)
def _prefixes(offsets: npt.NDArray[np.int32], data: npt.NDArray[np.uint8]) -> Ints:
    """The first eight bytes, big-endian, shifted so that signed comparison orders them."""
    out = np.empty(len(offsets) - 1, dtype=np.int64)
    for i in range(len(out)):
        word = np.uint64(0)
        for k in range(8):
            word <<= np.uint64(8)
            if offsets[i] + k < offsets[i + 1]:
                word |= np.uint64(data[offsets[i] + k])
        out[i] = np.int64(word ^ np.uint64(0x8000000000000000))
    return out


def ordered_floats(codes: Ints) -> npt.NDArray[np.float64]:
    """The numbers behind order codes of floating-point values."""
    return np.where(codes < 0, codes ^ np.int64(0x7FFFFFFFFFFFFFFF), codes).view(np.float64)


def _ordered_bits(values: npt.NDArray[np.float64]) -> Ints:
    """IEEE bits changed so that signed comparison orders them; -0.0 and 0.0 are equal."""
    bits = (values + 0.0).view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)
