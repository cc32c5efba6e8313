"""Many stored boxes and few points: per dimension and slab one set of boxes, as bits.

Shape.  A *box* has a lowest and a highest code in each dimension, both included; a missing end is LOWEST or HIGHEST.
These may also be ends that a box has.  It has a *slot*, a number from 0 on.
A *point* has a code in each dimension, or none (NULL, NaN).  It lies in a box iff in every dimension its code is
between the ends; where it has no code, iff the box has neither end there.
Points come by parts: first the codes of some dimensions, then, for what is left, those of others.

Sets.  The codes of a dimension are cut into slabs, [cut, next cut), and one more slab, NONE, holds points without a
code. The set of a slab has the bit of every box whose interval meets the slab; that of NONE, of every box without ends.
A set is an array of words, 64 slots each, and it is not stored.  Of each word and dimension, 64 bytes are kept for the
slabs in which intervals begin and 64 for how many slabs further they end (0 for one that is empty).  A slab s meets the
interval [f, f + n] iff (s - f) modulo 256 <= n, because f + n <= 255: one comparison of 64 bytes gives the word.  A box
without ends has f = 0 and n = 255, so all slabs meet it, NONE too; no other one reaches NONE. Above the words lie two
levels that are stored: for each slab a bit for each word, set if the word is not 0, and a bit for each group of 64
words.  `alive` has the bits of boxes that were not removed.

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

Why the answer is right.  If a code c lies in the interval of a box, the slab of c meets the interval, so the bit of the
box is set there: no box that the point lies in is ever lost.  A bit of an upper level is set whenever a bit below it
is, so no word that is not 0 is passed over.  Bits are only taken away by narrowing.  What is left at the end is
compared with the ends themselves, so no other box stays; and each has one bit, so it comes once.  An end needs to be
compared only where it lies in the slab of the point: slabs are in the order of codes, so a point in a later slab than
that of the lowest code is above it.  An empty interval is kept as its first slab, where its ends are compared.  A point
without a code meets boxes without ends alone, and these have the lowest and the highest code there is as theirs.

Boxes come and go.  A box that comes gets the next slot, its slabs, and its bits in the upper levels: cuts need not fit
its ends, they decide the cost alone.  A box that goes loses its bit in `alive`, and that is all.  Slots are not used
again; who removes many boxes builds anew.  Boxes that are built together get slots in an order in which neighbours are
alike, so that words are 0 more often.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit, types

from weft.kernels.boxes import order_points
from weft.kernels.codes import HIGHEST, LOWEST, Bools, Ints
from weft.kernels.lanes import count_ones, count_zeros, ended_by, ending, meeting, met_by, prefetch

SLABS = 255
"""Slabs of a dimension at most, so that a slab is a byte and NONE is another one."""
NONE = 255
"""The byte of a point without a code."""
GROUP = 64
"""Words of a group: one word of the second level."""
RUN = 64
"""Points that a box is compared with at once."""
FEW = 32
"""Boxes that are left of a group are compared with points, if they are at most so many for each point of a run."""
MOST = 65_536

Words = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]


class BitSets:
    """Boxes that points are looked up in."""

    def __init__(
        self, low: Ints, high: Ints, *, free: Bools | None = None, slabs: int = SLABS,
        order: Sequence[int] | None = None, room: int = 0,
    ) -> None:  # fmt: skip
        """Boxes by their ends, a row each; `order` are the dimensions that slots are ordered by, all if not given.

        `free` says where a box has no end: the lowest and the highest code, but these may be ends as well.

        `room` is how many boxes may come before the sets are made larger.
        """
        count, self.width = low.shape
        cuts = [_cuts(low[:, d], high[:, d], slabs) for d in range(self.width)]
        self.cuts = [(np.concatenate([some, np.full(NONE - len(some), HIGHEST)]), len(some)) for some in cuts]
        """Of each dimension where slabs begin, filled up to 255, and how many of these there are."""
        self._make_room(count + room)
        self.count = 0
        """Slots in use, those of removed boxes too."""
        placed = _alike(low, high, range(self.width) if order is None else order)
        self.slots = np.empty(count, dtype=np.int64)
        """The slots of the boxes that were given at the beginning."""
        self.slots[placed] = self.add(low[placed], high[placed], None if free is None else free[placed])

    def _make_room(self, room: int) -> None:
        words = -(-max(1, room) // 64)
        groups = -(-words // GROUP)
        self.slabs = _aligned((words, self.width, 2, 64))
        """Of each word and dimension the slabs of lowest codes, then how many slabs further the highest codes lie."""
        self.spans = np.zeros((words * 64, self.width * 2), dtype=np.uint8)
        """The same by box: for each dimension both bytes."""
        self.above = np.zeros((groups, self.width, NONE + 1), dtype=np.uint64)
        self.top = np.zeros((self.width, NONE + 1, -(-groups // 64)), dtype=np.uint64)
        self.alive = np.zeros(words, dtype=np.uint64)
        self.ends = np.empty((words * 64, self.width, 2), dtype=np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes of the sets and of the slabs of ends, without the ends themselves."""
        return sum(array.nbytes for array in (self.slabs, self.spans, self.above, self.top, self.alive))

    # -------------------------------------------------------------------------------------------- changes

    def add(self, low: Ints, high: Ints, free: Bools | None = None) -> Ints:
        """More boxes; their slots.  Where nothing else is said, the lowest and the highest code are no ends."""
        slots = np.arange(self.count, self.count + len(low), dtype=np.int64)
        if self.count + len(low) > len(self.ends):
            self._grow(self.count + len(low))
        self.ends[slots] = np.stack([low, high], axis=2)
        first, last = (np.stack([self._slab(d, ends[:, d]) for d in range(self.width)], axis=1) for ends in (low, high))
        last[(low == LOWEST) & (high == HIGHEST) if free is None else free] = NONE
        _set_slabs(self.slabs, self.spans, self.above, self.top, first, np.maximum(last, first), slots)
        _live(self.alive, slots)
        self.count += len(low)
        return slots

    def remove(self, slots: Ints) -> None:
        """Boxes that are no longer there; to remove one twice changes nothing."""
        _die(self.alive, np.ascontiguousarray(slots, dtype=np.int64))

    def restore(self) -> None:
        """All boxes that ever came are there again."""
        _live(self.alive, np.arange(self.count, dtype=np.int64))

    def _grow(self, needed: int) -> None:
        old = self._arrays
        self._make_room(max(needed, 2 * len(self.ends)))
        for before, now in zip(old, self._arrays, strict=True):
            now[tuple(slice(size) for size in before.shape)] = before

    @property
    def _arrays(self) -> tuple[npt.NDArray[Any], ...]:
        return self.slabs, self.spans, self.above, self.top, self.alive, self.ends

    def _slab(self, dimension: int, codes: Ints) -> Bytes:
        slabs = np.empty(len(codes), dtype=np.uint8)
        _place(*self.cuts[dimension], codes, slabs)
        return slabs

    # -------------------------------------------------------------------------------------------- questions

    def find(
        self, parts: Sequence[Sequence[int]], points: Ints, levels: Ints, valid: Bools | None = None, most: int = MOST
    ) -> Iterator[tuple[Ints, Ints]]:
        """All (point, slot), about `most` at a time; `parts` are all dimensions, in the order of narrowing.

        `levels` says for each point which part is the first in which it differs from the point before it: what is left
        by the parts before that is used again.
        """
        asked = np.array([d for part in parts for d in part], dtype=np.int64)
        cuts = np.cumsum([0, *map(len, parts)], dtype=np.int64)
        points = np.ascontiguousarray(points)
        at = self._places(asked, points, valid)
        runs, reach = _runs(levels, len(parts)), _reach(self.top, asked, at)
        near = _reach(self.top, asked[: cuts[1]], at) if len(parts) > 1 else reach
        owners, slots = (np.empty(most + RUN * max(GROUP, FEW * RUN), dtype=np.int64) for _ in range(2))
        group = row = 0
        while group < len(self.above):
            found, group, row = _find(
                self.slabs, self.spans, self.above, self.alive, self.ends, asked, cuts, at, points, near, reach, levels,
                runs, group, row, most, owners, slots,
            )  # fmt: skip
            if found:
                yield owners[:found].copy(), slots[:found].copy()

    def has_any(self, dimensions: Sequence[int], points: Ints, valid: Bools | None = None) -> Bools:
        """Whether something may be left of points by some of their dimensions: a column of `points` for each."""
        asked, columns = np.array(dimensions, dtype=np.int64), np.arange(len(dimensions))
        at = self._places(asked, points, valid, columns)
        return _has_any(self.slabs, self.above, self.alive, asked, at, _reach(self.top, asked, at))

    def _places(self, asked: Ints, points: Ints, valid: Bools | None, columns: Ints | None = None) -> Bytes:
        """The slabs of points: a row for each dimension in the order asked, with room behind for a run of points."""
        columns = asked if columns is None else columns
        places = np.zeros((len(asked), len(points) + RUN), dtype=np.uint8)
        for d, column, row in zip(asked, columns, places, strict=True):
            _place(*self.cuts[d], points[:, column], row)
            if valid is not None:
                row[: len(points)][~valid[:, column]] = NONE
        return places


