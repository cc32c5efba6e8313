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
    """How many zeros lie below the lowest one; 64 if there is none."""

    def make(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), make


@intrinsic
def count_ones(_typing: Any, _bits: Any) -> Any:
    """How many bits are set."""

    def make(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.uint64), make


BLOCK = 16
"""Dimensions whose slabs are compared at once; the slabs of a box, and those of a point, are filled up to as many."""
LANES, PAIRS = ir.VectorType(ir.IntType(8), 64), ir.VectorType(ir.IntType(16), BLOCK)
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


# ------------------------------------------------------------------------------------- 64 points and some boxes

TOGETHER = 4
"""Boxes that are compared with the same points at once: what is read of these is read once for all."""


def slab_of(builder: Any, ends: Any, at: Any) -> Any:
    """The slab of an end, 64 times: the upper one of its two bytes."""
    both = builder.load(builder.gep(ends, [at]))
    return repeat(builder, builder.trunc(builder.lshr(both, both.type(8)), ir.IntType(8)))


@intrinsic
def met_by(
    _typing: Any, spans: Any, asked: Any, places: Any, boxes: Any, masks: Any, _at: Any, _row: Any, _begin: Any
) -> Any:
    """Write the masks of some boxes, from a place on: a bit for each of 64 points, from a row on, whose slabs meet the
    box in the dimensions asked, from one on."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        ends, order, points, slots, out = (
            context.make_array(t)(context, builder, v) for t, v in zip(signature.args[:5], args, strict=False)
        )
        wide, long = builder.extract_value(ends.shape, 1), builder.extract_value(points.shape, 1)
        half, places = builder.lshr(wide, wide.type(1)), [builder.add(args[5], wide.type(n)) for n in range(TOGETHER)]
        begins = [builder.mul(builder.load(builder.gep(slots.data, [place])), wide) for place in places]
        behind = [cgutils.alloca_once_value(builder, ZEROS) for _ in begins]
        with cgutils.for_range(builder, builder.extract_value(order.shape, 0), start=args[7]) as loop:
            dimension = builder.load(builder.gep(order.data, [loop.index]))
            line = load(builder, LANES, points.data, builder.add(builder.mul(loop.index, long), args[6]))
            for begin, so_far in zip(begins, behind, strict=True):
                at = builder.add(begin, dimension)
                first, last = (slab_of(builder, ends.data, end) for end in (at, builder.add(at, half)))
                outside = (lane_op("usub.sat", builder, *pair) for pair in ((first, line), (line, last)))
                builder.store(builder.or_(builder.load(so_far), builder.or_(*outside)), so_far)
        for place, so_far in zip(places, behind, strict=True):
            builder.store(are_zero(builder, builder.load(so_far)), builder.gep(out.data, [place]))
        return context.get_dummy_value()

    numbers = (types.int64,) * 3
    return types.void(spans, asked, places, boxes, masks, *numbers), make


# ------------------------------------------------------------------------------------- one point and one box


@intrinsic
def compare(_typing: Any, spans: Any, rows: Any, _slot: Any, _row: Any, _begin: Any) -> Any:
    """Two bits for each of the dimensions from one on: whether a point has the two bytes of an end of the box, and,
    further up, whether it lies outside of the box by its two bytes."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        boxes, points = (
            context.make_array(t)(context, builder, v) for t, v in zip(signature.args[:2], args, strict=False)
        )
        wide = builder.extract_value(points.shape, 1)
        at = builder.add(builder.mul(args[2], builder.shl(wide, wide.type(1))), args[4])
        mine = load(builder, PAIRS, points.data, builder.add(builder.mul(args[3], wide), args[4]))
        low, high = (load(builder, PAIRS, boxes.data, place) for place in (at, builder.add(at, wide)))
        found = ir.Constant(ir.IntType(64), 0)
        for part, (below, above) in enumerate((("==", "=="), ("<", ">"))):
            some = builder.or_(builder.icmp_unsigned(below, mine, low), builder.icmp_unsigned(above, mine, high))
            bits = builder.zext(builder.bitcast(some, ir.IntType(BLOCK)), ir.IntType(64))
            found = builder.or_(found, builder.shl(bits, wide.type(part * BLOCK)))
        return found

    return types.uint64(spans, rows, *((types.int64,) * 3)), make


@intrinsic
def prefetch(_typing: Any, array: Any, _at: Any) -> Any:
    """Have a place of an array fetched: it is read soon."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
        call = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch")
        builder.call(call, [builder.bitcast(builder.gep(data, [args[1]]), byte), flag(0), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.void(array, types.int64), make
