"""Sixty-four bytes at a time: comparisons whose outcome is a word of bits.

Bytes come in pairs of lines, for each word and dimension: the slabs in which 64 intervals begin, and how many slabs
further they end.  One instruction reads a line where the processor has wide registers; elsewhere the compiler takes
several.  It is quick if lines begin where those of the cache do, and right if they do not: an array that was copied may
lie anywhere.  What must hold: no sum of both bytes is above 255.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic
def count_zeros(_typing: Any, _bits: Any) -> Any:
    """How many zeros lie below the lowest one."""

    def make(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), make


LANES = ir.VectorType(ir.IntType(8), 64)


def further_of(context: Any, builder: Any, signature: Any, args: Any) -> tuple[Any, Any]:
    """How many slabs a point lies behind the first slab of each box of a word, and how many the last slab does."""
    slabs, word, dimension, slab = args
    array = context.make_array(signature.args[0])(context, builder, slabs)
    wide = builder.extract_value(array.shape, 1)
    at = builder.mul(builder.add(builder.mul(word, wide), dimension), ir.Constant(ir.IntType(64), 128))
    first, span = (
        builder.load(
            builder.bitcast(builder.gep(array.data, [builder.add(at, at.type(more))]), LANES.as_pointer()), align=1
        )
        for more in (0, 64)
    )
    one = builder.insert_element(ir.Constant(LANES, ir.Undefined), slab, ir.Constant(ir.IntType(32), 0))
    every = ir.Constant(ir.VectorType(ir.IntType(32), 64), [0] * 64)
    return builder.sub(builder.shuffle_vector(one, ir.Constant(LANES, ir.Undefined), every), first), span


@intrinsic
def meeting(_typing: Any, slabs: Any, _word: Any, _dimension: Any, _slab: Any) -> Any:
    """The word of a set: a bit for each box that meets a slab."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        further, span = further_of(context, builder, signature, args)
        return builder.bitcast(builder.icmp_unsigned("<=", further, span), ir.IntType(64))

    return types.uint64(slabs, types.int64, types.int64, types.uint8), make


@intrinsic
def ending(_typing: Any, slabs: Any, _word: Any, _dimension: Any, _slab: Any) -> Any:
    """A bit for each box that begins or ends in a slab."""

    def make(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        further, span = further_of(context, builder, signature, args)
        begins = builder.icmp_unsigned("==", further, ir.Constant(LANES, [0] * 64))
        return builder.bitcast(builder.or_(begins, builder.icmp_unsigned("==", further, span)), ir.IntType(64))

    return types.uint64(slabs, types.int64, types.int64, types.uint8), make
