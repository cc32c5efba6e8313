"""Kernels that cut, find, pad and digest text.

The first argument is an array; the others are constants that `spread` takes from columns, value by value.
Text is counted in characters (code points).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.expr.casts import Datum
from weft.expr.logic import Kernel
from weft.expr.nested import list_extract
from weft.expr.text import as_texts


def strict(kernel: Callable[..., pa.Array]) -> Kernel:
    """A kernel of an array and Python values; if one of these is NULL, so is the result."""

    def checked(args: Sequence[Datum], kind: pa.DataType) -> Datum:
        values = [arg.as_py() for arg in args[1:]]
        return pa.nulls(len(args[0]), kind) if None in values else kernel(args[0], *values)

    return checked


def left(text: pa.Array, count: int) -> pa.Array:
    """The first characters; a negative count leaves as many out at the end."""
    return pc.utf8_slice_codeunits(text, 0, count)


def right(text: pa.Array, count: int) -> pa.Array:
    """The last characters; a negative count leaves as many out at the beginning."""
    return pc.utf8_slice_codeunits(text, -count) if count else pc.utf8_slice_codeunits(text, 0, 0)


def position(text: pa.Array, part: str) -> pa.Array:
    """Where a part begins, counted from 1; 0 if it is not there."""
    if not part:
        return pc.if_else(pc.is_valid(text), pa.scalar(1, pa.int64()), pa.scalar(None, pa.int64()))
    before = pc.list_element(pc.split_pattern(text, pattern=part, max_splits=1), 0)
    place = pc.add(pc.cast(pc.utf8_length(before), pa.int64()), 1)
    return pc.if_else(pc.match_substring(text, pattern=part), place, pa.scalar(0, pa.int64()))


def split_part(text: pa.Array, separator: str, place: int) -> pa.Array:
    """A part between separators, counted from 1, or from the end if negative; empty if there is none."""
    if separator:
        parts = pc.split_pattern(text, pattern=separator)
    else:
        spaced = pc.replace_substring_regex(text, pattern="(?s)(.)", replacement="\\1\x00")
        parts = pc.split_pattern(pc.utf8_rtrim(spaced, characters="\x00"), pattern="\x00")
    found = list_extract([parts, pa.scalar(place, pa.int64())], pa.string())
    return pc.if_else(pc.is_valid(text), pc.fill_null(found, ""), pa.scalar(None, pa.string()))


def lpad(text: pa.Array, width: int, filler: str) -> pa.Array:
    """Filled up at the left to a width, or cut to it."""
    return pc.binary_join_element_wise(_padding(text, width, filler), left(text, max(0, width)), "")


def rpad(text: pa.Array, width: int, filler: str) -> pa.Array:
    """Filled up at the right to a width, or cut to it."""
    return pc.binary_join_element_wise(left(text, max(0, width)), _padding(text, width, filler), "")


def _padding(text: pa.Array, width: int, filler: str) -> pa.Array:
    lengths = pc.fill_null(pc.utf8_length(text), max(0, width)).to_numpy(zero_copy_only=False)
    needed, places = np.unique(np.maximum(0, width - lengths), return_inverse=True)
    if not filler and needed.any():
        raise pa.ArrowInvalid("there is nothing to fill up with")
    paddings = [(filler * (int(size) // max(1, len(filler)) + 1))[: int(size)] for size in needed]
    return pa.array(paddings, pa.string()).take(pa.array(places))


def repeat(text: pa.Array, times: int) -> pa.Array:
    """The text several times; empty if the number is negative."""
    return pc.binary_repeat(text, max(0, times))


def search(constant: Kernel, elementwise: Callable[[Any, Any], Any]) -> Kernel:
    """The kernel of a search: by Arrow for a constant, by numpy, pair by pair, for a column of things to find."""

    def kernel(args: Sequence[Datum], kind: pa.DataType) -> Datum:
        if isinstance(args[1], pa.Scalar):
            return constant(args, kind)
        whole = pa.repeat(args[0], len(args[1])) if isinstance(args[0], pa.Scalar) else args[0]
        missing = pc.or_(pc.is_null(whole), pc.is_null(args[1])).to_numpy(zero_copy_only=False)
        found = elementwise(as_texts(whole), as_texts(args[1]))
        return pa.array(found, kind, mask=missing)

    return kernel


def find(texts: Any, parts: Any) -> Any:
    """Where parts begin, counted from 1; 0 if they are not there."""
    return np.strings.find(texts, parts) + 1


def contains(texts: Any, parts: Any) -> Any:
    """Whether parts are there."""
    return np.strings.find(texts, parts) >= 0


def concat_ws(args: Sequence[Datum], kind: pa.DataType) -> Datum:
    """Texts with a separator between them; NULLs are left out."""
    separator, *texts = args
    joined: Datum = pa.scalar(None, kind)
    for text in texts:
        joined = pc.coalesce(pc.binary_join_element_wise(joined, text, separator), joined, text)
    return pc.if_else(pc.is_valid(separator), pc.fill_null(joined, ""), pa.scalar(None, kind))


def digest(name: str) -> Kernel:
    """The kernel of md5 and its like: hexadecimal digits, computed once for every distinct text."""

    def kernel(args: Sequence[Datum], kind: pa.DataType) -> Datum:
        return each_distinct(args[0], kind, lambda text: hashlib.new(name, text.encode()).hexdigest())

    return kernel


def code_of(args: Sequence[Datum], kind: pa.DataType) -> Datum:
    """The number of the first character; 0 of an empty text."""
    return each_distinct(args[0], kind, lambda text: ord(text[0]) if text else 0)


def character(args: Sequence[Datum], kind: pa.DataType) -> Datum:
    """The character with a number."""
    return each_distinct(args[0], kind, _character)


def _character(number: int) -> str:
    if not 0 <= number <= 0x10FFFF or 0xD800 <= number <= 0xDFFF:
        raise pa.ArrowInvalid(f"there is no character {number}")
    return chr(number)


def each_distinct(values: Datum, kind: pa.DataType, function: Callable[[Any], object]) -> Datum:
    """A Python function of one value, called once for every distinct value that is not NULL."""
    if isinstance(values, pa.Scalar):
        return pa.scalar(function(values.as_py()) if values.is_valid else None, kind)
    encoded = pc.dictionary_encode(values)
    return pa.array([function(value) for value in encoded.dictionary.to_pylist()], kind).take(encoded.indices)
