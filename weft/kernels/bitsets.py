"""Many stored boxes and few points: per dimension and slab one set of boxes, as bits.

Shape.  A *box* has a lowest and a highest code in each dimension, both included; a missing end is LOWEST or HIGHEST.
It has a *slot*, a number from 0 on.  A *point* has a code in each dimension, or none (NULL, NaN).  It lies in a box iff
in every dimension its code is between the ends; where it has no code, iff the box has neither end there.
Points come by parts: first the codes of some dimensions, then, for what is left, those of others.

Sets.  The codes of a dimension are cut into slabs, [cut, next cut), and one more slab holds points without a code.
The set of a slab has the bit of every box whose interval meets the slab; that of the last one, of every box without
ends.  A set is an array of words, 64 slots each.  Above the words lies a second level: a bit for each word, set if the
word is not 0.  `alive` has the bits of boxes that were not removed.

Narrow.  A point of slab s_d in each dimension d of a part leaves  alive & set(d1, s_d1) & set(d2, s_d2) & ...  The
second level is combined first, and only words whose bit is left are read.  What is left are words, and bits that say
which of them are not 0; the next part begins with these.  A point that agrees with the one before it in the first parts
takes over what they have left.  All points go through one block of words before the next: the sets of a block fit a
cache.

Why the answer is right.  If a code c lies in the interval of a box, the slab of c meets the interval, so the bit of the
box is set there: no box that the point lies in is ever lost.  A bit of the second level is set whenever a bit of its
word is, so no word that is not 0 is passed over.  Bits are only taken away by narrowing.  What is left at the end is
compared with the ends themselves, so no other box stays; and each has one bit, so it comes once.  An end needs to be
compared only where it lies in the slab of the point: slabs are in the order of codes, so a point in a later slab than
that of the lowest code is above it.  The slab of points without a code has exactly the boxes that admit them.

Boxes come and go.  A box that comes gets the next slot, and its bits in the slabs that it meets: cuts need not fit its
ends, they decide the cost alone.  A box that goes loses its bit in `alive`, and that is all.  Slots are not used again;
who removes many boxes builds anew.  Boxes that are built together get slots in an order in which neighbours are alike,
so that words are 0 more often.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit, types

from weft.kernels.boxes import order_points
from weft.kernels.codes import HIGHEST, LOWEST, Bools, Ints

SLABS = 128
"""Slabs of a dimension: each costs a bit a box.  At most 255, so that a slab is a byte."""

BLOCK = 128
"""Words that all points are looked up in before the next ones: their sets fit a cache."""
MOST = 65_536

Words = npt.NDArray[np.uint64]
Slabs = npt.NDArray[np.int64]


class BitSets:
    """Boxes that points are looked up in."""

    def __init__(
        self, low: Ints, high: Ints, *, slabs: int = SLABS, order: Sequence[int] | None = None, room: int = 0
    ) -> None:
        """Boxes by their ends, a row each; `order` are the dimensions that slots are ordered by, all if not given.

        `room` is how many boxes may come before the sets are made larger.
        """
        count, self.width = low.shape
        self.cuts = [_cuts(low[:, d], high[:, d], slabs) for d in range(self.width)]
        self.none = slabs
        """The slab of points without a code."""
        self._make_room(count + room, slabs)
        self.count = 0
        """Slots in use, those of removed boxes too."""
        placed = _alike(low, high, range(self.width) if order is None else order)
        self.slots = np.empty(count, dtype=np.int64)
        """The slots of the boxes that were given at the beginning."""
        self.slots[placed] = self.add(low[placed], high[placed])

    def _make_room(self, room: int, slabs: int) -> None:
        words = -(-max(1, room) // 64)
        self.sets = np.zeros((self.width, slabs + 1, words), dtype=np.uint64)
        self.above = np.zeros((self.width, slabs + 1, -(-words // 64)), dtype=np.uint64)
        self.alive = np.zeros(words, dtype=np.uint64)
        self.low, self.high = (np.empty((words * 64, self.width), dtype=np.int64) for _ in range(2))
        self.first, self.last = (np.empty((words * 64, self.width), dtype=np.uint8) for _ in range(2))
        """The slabs of the lowest and highest codes."""

    @property
    def nbytes(self) -> int:
        """Bytes of the sets and of the slabs of ends, without the ends themselves."""
        kept = (self.sets, self.above, self.alive, self.first, self.last)
        return sum(array.nbytes for array in kept)

    # -------------------------------------------------------------------------------------------- changes

    def add(self, low: Ints, high: Ints) -> Ints:
        """More boxes; their slots."""
        slots = np.arange(self.count, self.count + len(low), dtype=np.int64)
        if self.count + len(low) > len(self.low):
            self._grow(self.count + len(low))
        self.low[slots], self.high[slots] = low, high
        first, last = (np.stack([self._slab(d, ends[:, d]) for d in range(self.width)], axis=1) for ends in (low, high))
        self.first[slots], self.last[slots] = first, last
        free = np.ascontiguousarray((low == LOWEST) & (high == HIGHEST))
        _set_bits(self.sets, self.above, slots, first, last, free)
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
        old, (_, slabs, words) = self._arrays, self.sets.shape
        self._make_room(max(needed, 2 * words * 64), slabs - 1)
        for before, now in zip(old, self._arrays, strict=True):
            now[tuple(slice(size) for size in before.shape)] = before

    @property
    def _arrays(self) -> tuple[npt.NDArray[Any], ...]:
        return self.sets, self.above, self.alive, self.low, self.high, self.first, self.last

    def _slab(self, dimension: int, codes: Ints) -> Slabs:
        return np.searchsorted(self.cuts[dimension], codes, side="right")

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
        slabs = self._slabs(asked, points, valid)
        owners, slots = (np.empty(most + BLOCK * 64, dtype=np.int64) for _ in range(2))
        block = row = 0
        while block * BLOCK < len(self.alive):
            found, block, row = _find(
                *self._arrays, asked, cuts, slabs, np.ascontiguousarray(points), levels, block, row, most, owners, slots
            )  # fmt: skip
            if found:
                yield owners[:found].copy(), slots[:found].copy()

    def has_any(self, dimensions: Sequence[int], points: Ints, valid: Bools | None = None) -> Bools:
        """Whether something may be left of points by some of their dimensions: a column of `points` for each."""
        slabs = np.stack([self._slab(d, points[:, i]) for i, d in enumerate(dimensions)], axis=1)
        if valid is not None:
            slabs = np.where(valid, slabs, self.none)
        return _has_any(self.sets, self.above, self.alive, np.array(dimensions, dtype=np.int64), slabs)

    def _slabs(self, asked: Ints, points: Ints, valid: Bools | None) -> Slabs:
        """The slabs of whole points, a column for each dimension in the order asked."""
        slabs = np.stack([self._slab(int(d), points[:, d]) for d in asked], axis=1)
        return slabs if valid is None else np.where(valid[:, asked], slabs, self.none)


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


_SETS = types.Array(types.uint64, 3, "C")
_INTS2 = types.Array(types.int64, 2, "C", readonly=True)
_INTS = types.Array(types.int64, 1, "C", readonly=True)
_BOOLS2 = types.Array(types.bool_, 2, "C", readonly=True)


@njit(types.void(_SETS, _SETS, _INTS, _INTS2, _INTS2, _BOOLS2), cache=True)
def _set_bits(sets: Any, above: Any, slots: Any, first: Any, last: Any, free: Any) -> None:
    none = sets.shape[1] - 1
    for i in range(len(slots)):
        word, bit = slots[i] >> 6, np.uint64(1) << np.uint64(slots[i] & 63)
        group, mark = word >> 6, np.uint64(1) << np.uint64(word & 63)
        for d in range(len(sets)):
            for slab in range(first[i, d], last[i, d] + 1):
                sets[d, slab, word] |= bit
                above[d, slab, group] |= mark
            if free[i, d]:
                sets[d, none, word] |= bit
                above[d, none, group] |= mark


@njit(types.void(types.uint64[::1], _INTS), cache=True)
def _live(alive: Any, slots: Any) -> None:
    for slot in slots:
        alive[slot >> 6] |= np.uint64(1) << np.uint64(slot & 63)


@njit(types.void(types.uint64[::1], _INTS), cache=True)
def _die(alive: Any, slots: Any) -> None:
    for slot in slots:
        alive[slot >> 6] &= ~(np.uint64(1) << np.uint64(slot & 63))


@njit(inline="always")
def _lowest(bits: Any) -> Any:
    """The number of the lowest bit: how many ones lie below it."""
    x = (bits & (~bits + np.uint64(1))) - np.uint64(1)
    x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((x * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(inline="always")
def _narrow(
    sets: Any, above: Any, asked: Any, first: Any, upto: Any, slabs: Any, i: Any, begin: Any,
    its_marks: Any, its_bits: Any, marks: Any, bits: Any,
) -> None:  # fmt: skip
    """What a part leaves of the words of a block: bits by word, and marks for words that are not 0."""
    for group in range(len(marks)):
        some, left_marks = its_marks[group], np.uint64(0)
        if some:
            for k in range(first, upto):
                some &= above[asked[k], slabs[i, k], (begin >> 6) + group]
        while some:
            mark = some & (~some + np.uint64(1))
            at = (group << 6) + _lowest(some)
            some ^= mark
            left = its_bits[at]
            for k in range(first, upto):
                left &= sets[asked[k], slabs[i, k], begin + at]
                if not left:
                    break
            if left:
                bits[at] = left
                left_marks |= mark
        marks[group] = left_marks


@njit(inline="always")
def _is_inside(
    low: Any, high: Any, first: Any, last: Any, slot: Any, asked: Any, slabs: Any, points: Any, i: Any
) -> Any:  # fmt: skip
    """Whether a point lies in a box whose bits are left: ends are compared in their own slabs only."""
    for k in range(len(asked)):
        d, slab = asked[k], slabs[i, k]
        if slab == first[slot, d] and points[i, d] < low[slot, d]:
            return False
        if slab == last[slot, d] and points[i, d] > high[slot, d]:
            return False
    return True


@njit(
    types.UniTuple(types.int64, 3)(
        _SETS, _SETS, types.uint64[::1], types.int64[:, ::1], types.int64[:, ::1], types.uint8[:, ::1],
        types.uint8[:, ::1], _INTS, _INTS, _INTS2, _INTS2, _INTS, types.int64, types.int64, types.int64,
        types.int64[::1], types.int64[::1],
    ),
    cache=True,
)  # fmt: skip
def _find(
    sets: Any, above: Any, alive: Any, low: Any, high: Any, first: Any, last: Any, asked: Any, cuts: Any, slabs: Any,
    points: Any, levels: Any, block: int, row: int, most: int, owners: Any, slots: Any,
) -> tuple[int, int, int]:  # fmt: skip
    """Fill the output from a block and a point on; return how much there is, and where to continue."""
    depth, found = len(cuts) - 1, 0
    marks, bits = np.zeros((depth + 1, BLOCK >> 6), dtype=np.uint64), np.empty((depth + 1, BLOCK), dtype=np.uint64)
    while block * BLOCK < len(alive):
        begin, fresh = block * BLOCK, True
        marks[0] = 0
        for at in range(min(BLOCK, len(alive) - begin)):
            bits[0, at] = alive[begin + at]
            if bits[0, at]:
                marks[0, at >> 6] |= np.uint64(1) << np.uint64(at & 63)
        while row < len(slabs):
            level = 0 if fresh else levels[row]
            fresh = False
            for at in range(level, depth):
                _narrow(
                    sets, above, asked, cuts[at], cuts[at + 1], slabs, row, begin, marks[at], bits[at], marks[at + 1],
                    bits[at + 1],
                )  # fmt: skip
            for group in range(BLOCK >> 6):
                some = marks[depth, group]
                while some:
                    word = (group << 6) + _lowest(some)
                    some &= some - np.uint64(1)
                    left = bits[depth, word]
                    while left:
                        slot = ((np.int64(begin) + word) << 6) + _lowest(left)
                        left &= left - np.uint64(1)
                        if _is_inside(low, high, first, last, slot, asked, slabs, points, row):
                            owners[found], slots[found] = row, slot
                            found += 1
            row += 1
            if found >= most:
                return found, block, row
        block, row = block + 1, 0
    return found, block, row


@njit(types.bool_[::1](_SETS, _SETS, types.uint64[::1], _INTS, _INTS2), cache=True)
def _has_any(sets: Any, above: Any, alive: Any, asked: Any, slabs: Any) -> Any:
    out = np.zeros(len(slabs), dtype=np.bool_)
    for i in range(len(slabs)):
        group, there = 0, False
        while group < above.shape[2] and not there:
            some = np.uint64(0xFFFFFFFFFFFFFFFF)
            for k in range(len(asked)):
                some &= above[asked[k], slabs[i, k], group]
            while some and not there:
                word = (group << 6) + _lowest(some)
                some &= some - np.uint64(1)
                left = alive[word]
                for k in range(len(asked)):
                    left &= sets[asked[k], slabs[i, k], word]
                there = left != 0
            group += 1
        out[i] = there
    return out
