"""The least hashes of codes and how often each occurs, in one pass over the rows.

A hash is a bijection on 64 bits (splitmix64 with its step), so different codes have different hashes.  A table holds at
most 2k of them.  When it is full, the k least stay and the k-th becomes the bound: whatever is above it is not looked
up any more.  It only falls, so a hash that is among the k least of all rows was never dropped, and its count is exact.

To fill the table several times takes longer than to look at all rows.  So the first bound is one below which as many
hashes lie as fit, if all rows differ.  If that leaves too few, it shows how many values there are, and the rows are
looked at once more, with a bound that fits these.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit, types

from weft.kernels.codes import INTS, Ints, mix

Words = npt.NDArray[np.uint64]
STEP = np.uint64(0x9E3779B97F4A7C15)
MARGIN = 1.5
"""So many times as many hashes as are wanted are to lie below a bound."""


@njit(types.void(types.uint64[::1], types.int64[::1], types.uint64, types.int64), cache=True)
def _put(keys: Any, counts: Any, key: Any, count: Any) -> None:
    mask = np.uint64(len(keys) - 1)
    slot = key & mask
    while counts[slot] and keys[slot] != key:
        slot = (slot + np.uint64(1)) & mask
    keys[slot] = key
    counts[slot] += count


@njit(types.Tuple((types.uint64[::1], types.int64[::1]))(types.uint64[::1], types.int64[::1], types.int64), cache=True)
def _sorted(keys: Any, counts: Any, k: Any) -> Any:
    there = np.flatnonzero(counts)
    order = there[np.argsort(keys[there])][:k]
    return keys[order], counts[order]


def least_hashes(codes: Ints, k: int) -> tuple[Words, Ints]:
    """The k least hashes, sorted, and how many rows each has."""
    values = float(len(codes))
    while (share := MARGIN * k / max(1.0, values)) < 1:
        found = _least_below(codes, k, np.uint64(share * 2**64))
        if len(found[0]) == k:
            return found
        values = len(found[0]) / share
    return _least_below(codes, k, np.uint64(2**64 - 1))


@njit(types.Tuple((types.uint64[::1], types.int64[::1]))(INTS, types.int64, types.uint64), cache=True)
def _least_below(codes: Ints, k: int, bound: Any) -> tuple[Words, Ints]:
    size = 16
    while size < 4 * k:
        size *= 2
    keys, counts = np.zeros(size, dtype=np.uint64), np.zeros(size, dtype=np.int64)
    mask, used = np.uint64(size - 1), 0
    for i in range(len(codes)):
        key = mix(np.uint64(codes[i]) + STEP)
        if key > bound:
            continue
        slot = key & mask
        while counts[slot] and keys[slot] != key:
            slot = (slot + np.uint64(1)) & mask
        if counts[slot] == 0:
            keys[slot] = key
            used += 1
        counts[slot] += 1
        if used > 2 * k:
            kept, times = _sorted(keys, counts, k)
            bound, used = kept[-1], k
            counts[:] = 0
            for j in range(k):
                _put(keys, counts, kept[j], times[j])
    return _sorted(keys, counts, k)
