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
A run is passed over as a whole where its first part has no word of the group.

Ends.  What is left by slabs is compared with the ends of its box: where the point lies in a slab in which the box
begins or ends.  Pairs of a run are compared by two bytes of each end, sixteen dimensions at once, after they are
written; of the pairs of a point alone only those whose box begins or ends in a slab of the point, after some of them
have come together.  Two bytes that are the same decide nothing: such a pair is noted, its ends are fetched, and it is
compared with them before the output is given.  The notes are in the order of pairs, and they are settled from the last
one: all pairs behind the one that is taken away are settled, so any may take its place.

Shape, sets and the proof that no pair is lost or doubled are in the head comment of `bitsets`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types

from weft.kernels.lanes import BLOCK, TOGETHER, compare, count_ones, count_zeros, ending, meeting, met_by, prefetch

NONE = 255
"""The byte of a point without a code."""
GROUP = 64
"""Words of a group: one word of the second level."""
RUN = 64
"""Points that a box is compared with at once."""
SOME = 16
"""Pairs that wait before they are compared, so that what they need has been fetched."""
DOUBT = np.uint64((1 << BLOCK) - 1)
"""The bits of a comparison that say where two bytes are the same."""
FEW = 32
"""Boxes that are left of a group are compared with points, if they are at most so many for each point of a run."""

_SLABS = types.Array(types.uint8, 4, "C")
_WORDS3, _WORDS2, _WORDS = (types.Array(types.uint64, n, "C") for n in (3, 2, 1))
_INTS2 = types.Array(types.int64, 2, "C", readonly=True)
_INTS = types.Array(types.int64, 1, "C", readonly=True)
_BYTES2, _ENDS = types.Array(types.uint8, 2, "C"), types.Array(types.uint16, 2, "C")


@njit(types.UniTuple(_WORDS2, 2)(_WORDS3, _INTS, types.int64, _BYTES2, _INTS), cache=True)
def reach(top: Any, asked: Any, first: Any, places: Any, levels: Any) -> tuple[Any, Any]:
    """For each point, a bit for each group in which something may be left: by the first dimensions, and by all."""
    near = np.empty((len(levels), top.shape[2]), dtype=np.uint64)
    out = np.empty_like(near)
    for i in range(len(out)):
        for at in range(top.shape[2]):
            some = np.uint64(0xFFFFFFFFFFFFFFFF)
            if levels[i]:
                some = near[i - 1, at]
            else:
                for k in range(first):
                    some &= top[asked[k], places[k, i], at]
            near[i, at] = some
            for k in range(first, len(asked)):
                some &= top[asked[k], places[k, i], at]
            out[i, at] = some
    return near, out


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
def _list(begin: Any, some: Any, bits: Any, boxes: Any) -> Any:
    """Write the boxes that are left of a group; how many.  Behind them are some that may be compared in vain."""
    count = 0
    while some:
        at = count_zeros(some)
        some &= some - np.uint64(1)
        left = bits[at]
        while left:
            boxes[count] = ((begin + at) << 6) + count_zeros(left)
            left &= left - np.uint64(1)
            count += 1
    boxes[count : count + TOGETHER] = begin << 6
    return count


@njit(inline="always")
def _turn(
    spans: Any, asked: Any, first: Any, places: Any, row: Any, points: Any, count: Any, boxes: Any, masks: Any,
    owners: Any, slots: Any, found: Any,
) -> Any:  # fmt: skip
    """Compare each box with all points of a run, in the dimensions from the first on; write the pairs that meet.

    Two pairs of a box are always written, since how many there are is guessed wrong too often: what is too much is
    written over.
    """
    whole = np.uint64(0xFFFFFFFFFFFFFFFF) >> np.uint64(RUN - points)
    for at in range(0, count, TOGETHER):
        met_by(spans, asked, places, boxes, masks, at, row, first)
    for at in range(count):
        met, begin = masks[at] & whole, found
        found += count_ones(met)
        for pair in range(begin, begin + 2):
            owners[pair], slots[pair] = row + count_zeros(met), boxes[at]
            met &= met - np.uint64(1)
        for pair in range(begin + 2, found):
            owners[pair], slots[pair] = row + count_zeros(met), boxes[at]
            met &= met - np.uint64(1)
    return found


@njit(inline="always")
def _write(
    slabs: Any, spans: Any, begin: Any, some: Any, bits: Any, asked: Any, places: Any, row: Any, owners: Any,
    slots: Any, found: Any, queue: Any, queued: Any,
) -> Any:  # fmt: skip
    """Write the pairs of a point and the boxes that are left of a group, and put into the queue those whose box begins
    or ends in a slab of the point; how many pairs there are and how many wait."""
    while some:
        word = begin + count_zeros(some)
        some &= some - np.uint64(1)
        left, near = bits[word - begin], np.uint64(0)
        for k in range(len(asked)):
            near |= ending(slabs, word, asked[k], places[k, row])
        near &= left
        left ^= near
        while left:
            owners[found], slots[found] = row, (word << 6) + count_zeros(left)
            left &= left - np.uint64(1)
            found += 1
        while near:
            queue[queued, 0], queue[queued, 1] = row, (word << 6) + count_zeros(near)
            prefetch(spans, queue[queued, 1] * spans.shape[1])
            near &= near - np.uint64(1)
            queued += 1
    return found, queued


