"""Rows grouped by a 64-bit code: a number for every group, in the order in which groups first appear, and their sums.

Groups are found with an open hash table of at least twice as many places as rows.  Two rows are in one group iff their
codes are equal; whether equal codes mean equal values is for the caller to check.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit, types

from weft.kernels.boxes import Places
from weft.kernels.codes import BOOLS, INTS, INTS32, Bools, Ints, mix

FLOATS = types.Array(types.float64, 1, "C", readonly=True)
Floats = npt.NDArray[np.float64]


def group_ids(codes: Ints) -> tuple[Places, Places]:
    """The group of every row, and the first row of every group."""
    ids, firsts = _group_ids(np.ascontiguousarray(codes))
    return ids, firsts


def add_ints(ids: Places, values: Ints, groups: int) -> Ints | None:
    """The sum of every group; None if one does not fit into 64 bits."""
    sums, fits = _add_ints(ids, np.ascontiguousarray(values), groups)
    return sums if fits else None


def add_floats(ids: Places, values: Floats, groups: int) -> Floats:
    """The sum of every group."""
    sums: Floats = _add_floats(ids, np.ascontiguousarray(values), groups)
    return sums


def extremes(ids: Places, values: Ints, valid: Bools | None, groups: int, *, greatest: bool) -> tuple[Ints, Bools]:
    """The least or greatest value of every group, and which groups have one."""
    mask = np.empty(0, dtype=np.bool_) if valid is None else valid
    found, known = _extremes(ids, np.ascontiguousarray(values), mask, groups, greatest)
    return found, known


@njit(types.Tuple((types.int32[::1], types.int32[::1]))(INTS), cache=True)
def _group_ids(codes: Any) -> Any:
    count = len(codes)
    bits = 4
    while (1 << bits) < 2 * count:
        bits += 1
    table = np.full(1 << bits, -1, np.int32)
    seen = np.empty(1 << bits, np.int64)
    ids, firsts = np.empty(count, np.int32), np.empty(count, np.int32)
    groups, last = 0, (1 << bits) - 1
    for i in range(count):
        code = codes[i]
        at = np.int64(mix(code) >> np.uint64(64 - bits))
        while table[at] >= 0 and seen[at] != code:
            at = (at + 1) & last
        if table[at] < 0:
            table[at], seen[at], firsts[groups] = groups, code, i
            groups += 1
        ids[i] = table[at]
    return ids, firsts[:groups].copy()


@njit(types.Tuple((types.int64[::1], types.bool_))(INTS32, INTS, types.int64), cache=True)
def _add_ints(ids: Any, values: Any, groups: int) -> Any:
    sums = np.zeros(groups, np.int64)
    fits = True
    for i in range(len(ids)):
        before, value = sums[ids[i]], values[i]
        after = before + value
        fits &= not ((before ^ after) & (value ^ after)) < 0
        sums[ids[i]] = after
    return sums, fits


@njit(types.float64[::1](INTS32, FLOATS, types.int64), cache=True)
def _add_floats(ids: Any, values: Any, groups: int) -> Any:
    sums = np.zeros(groups, np.float64)
    for i in range(len(ids)):
        sums[ids[i]] += values[i]
    return sums


@njit(types.Tuple((types.int64[::1], types.bool_[::1]))(INTS32, INTS, BOOLS, types.int64, types.bool_), cache=True)
def _extremes(ids: Any, values: Any, valid: Any, groups: int, greatest: bool) -> Any:
    found, known = np.zeros(groups, np.int64), np.zeros(groups, np.bool_)
    for i in range(len(ids)):
        if len(valid) and not valid[i]:
            continue
        group, value = ids[i], values[i]
        if not known[group] or (value > found[group] if greatest else value < found[group]):
            found[group], known[group] = value, True
    return found, known
