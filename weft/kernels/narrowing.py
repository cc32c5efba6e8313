"""The walk of points through sets of boxes: what `bitsets` keeps, narrowed part by part.

Narrow.  A point of slab s_d in each dimension d of a part leaves  alive & set(d1, s_d1) & set(d2, s_d2) & ...  The
upper levels are combined first, the topmost in all dimensions, and only words whose bit is left are made.  What is left
are words, and marks that say which of them are not 0; the next part begins with these.  A point that agrees with the
one before it in the first parts takes over what they have left; where points in between have passed over the group, it
takes over what all of them agree in.  All points go through one group of words before the next: its slabs fit a cache.

Turned.  Points that follow each other and agree in the first parts are a run.  What these parts leave of a group, a few
boxes, need not be looked for again by each point of the run: each box is compared with 64 points at once, in the
dimensions of all other parts.  The slabs of points lie beside each other for that, by dimension, and those of a box by
box.  It is the same comparison, of one box and 64 points where it was one point and 64 boxes, so the same pairs are
left; and a pair of a point and a box is made by one of both ways, since a point of a run is passed over by the other.
A run is passed over as a whole where its first part has no word of the group.  Pairs that are left so are compared
with the ends of their boxes after all of them are written: few have an end in the slab of the point, and one comparison
of sixteen dimensions finds these.

Shape, sets and the proof that no pair is lost or doubled are in the head comment of `bitsets`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types

from weft.kernels.lanes import BLOCK, count_ones, count_zeros, ending, ends_of, meeting, met_by, prefetch

NONE = 255
"""The byte of a point without a code."""
GROUP = 64
"""Words of a group: one word of the second level."""
RUN = 64
"""Points that a box is compared with at once."""
FEW = 32
"""Boxes that are left of a group are compared with points, if they are at most so many for each point of a run."""

_SLABS = types.Array(types.uint8, 4, "C")
_WORDS3, _WORDS2, _WORDS = (types.Array(types.uint64, n, "C") for n in (3, 2, 1))
_INTS2 = types.Array(types.int64, 2, "C", readonly=True)
_INTS = types.Array(types.int64, 1, "C", readonly=True)
_BYTES2 = types.Array(types.uint8, 2, "C")


@njit(_WORDS2(_WORDS3, _INTS, _BYTES2), cache=True)
def reach(top: Any, asked: Any, places: Any) -> Any:
    """For each point, a bit for each group in which something may be left."""
    out = np.empty((places.shape[1] - RUN, top.shape[2]), dtype=np.uint64)
    for i in range(len(out)):
        for at in range(top.shape[2]):
            some = np.uint64(0xFFFFFFFFFFFFFFFF)
            for k in range(len(asked)):
                some &= top[asked[k], places[k, i], at]
            out[i, at] = some
    return out


@njit(types.int64[:, ::1](_INTS, types.int64), cache=True)
def runs(levels: Any, depth: int) -> Any:
    """For each level and point, the first point behind it that differs in a part before the level."""
    out = np.empty((depth + 1, len(levels)), dtype=np.int64)
    for level in range(depth + 1):
        until = len(levels)
        for i in range(len(levels) - 1, -1, -1):
            out[level, i] = until
            if levels[i] < level:
                until = i
    return out


@njit(inline="always")
def _narrow(
    slabs: Any, above: Any, group: Any, asked: Any, cuts: Any, part: Any, places: Any, i: Any, marks: Any, bits: Any,
    counts: Any,
) -> None:  # fmt: skip
    """What a part leaves of the words of a group: bits by word, marks for words that are not 0, and how many bits."""
    first, upto, some, some_left, count = cuts[part], cuts[part + 1], marks[part], np.uint64(0), 0
    if some:
        for k in range(first, upto):
            some &= above[group, asked[k], places[k, i]]
    while some:
        at = count_zeros(some)
        mark = some & (~some + np.uint64(1))
        some ^= mark
        left = bits[part, at]
        for k in range(first, upto):
            left &= meeting(slabs, (group << 6) + at, asked[k], places[k, i])
            if not left:
                break
        if left:
            bits[part + 1, at] = left
            some_left |= mark
            count += count_ones(left)
    marks[part + 1], counts[part + 1] = some_left, count


@njit(inline="always")
def _inside(slabs: Any, ends: Any, word: Any, left: Any, asked: Any, places: Any, points: Any, i: Any) -> Any:
    """The boxes of a word that a point lies in, of those that are left by slabs: others end in a slab of the point."""
    for k in range(len(asked)):
        if places[k, i] != NONE:
            some, d, code = left & ending(slabs, word, asked[k], places[k, i]), asked[k], points[i, asked[k]]
            while some:
                slot = (word << 6) + count_zeros(some)
                if code < ends[slot, d, 0] or code > ends[slot, d, 1]:
                    left ^= some & (~some + np.uint64(1))
                some &= some - np.uint64(1)
    return left


@njit(inline="always")
def _turn(
    spans: Any, begin: Any, asked: Any, first: Any, places: Any, row: Any, count: Any, some: Any, bits: Any,
    boxes: Any, masks: Any,
) -> Any:  # fmt: skip
    """Compare each box that is left with all points of a run, in the dimensions from the first on; how many meet one.

    Nothing here depends on a guess that is wrong half of the time: what is not kept is written over.
    """
    whole, kept = np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(RUN - count), 0
    while some:
        at = count_zeros(some)
        some &= some - np.uint64(1)
        left = bits[at]
        while left:
            boxes[kept] = ((begin + at) << 6) + count_zeros(left)
            left &= left - np.uint64(1)
            masks[kept] = whole & met_by(spans, asked, places, boxes[kept], row, first, len(asked))
            kept += masks[kept] != 0
    return kept


@njit(inline="always")
def _give(row: Any, kept: Any, boxes: Any, masks: Any, owners: Any, slots: Any, found: Any) -> Any:
    """Write all pairs of a box and a point that its mask has; how much there is now."""
    for b in range(kept):
        met = masks[b]
        while met:
            owners[found], slots[found] = row + count_zeros(met), boxes[b]
            found += 1
            met &= met - np.uint64(1)
    return found


@njit(inline="always")
def _inside_of(
    spans: Any, ends: Any, rows: Any, points: Any, begin: Any, found: Any, owners: Any, slots: Any, near: Any,
) -> Any:  # fmt: skip
    """Take away pairs, from one on, whose point lies outside of its box: the box ends in its slab; how much is left.

    Ends are fetched before they are compared.  The place of a pair that goes is taken by the last one.
    """
    for first in range(0, rows.shape[1], BLOCK):
        count = 0
        for pair in range(begin, found):
            some = ends_of(spans, rows, slots[pair], owners[pair], first)
            near[count, 0], near[count, 1] = pair, some
            count += some != 0
        for n in range(count):
            prefetch(ends, slots[near[n, 0]], first + count_zeros(np.uint64(near[n, 1])))
        for n in range(count - 1, -1, -1):
            pair, some, out = near[n, 0], np.uint64(near[n, 1]), False
            while some:
                d = first + count_zeros(some)
                some &= some - np.uint64(1)
                code = points[owners[pair], d]
                out |= (code < ends[slots[pair], d, 0]) | (code > ends[slots[pair], d, 1])
            if out:
                found -= 1
                owners[pair], slots[pair] = owners[found], slots[found]
    return found


@njit(
    types.UniTuple(types.int64, 3)(
        _SLABS, _BYTES2, _WORDS3, _WORDS, types.int64[:, :, ::1], _INTS, _INTS, _BYTES2, _BYTES2, _INTS2, _WORDS2,
        _WORDS2, _INTS, types.int64[:, ::1], types.int64, types.int64, types.int64, types.int64[::1], types.int64[::1],
    ),
    cache=True,
)  # fmt: skip
def find(
    slabs: Any, spans: Any, above: Any, alive: Any, ends: Any, asked: Any, cuts: Any, places: Any, rows: Any,
    points: Any, near: Any, reach: Any, levels: Any, runs: Any, group: int, row: int, most: int,
    owners: Any, slots: Any,
) -> tuple[int, int, int]:  # fmt: skip
    """Fill the output from a group and a point on; return how much there is, and where to continue."""
    depth, found = len(cuts) - 1, 0
    marks, bits = np.zeros(depth + 1, dtype=np.uint64), np.empty((depth + 1, GROUP), dtype=np.uint64)
    counts = np.zeros(depth + 1, dtype=np.int64)
    boxes, masks = np.empty(FEW * RUN + 1, dtype=np.int64), np.empty(FEW * RUN + 1, dtype=np.uint64)
    near_ends = np.empty((FEW * RUN * RUN + 1, 2), dtype=np.int64)
    while group < len(above):
        begin, level = group * GROUP, 0
        marks[0] = 0
        for at in range(min(GROUP, len(alive) - begin)):
            bits[0, at] = alive[begin + at]
            if bits[0, at]:
                marks[0] |= np.uint64(1) << np.uint64(at)
        at, bit = group >> 6, np.uint64(group & 63)
        while row < len(points):
            level, upto = min(level, levels[row]), row + 1
            if not near[row, at] >> bit & np.uint64(1):
                upto = runs[1, row]
            elif reach[row, at] >> bit & np.uint64(1):
                while level < depth:
                    until = min(runs[level, row], row + RUN)
                    if level and counts[level] <= FEW * (until - row):
                        upto = until
                        break
                    _narrow(slabs, above, group, asked, cuts, level, places, row, marks, bits, counts)
                    level += 1
                if level < depth:
                    first, some = cuts[level], marks[level]
                    kept = _turn(spans, begin, asked, first, places, row, upto - row, some, bits[level], boxes, masks)
                    start, found = found, _give(row, kept, boxes, masks, owners, slots, found)
                    found = _inside_of(spans, ends, rows, points, start, found, owners, slots, near_ends)
                else:
                    some = marks[depth]
                    while some:
                        word = begin + count_zeros(some)
                        left = _inside(slabs, ends, word, bits[depth, word - begin], asked, places, points, row)
                        some &= some - np.uint64(1)
                        while left:
                            owners[found], slots[found] = row, (word << 6) + count_zeros(left)
                            left &= left - np.uint64(1)
                            found += 1
                if found >= most:
                    return found, group, upto
            row = upto
        group, row = group + 1, 0
    return found, group, row


@njit(types.bool_[::1](_SLABS, _WORDS3, _WORDS, _INTS, _BYTES2, _WORDS2), cache=True)
def has_any(slabs: Any, above: Any, alive: Any, asked: Any, places: Any, reach: Any) -> Any:
    """For each point, whether a box may be left; the question ends at the first one."""
    out = np.zeros(len(reach), dtype=np.bool_)
    for i in range(len(reach)):
        there = False
        for at in range(reach.shape[1]):
            groups = reach[i, at]
            while groups and not there:
                group = (at << 6) + count_zeros(groups)
                groups &= groups - np.uint64(1)
                some = np.uint64(0xFFFFFFFFFFFFFFFF)
                for k in range(len(asked)):
                    some &= above[group, asked[k], places[k, i]]
                while some and not there:
                    word = (group << 6) + count_zeros(some)
                    some &= some - np.uint64(1)
                    left = alive[word]
                    for k in range(len(asked)):
                        left &= meeting(slabs, word, asked[k], places[k, i])
                        if not left:
                            break
                    there = left != 0
        out[i] = there
    return out
