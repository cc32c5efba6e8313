"""Slots of an axis: where the codes of a key fall, in plans and on workers alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit, types

from weft.kernels.boxes import Places
from weft.kernels.codes import INTS, INTS32, Ints, destinations

SALT = 0x9E3779B97F4A7C15
"""The step between axes; odd, so that no two of 2^64 axes have the same salt."""
_WORD = 0xFFFFFFFFFFFFFFFF


def hash_slots(codes: Ints, size: int, position: int, domain: Sequence[int] = ()) -> Ints:
    """The slot of each code on the axis at `position`: its place in the domain in turn if it is there, else its hash.

    Every axis salts the hash, so that equal values on two axes get independent slots.  The first axis has no salt, so
    that a cube of one axis routes like a store that is placed by a key.
    """
    salted = (codes.view(np.uint64) + np.uint64(position * SALT & _WORD)).view(np.int64)
    slots: Ints = destinations(np.ascontiguousarray(salted), size).astype(np.int64)
    if not domain:
        return slots
    known = np.unique(np.array(domain, dtype=np.int64))
    at = np.minimum(np.searchsorted(known, codes), len(known) - 1)
    return np.where(known[at] == codes, at % size, slots)


def deal(slots: npt.NDArray[Any], count: int) -> tuple[Places, Ints]:
    """Rows by their slots, each slot's in their order, and where each slot begins and ends; below 0 is no slot."""
    kind = np.int64 if slots.dtype == np.int64 else np.int32
    order, ends = _deal(np.ascontiguousarray(slots, dtype=kind), count)
    return order, ends


@njit(
    [types.Tuple((types.int32[::1], types.int64[::1]))(kind, types.int64) for kind in (INTS, INTS32)],
    cache=True,
)
def _deal(slots: Any, count: int) -> Any:
    ends = np.zeros(count + 1, dtype=np.int64)
    for i in range(len(slots)):
        if slots[i] >= 0:
            ends[slots[i] + 1] += 1
    for slot in range(count):
        ends[slot + 1] += ends[slot]
    fill, order = ends[:-1].copy(), np.empty(ends[count], dtype=np.int32)
    for i in range(len(slots)):
        if slots[i] >= 0:
            order[fill[slots[i]]] = i
            fill[slots[i]] += 1
    return order, ends