def _aligned(shape: tuple[int, ...]) -> Bytes:
    """Zeros that begin where a line of the cache does: reading them is quicker."""
    size = int(np.prod(shape))
    room = np.zeros(size + 64, dtype=np.uint8)
    begin = -room.ctypes.data % 64
    return room[begin : begin + size].reshape(shape)


def _cuts(low: Ints, high: Ints, slabs: int) -> Ints:
    """Where slabs begin: where intervals begin, and behind where they end, so that as many lie in each."""
    behind = high[high < HIGHEST] + 1
    edges = np.sort(np.concatenate([low[low > LOWEST], behind]))
    known = np.unique(edges)
    if len(known) < slabs:
        return known
    return np.unique(edges[np.linspace(0, len(edges) - 1, slabs - 1).astype(np.int64)])


def _alike(low: Ints, high: Ints, order: Sequence[int]) -> npt.NDArray[np.int32]:
    """The boxes in an order in which neighbours are alike: by the middles of their intervals."""
    rows = np.arange(len(low), dtype=np.int32)
    if len(low):
        middles = [low[:, d] // 2 + high[:, d] // 2 for d in order]
        order_points(middles, rows, np.empty(0, dtype=np.int64))
    return rows


_SLABS = types.Array(types.uint8, 4, "C")
_WORDS3, _WORDS2, _WORDS = (types.Array(types.uint64, n, "C") for n in (3, 2, 1))
_INTS2 = types.Array(types.int64, 2, "C", readonly=True)
_INTS = types.Array(types.int64, 1, "C", readonly=True)
_BYTES2, _BYTES = (types.Array(types.uint8, n, "C") for n in (2, 1))


@njit(types.void(_INTS, types.int64, types.Array(types.int64, 1, "A", readonly=True), _BYTES), cache=True)
def _place(cuts: Any, count: int, codes: Any, slabs: Any) -> None:
    """The slab of each code: how many cuts are not above it.  Without branches, which would be guessed wrong."""
    for i in range(len(codes)):
        slab = np.uint64(0)
        for k in range(8):
            half = np.uint64(128) >> np.uint64(k)
            slab += half * np.uint64(cuts[slab + half - np.uint64(1)] <= codes[i])
        slabs[i] = min(slab, count)


@njit(types.void(_SLABS, _BYTES2, _WORDS3, _WORDS3, _BYTES2, _BYTES2, _INTS), cache=True)
def _set_slabs(slabs: Any, spans: Any, above: Any, top: Any, first: Any, last: Any, slots: Any) -> None:
    for i in range(len(slots)):
        word = slots[i] >> 6
        group, mark = word >> 6, np.uint64(1) << np.uint64(word & 63)
        peak = np.uint64(1) << np.uint64(group & 63)
        for d in range(slabs.shape[1]):
            slabs[word, d, 0, slots[i] & 63] = first[i, d]
            slabs[word, d, 1, slots[i] & 63] = last[i, d] - first[i, d]
            spans[slots[i], 2 * d], spans[slots[i], 2 * d + 1] = first[i, d], last[i, d] - first[i, d]
            for slab in range(first[i, d], last[i, d] + 1):
                above[group, d, slab] |= mark
                top[d, slab, group >> 6] |= peak


@njit(types.void(_WORDS, _INTS), cache=True)
def _live(alive: Any, slots: Any) -> None:
    for slot in slots:
        alive[slot >> 6] |= np.uint64(1) << np.uint64(slot & 63)


@njit(types.void(_WORDS, _INTS), cache=True)
def _die(alive: Any, slots: Any) -> None:
    for slot in slots:
        alive[slot >> 6] &= ~(np.uint64(1) << np.uint64(slot & 63))


@njit(_WORDS2(_WORDS3, _INTS, _BYTES2), cache=True)
def _reach(top: Any, asked: Any, places: Any) -> Any:
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
def _runs(levels: Any, depth: int) -> Any:
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

    Nothing here and below depends on a guess that is wrong half of the time: what is not kept is written over.
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
def _around(
    spans: Any, ends: Any, asked: Any, places: Any, points: Any, row: Any, kept: Any, boxes: Any, masks: Any,
    edges: Any,
) -> None:  # fmt: skip
    """Take away points that lie outside of a box: it ends in their slab.  Ends are fetched before they are compared."""
    count = 0
    for b in range(kept):
        if masks[b] & ended_by(spans, asked, places, boxes[b], row, 0, len(asked)):
            for k in range(len(asked)):
                edge = masks[b] & ended_by(spans, asked, places, boxes[b], row, k, k + 1)
                edges[count, 0], edges[count, 1], edges[count, 2] = b, k, edge
                prefetch(ends, boxes[b], asked[k])
                count += edge != 0
    for e in range(count):
        b, d, edge = edges[e, 0], asked[edges[e, 1]], np.uint64(edges[e, 2])
        low, high = ends[boxes[b], d, 0], ends[boxes[b], d, 1]
        while edge:
            i = count_zeros(edge)
            edge &= edge - np.uint64(1)
            code = points[row + i, d]
            masks[b] &= ~(np.uint64((code < low) | (code > high)) << np.uint64(i))


@njit(inline="always")
def _give(row: Any, kept: Any, boxes: Any, masks: Any, owners: Any, slots: Any, found: Any) -> Any:
    """Write all pairs of a box and a point that its mask has; how much there is now."""
    b, met = 0, masks[0]
    while b < kept:
        owners[found], slots[found] = row + count_zeros(met), boxes[b]
        found += met != 0
        met &= met - np.uint64(1)
        b += met == 0
        met = masks[b] if met == 0 else met
    return found


@njit(
    types.UniTuple(types.int64, 3)(
        _SLABS, _BYTES2, _WORDS3, _WORDS, types.int64[:, :, ::1], _INTS, _INTS, _BYTES2, _INTS2, _WORDS2,
        _WORDS2, _INTS, types.int64[:, ::1], types.int64, types.int64, types.int64, types.int64[::1], types.int64[::1],
    ),
    cache=True,
)  # fmt: skip
def _find(
    slabs: Any, spans: Any, above: Any, alive: Any, ends: Any, asked: Any, cuts: Any, places: Any, points: Any,
    near: Any, reach: Any, levels: Any, runs: Any, group: int, row: int, most: int, owners: Any, slots: Any,
) -> tuple[int, int, int]:  # fmt: skip
    """Fill the output from a group and a point on; return how much there is, and where to continue."""
    depth, found = len(cuts) - 1, 0
    marks, bits = np.zeros(depth + 1, dtype=np.uint64), np.empty((depth + 1, GROUP), dtype=np.uint64)
    counts = np.zeros(depth + 1, dtype=np.int64)
    boxes, masks = np.empty(FEW * RUN + 1, dtype=np.int64), np.empty(FEW * RUN + 1, dtype=np.uint64)
    edges = np.empty((FEW * RUN * len(asked) + 1, 3), dtype=np.int64)
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
                    _around(spans, ends, asked, places, points, row, kept, boxes, masks, edges)
                    found = _give(row, kept, boxes, masks, owners, slots, found)
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
def _has_any(slabs: Any, above: Any, alive: Any, asked: Any, places: Any, reach: Any) -> Any:
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
