"""Kernels of text functions.

Text is counted in characters (code points).  Patterns and positions are constants here, because Arrow compiles them
once for a whole array; `spread` takes them from columns, value by value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from weft.expr.casts import Datum
from weft.expr.logic import Kernel


def concat_all(args: Sequence[Datum], _kind: pa.DataType) -> Datum:
    """concat(): NULL counts as empty text."""
    return pc.binary_join_element_wise(*args, "", null_handling="replace", null_replacement="")


def concat_strict(args: Sequence[Datum], _kind: pa.DataType) -> Datum:
    """||: NULL if one side is NULL."""
    return pc.binary_join_element_wise(*args, "")


def like(args: Sequence[Datum], _kind: pa.DataType) -> Datum:
    """LIKE with a constant pattern and, if given, a constant escape character."""
    return _like(args, fold=lambda value: value)


def ilike(args: Sequence[Datum], _kind: pa.DataType) -> Datum:
    """LIKE that ignores case."""
    return _like(args, fold=pc.utf8_lower)


def _like(args: Sequence[Datum], fold: Callable[[Datum], Datum]) -> Datum:
    pattern, *escape = (arg.as_py() for arg in args[1:])
    if pattern is None or None in escape:
        return _null_like(args[0], pa.bool_())
    regex = like_to_regex(pattern, escape[0] if escape else "", lambda text: fold(pa.scalar(text)).as_py())
    return pc.match_substring_regex(fold(args[0]), regex)


def like_pairs(ignore_case: bool, other: Kernel) -> Kernel:
    """LIKE with a column of patterns: those with no more than % at their ends are searched for, the rest is `other`."""

    def kernel(args: Sequence[Datum], kind: pa.DataType) -> Datum:
        if len(args) > 2 or isinstance(args[1], pa.Scalar):
            return other(args, kind)
        subject = pa.repeat(args[0], len(args[1])) if isinstance(args[0], pa.Scalar) else args[0]
        plain = pc.fill_null(pc.match_substring_regex(args[1], r"(?s)\A%?[^%_]*%?\z"), True)
        sides = [pc.utf8_lower(side) if ignore_case else side for side in (subject, args[1])]
        missing = pc.or_(pc.is_null(subject), pc.is_null(args[1])).to_numpy(zero_copy_only=False)
        found = pa.array(_search_plain(*sides), kind, mask=missing)
        rest = pc.invert(plain)
        if not pc.any(rest).as_py():
            return found
        return pc.replace_with_mask(found, rest, other([subject.filter(rest), args[1].filter(rest)], kind))

    return kernel


def _search_plain(subject: pa.Array, patterns: pa.Array) -> Any:
    """Whether texts are like patterns that have no more than % at their ends."""
    texts, parts = as_texts(subject), as_texts(pc.replace_substring_regex(patterns, r"(?s)\A%|%\z", ""))
    before, after = (
        pc.fill_null(test(patterns, pattern="%"), False).to_numpy(zero_copy_only=False)
        for test in (pc.starts_with, pc.ends_with)
    )
    return np.select(
        [before & after, before, after],
        [np.strings.find(texts, parts) >= 0, np.strings.endswith(texts, parts), np.strings.startswith(texts, parts)],
        texts == parts,
    )


def as_texts(texts: pa.Array) -> Any:
    """Texts as numpy has them, empty for NULL."""
    return np.array(pc.fill_null(texts, "").to_numpy(zero_copy_only=False), dtype=np.dtypes.StringDType())


def like_to_regex(pattern: str, escape: str = "", fold: Callable[[str], str] = str) -> str:
    r"""The RE2 pattern that matches what LIKE does.

    >>> print(like_to_regex("a%b_."))
    (?s)\Aa.*b.\.\z
    >>> print(like_to_regex("10$%", "$"))
    (?s)\A10\%\z
    """
    body = "".join(
        {"%": ".*", "_": "."}[char] if wild else _quote(fold(char)) for char, wild in _like_parts(pattern, escape)
    )
    return rf"(?s)\A{body}\z"


def _like_parts(pattern: str, escape: str) -> Iterator[tuple[str, bool]]:
    characters = iter(pattern)
    for char in characters:
        if escape and char == escape:
            char = next(characters, "")
            if not char:
                raise pa.ArrowInvalid("the LIKE pattern ends with its escape character")
            yield char, False
        else:
            yield char, char in "%_"


def _quote(text: str) -> str:
    return re.sub(r"([^\w\s]|_)", r"\\\1", text, flags=re.ASCII) if text.isascii() else text


def substring(args: Sequence[Datum], kind: pa.DataType) -> Datum:
    """Characters from a 1-based start on; a negative start counts from the end, a negative length goes back."""
    start, *length = (arg.as_py() for arg in args[1:])
    if start is None or None in length:
        return _null_like(args[0], kind)
    first, stop = _slice(start, length[0] if length else None)
    return pc.utf8_slice_codeunits(args[0], first, stop)


def _slice(start: int, length: int | None) -> tuple[int, int | None]:
    """The Python slice for SQL's start and length."""
    at = start - 1 if start > 0 else start
    if start == 0:
        return (0, None) if length is None else (0, max(0, length - 1))
    if length is None:
        return at, None
    low, high = sorted((at, at + length))
    if at > 0 or start > 0:
        return max(low, 0), max(high, 0)
    return low, None if high >= 0 else high


def trim(function: Callable[..., Datum]) -> Kernel:
    """The kernel of trim, ltrim or rtrim: spaces, or the characters given."""

    def kernel(args: Sequence[Datum], kind: pa.DataType) -> Datum:
        characters = args[1].as_py() if len(args) > 1 else " "
        if characters is None:
            return _null_like(args[0], kind)
        return function(args[0], characters=characters)

    return kernel


def replace(args: Sequence[Datum], kind: pa.DataType) -> Datum:
    """The text with every occurrence of one constant replaced by another."""
    old, new = (arg.as_py() for arg in args[1:])
    if old is None or new is None:
        return _null_like(args[0], kind)
    return pc.replace_substring(args[0], pattern=old, replacement=new) if old else args[0]


def matcher(function: Callable[..., Datum]) -> Kernel:
    """The kernel of starts_with, ends_with or contains."""

    def kernel(args: Sequence[Datum], kind: pa.DataType) -> Datum:
        pattern = args[1].as_py()
        return _null_like(args[0], kind) if pattern is None else function(args[0], pattern=pattern)

    return kernel


def length(args: Sequence[Datum], kind: pa.DataType) -> Datum:
    """Number of characters of a text, or of elements of a list."""
    count = pc.list_value_length if pt.is_list(args[0].type) else pc.utf8_length
    return pc.cast(count(args[0]), kind)


def apply_to_text(function: Callable[[Datum], Datum]) -> Kernel:
    """The kernel of a function of one text."""
    return lambda args, _: function(args[0])


def _null_like(value: Datum, kind: pa.DataType) -> Datum:
    return pa.scalar(None, kind) if isinstance(value, pa.Scalar) else pa.nulls(len(value), kind)
