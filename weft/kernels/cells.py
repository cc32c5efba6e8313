"""Slots of an axis: where the codes of a key fall, in plans and on workers alike."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.kernels.codes import Ints, destinations

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
