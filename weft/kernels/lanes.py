"""Sixty-four bytes at a time: comparisons whose outcome is a word of bits.

An interval is two bytes for each dimension: the slab in which it begins, and how many slabs further it ends.  They are
there twice.  For 64 intervals and one point they come in pairs of lines, for each word and dimension.  For one interval
and 64 points they are two bytes, and the slabs of the points are a line.  One instruction reads a line where the
processor has wide registers; elsewhere the compiler takes several.  It is quick if lines begin where those of the cache
do, and right if they do not: an array that was copied may lie anywhere.

What must hold: no sum of both bytes is above 255, and there is room behind the slabs of points for a line that begins
at the last one.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def count_zeros(_typing: Any, _bits: Any) -> Any:
    """How many zeros lie below the lowest one."""

    def make(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), make


@intrinsic
def count_ones(_typing: Any, _bits: Any) -> Any:
    """How many bits are set."""

    def make(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.uint64), make


BLOCK = 16
"""Dimensions whose slabs are compared at once; the slabs of a box, and those of a point, are filled up to as many."""
LANES, FEWER = (ir.VectorType(ir.IntType(8), count) for count in (64, BLOCK))
ZEROS = ir.Constant(LANES, [0] * 64)


def lane_op(name: str, builder: Any, *operands: Any) -> Any:
    """An operation on each byte that LLVM has a name for."""
    kind = ir.FunctionType(LANES, [LANES, LANES])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v64i8"), operands)


def load(builder: Any, lanes: Any, data: Any, at: Any) -> Any:
    """The bytes from a place on."""
    return builder.load(builder.bitcast(builder.gep(data, [at]), lanes.as_pointer()), align=1)


def repeat(builder: Any, byte: Any) -> Any:
    """A byte 64 times."""
    one = builder.insert_element(ir.Constant(LANES, ir.Undefined), byte, ir.Constant(ir.IntType(32), 0))
    every = ir.Constant(ir.VectorType(ir.IntType(32), 64), [0] * 64)
    return builder.shuffle_vector(one, ir.Constant(LANES, ir.Undefined), every)


def are_zero(builder: Any, lanes: Any) -> Any:
    """A bit for each byte that is 0."""
    return builder.bitcast(builder.icmp_unsigned("==", lanes, ZEROS), ir.IntType(64))


# ------------------------------------------------------------------------------- the boxes of a word and one point


def boxes_of_word(context: Any, builder: Any, signature: Any, args: Any) -> tuple[Any, Any]:
    """How many slabs a point lies behind the first slab of each box, and how many the last slab of the box does."""
    slabs, word, dimension, slab = args
    array = context.make_array(signature.args[0])(context, builder, slabs)
    wide = builder.extract_value(array.shape, 1)
    at = builder.mul(builder.add(builder.mul(word, wide), dimension), ir.Constant(ir.IntType(64), 128))
    first, span = (load(builder, LANES, array.data, builder.add(at, at.type(more))) for more in (0, 64))
    return builder.sub(repeat(builder, slab), first), span


@intrinsic
def meeting(_typing: Any, slabs: Any, _word: Any, _dimension: Any, _slab: Any) -> Any:
    """The word of a set: a bit for each box that meets a slab."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        further, span = boxes_of_word(context, builder, signature, args)
        return builder.bitcast(builder.icmp_unsigned("<=", further, span), ir.IntType(64))

    return types.uint64(slabs, types.int64, types.int64, types.uint8), make


@intrinsic
def ending(_typing: Any, slabs: Any, _word: Any, _dimension: Any, _slab: Any) -> Any:
    """A bit for each box that begins or ends in a slab."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        further, span = boxes_of_word(context, builder, signature, args)
        ends = builder.icmp_unsigned("==", further, span)
        return builder.bitcast(builder.or_(builder.icmp_unsigned("==", further, ZEROS), ends), ir.IntType(64))

    return types.uint64(slabs, types.int64, types.int64, types.uint8), make


# ------------------------------------------------------------------------------------- 64 points and one box


def points_of_run(context: Any, builder: Any, signature: Any, args: Any, k: Any) -> tuple[Any, Any]:
    """How many slabs each point lies behind the first slab of the box, and how many the last slab of the box does."""
    kinds, values = signature.args[:3], args[:3]
    spans, asked, places = (context.make_array(t)(context, builder, v) for t, v in zip(kinds, values, strict=True))
    wide, long = builder.extract_value(spans.shape, 1), builder.extract_value(places.shape, 1)
    dimension = builder.load(builder.gep(asked.data, [k]))
    at = builder.add(builder.mul(args[3], wide), dimension)
    ends = (at, builder.add(at, builder.lshr(wide, k.type(1))))
    first, span = (builder.load(builder.gep(spans.data, [place])) for place in ends)
    points = load(builder, LANES, places.data, builder.add(builder.mul(k, long), args[4]))
    return builder.sub(points, repeat(builder, first)), repeat(builder, span)


@intrinsic
def met_by(_typing: Any, spans: Any, asked: Any, places: Any, _slot: Any, _row: Any, _begin: Any, _end: Any) -> Any:
    """A bit for each of 64 points, from a row on, whose slabs meet a box in some of the dimensions asked."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        behind = cgutils.alloca_once_value(builder, ZEROS)
        with cgutils.for_range(builder, args[6], start=args[5]) as loop:
            further, span = points_of_run(context, builder, signature, args, loop.index)
            builder.store(builder.or_(builder.load(behind), lane_op("usub.sat", builder, further, span)), behind)
        return are_zero(builder, builder.load(behind))

    numbers = (types.int64,) * 4
    return types.uint64(spans, asked, places, *numbers), make


# ------------------------------------------------------------------------------------- one point and one box


@intrinsic
def ends_of(_typing: Any, spans: Any, rows: Any, _slot: Any, _row: Any, _begin: Any) -> Any:
    """A bit for each of the dimensions from one on in which a box begins or ends in the slab of a point."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        some, others = (
            context.make_array(t)(context, builder, v) for t, v in zip(signature.args[:2], args, strict=False)
        )
        wide = builder.extract_value(others.shape, 1)
        at = builder.add(builder.mul(args[2], builder.shl(wide, wide.type(1))), args[4])
        place = load(builder, FEWER, others.data, builder.add(builder.mul(args[3], wide), args[4]))
        first, span = (load(builder, FEWER, some.data, where) for where in (at, builder.add(at, wide)))
        further = builder.sub(place, first)
        ends = builder.icmp_unsigned("==", further, span)
        ends = builder.or_(builder.icmp_unsigned("==", further, ir.Constant(FEWER, None)), ends)
        return builder.zext(builder.bitcast(ends, ir.IntType(BLOCK)), ir.IntType(64))

    return types.uint64(spans, rows, *((types.int64,) * 3)), make


@intrinsic
def prefetch(_typing: Any, ends: Any, _slot: Any, _dimension: Any) -> Any:
    """Have the ends of a box in a dimension fetched: they are read soon."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        wide = builder.extract_value(array.shape, 1)
        at = builder.shl(builder.add(builder.mul(args[1], wide), args[2]), wide.type(1))
        byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
        call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch")
        builder.call(call, [builder.bitcast(builder.gep(array.data, [at]), byte), flag(0), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.void(ends, types.int64, types.int64), make