@njit(inline="always")
def _take(queue: Any, queued: Any, owners: Any, slots: Any, found: Any) -> Any:
    """Write the pairs that wait; how many there are now."""
    for n in range(queued):
        owners[found + n], slots[found + n] = queue[n, 0], queue[n, 1]
    return found + queued


@njit(inline="always")
def _sift(
    spans: Any, ends: Any, rows: Any, begin: Any, found: Any, owners: Any, slots: Any, notes: Any, noted: Any,
) -> Any:  # fmt: skip
    """Keep the pairs, from one on, whose point does not lie outside of its box by bytes, and note what these leave
    open; how many pairs and notes there are."""
    kept = begin
    for pair in range(begin, found):
        owner, slot, out, before = owners[pair], slots[pair], np.uint64(0), noted
        for first in range(0, ends.shape[1], BLOCK):
            seen = compare(spans, rows, slot, owner, first)
            some, out = seen & DOUBT, out | seen >> np.uint64(BLOCK)
            if some:
                notes[noted, 0], notes[noted, 1] = kept, first << BLOCK | some
                prefetch(ends, (slot * ends.shape[1] + first + count_zeros(some)) * 2)
                noted += 1
        noted = before if out else noted
        owners[kept], slots[kept] = owner, slot
        kept += out == 0
    return kept, noted


@njit(inline="always")
def _settle(ends: Any, points: Any, found: Any, owners: Any, slots: Any, notes: Any, noted: Any) -> Any:
    """Take away the pairs noted whose point lies outside of its box; how much is left.

    The place of a pair that goes is taken by the last one, of which nothing is left open.
    """
    out = False
    for n in range(noted - 1, -1, -1):
        pair, first, some = notes[n, 0], notes[n, 1] >> BLOCK, np.uint64(notes[n, 1]) & DOUBT
        point, slot = owners[pair], slots[pair]
        while some:
            d = first + count_zeros(some)
            some &= some - np.uint64(1)
            out |= (points[point, d] < ends[slot, d, 0]) | (points[point, d] > ends[slot, d, 1])
        if not n or notes[n - 1, 0] != pair:
            found -= out
            last = found if out else pair
            owners[pair], slots[pair], out = owners[last], slots[last], False
    return found


@njit(
    types.UniTuple(types.int64, 3)(
        _SLABS, _ENDS, _WORDS3, _WORDS, types.int64[:, :, ::1], _INTS, _INTS, _BYTES2, _ENDS, _INTS2, _WORDS2,
        _WORDS2, _INTS, types.int64[:, ::1], types.int64, types.int64, types.int64, types.int64[::1], types.int64[::1],
        types.int64[:, ::1],
    ),
    cache=True,
)  # fmt: skip
def find(
    slabs: Any, spans: Any, above: Any, alive: Any, ends: Any, asked: Any, cuts: Any, places: Any, rows: Any,
    points: Any, near: Any, reach: Any, levels: Any, runs: Any, group: int, row: int, most: int,
    owners: Any, slots: Any, notes: Any,
) -> tuple[int, int, int]:  # fmt: skip
    """Fill the output from a group and a point on; return how much there is, and where to continue."""
    depth, found, queued, noted = len(cuts) - 1, 0, 0, 0
    marks, bits = np.zeros(depth + 1, dtype=np.uint64), np.empty((depth + 1, GROUP), dtype=np.uint64)
    counts = np.zeros(depth + 1, dtype=np.int64)
    boxes, masks = (np.empty(FEW * RUN + TOGETHER, dtype=np.int64), np.empty(FEW * RUN + TOGETHER, dtype=np.uint64))
    queue = np.empty((SOME + GROUP * 64, 2), dtype=np.int64)
    while group < len(above) and found < most:
        begin, level = group * GROUP, 0
        marks[0] = 0
        for at in range(min(GROUP, len(alive) - begin)):
            bits[0, at] = alive[begin + at]
            if bits[0, at]:
                marks[0] |= np.uint64(1) << np.uint64(at)
        at, bit = group >> 6, np.uint64(group & 63)
        while row < len(points) and found < most:
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
                    count = _list(begin, marks[level], bits[level], boxes)
                    first, run = cuts[level], upto - row
                    since = found
                    found = _turn(spans, asked, first, places, row, run, count, boxes, masks, owners, slots, found)
                else:
                    found, queued = _write(
                        slabs, spans, begin, marks[depth], bits[depth], asked, places, row, owners, slots, found,
                        queue, queued,
                    )  # fmt: skip
                    since = found
                    if queued >= SOME:
                        found, queued = _take(queue, queued, owners, slots, found), 0
                if found > since:
                    found, noted = _sift(spans, ends, rows, since, found, owners, slots, notes, noted)
                if noted >= RUN:
                    found, noted = _settle(ends, points, found, owners, slots, notes, noted), 0
            row = upto
        if row == len(points):
            group, row = group + 1, 0
    since, found = found, _take(queue, queued, owners, slots, found)
    found, noted = _sift(spans, ends, rows, since, found, owners, slots, notes, noted)
    return _settle(ends, points, found, owners, slots, notes, noted), group, row


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
