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
second level is combined first, and only words whose bit is left are read.  What is left of a point is the list of its
words that are not 0; a further part of the point goes through that list only.

Why the answer is right.  If a code c lies in the interval of a box, the slab of c meets the interval, so the bit of the
box is set there: no box that the point lies in is ever lost.  A bit of the second level is set whenever a bit of its
word is, so no word that is not 0 is passed over.  Bits are only taken away by narrowing.  What is left at the end is
compared with the ends themselves (`matches`), so no other box stays; and each has one bit, so it comes once.

Boxes come and go.  A box that comes gets the next slot, and its bits in the slabs that it meets: cuts need not fit its
ends, they decide the cost alone.  A box that goes loses its bit in `alive`, and that is all.  Slots are not used again;
who removes many boxes builds anew.  Boxes that are built together get slots in an order in which neighbours are alike,
so that words are 0 more often.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit, types

from weft.kernels.boxes import order_points
from weft.kernels.codes import HIGHEST, LOWEST, Bools, Ints

SLABS = 128
"""Slabs of a dimension: each costs a bit a box."""

Words = npt.NDArray[np.uint64]
Slabs = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of some points: of point i, words[starts[i]:starts[i + 1]], and their bits."""

    starts: Ints
    words: npt.NDArray[np.int32]
    bits: Words


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

    @property
    def nbytes(self) -> int:
        """Bytes of the sets, without the ends of the boxes."""
        return self.sets.nbytes + self.above.nbytes + self.alive.nbytes

    # -------------------------------------------------------------------------------------------- changes

    def add(self, low: Ints, high: Ints) -> Ints:
        """More boxes; their slots."""
        slots = np.arange(self.count, self.count + len(low), dtype=np.int64)
        if self.count + len(low) > len(self.low):
            self._grow(self.count + len(low))
        self.low[slots], self.high[slots] = low, high
        first, last = (np.stack([self._slab(d, ends[:, d]) for d in range(self.width)], axis=1) for ends in (low, high))
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
        old, (_, slabs, words) = (self.sets, self.above, self.alive, self.low, self.high), self.sets.shape
        self._make_room(max(needed, 2 * words * 64), slabs - 1)
        for before, now in zip(old, (self.sets, self.above, self.alive, self.low, self.high), strict=True):
            now[tuple(slice(size) for size in before.shape)] = before

    def _slab(self, dimension: int, codes: Ints) -> Slabs:
        return np.searchsorted(self.cuts[dimension], codes, side="right")

    # -------------------------------------------------------------------------------------------- questions

    def narrow(
        self,
        dimensions: Sequence[int],
        points: Ints,
        valid: Bools | None = None,
        of: tuple[Left, Ints] | None = None,
    ) -> Left:
        """What is left of points by some of their dimensions; a column of `points` and of `valid` for each.

        `of` is what is left of others already, and for each point which of them it continues.
        """
        slabs = np.stack([self._slab(d, points[:, i]) for i, d in enumerate(dimensions)], axis=1)
        if valid is not None:
            slabs = np.where(valid, slabs, self.none)
        asked = np.array(dimensions, dtype=np.int64)
        if of is None:
            starts, words, bits = _narrow(self.sets, self.above, self.alive, asked, slabs)
        else:
            left, which = of
            starts, words, bits = _narrow_left(self.sets, asked, slabs, left.starts, left.words, left.bits, which)
        return Left(starts, words, bits)

    def matches(self, left: Left, points: Ints, valid: Bools | None = None) -> tuple[Ints, Ints]:
        """All (point, slot) of what is left, compared with the ends of all dimensions."""
        known = np.ones(points.shape, dtype=np.bool_) if valid is None else np.ascontiguousarray(valid)
        whole = np.ascontiguousarray(points)
        return _matches(self.low, self.high, left.starts, left.words, left.bits, whole, known)


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
_LEFT = types.Tuple((types.int64[::1], types.int32[::1], types.uint64[::1]))


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


@njit(_LEFT(_SETS, _SETS, types.uint64[::1], _INTS, _INTS2), cache=True)
def _narrow(sets: Any, above: Any, alive: Any, asked: Any, slabs: Any) -> Any:
    starts = np.zeros(len(slabs) + 1, dtype=np.int64)
    words, bits = np.empty(1024, dtype=np.int32), np.empty(1024, dtype=np.uint64)
    full, found = np.uint64(0xFFFFFFFFFFFFFFFF), 0
    for i in range(len(slabs)):
        for group in range(above.shape[2]):
            some = full
            for k in range(len(asked)):
                some &= above[asked[k], slabs[i, k], group]
            while some:
                word = (group << 6) + _lowest(some)
                some &= some - np.uint64(1)
                left = alive[word]
                for k in range(len(asked)):
                    left &= sets[asked[k], slabs[i, k], word]
                if left:
                    if found == len(words):
                        words = np.concatenate((words, np.empty(found, dtype=np.int32)))
                        bits = np.concatenate((bits, np.empty(found, dtype=np.uint64)))
                    words[found], bits[found] = word, left
                    found += 1
        starts[i + 1] = found
    return starts, words[:found].copy(), bits[:found].copy()


@njit(_LEFT(_SETS, _INTS, _INTS2, _INTS, types.int32[::1], types.uint64[::1], _INTS), cache=True)
def _narrow_left(sets: Any, asked: Any, slabs: Any, of: Any, its_words: Any, its_bits: Any, which: Any) -> Any:
    starts = np.zeros(len(slabs) + 1, dtype=np.int64)
    words, bits = np.empty(1024, dtype=np.int32), np.empty(1024, dtype=np.uint64)
    found = 0
    for i in range(len(slabs)):
        for at in range(of[which[i]], of[which[i] + 1]):
            word, left = its_words[at], its_bits[at]
            for k in range(len(asked)):
                left &= sets[asked[k], slabs[i, k], word]
            if left:
                if found == len(words):
                    words = np.concatenate((words, np.empty(found, dtype=np.int32)))
                    bits = np.concatenate((bits, np.empty(found, dtype=np.uint64)))
                words[found], bits[found] = word, left
                found += 1
        starts[i + 1] = found
    return starts, words[:found].copy(), bits[:found].copy()


@njit(
    types.UniTuple(types.int64[::1], 2)(
        types.int64[:, ::1], types.int64[:, ::1], _INTS, types.int32[::1], types.uint64[::1], _INTS2, _BOOLS2
    ),
    cache=True,
)
def _matches(low: Any, high: Any, starts: Any, words: Any, bits: Any, points: Any, valid: Any) -> Any:
    owners, slots = np.empty(1024, dtype=np.int64), np.empty(1024, dtype=np.int64)
    found, width = 0, low.shape[1]
    for i in range(len(starts) - 1):
        for at in range(starts[i], starts[i + 1]):
            left = bits[at]
            while left:
                slot = (np.int64(words[at]) << 6) + _lowest(left)
                left &= left - np.uint64(1)
                d = 0
                while d < width:
                    if valid[i, d]:
                        if points[i, d] < low[slot, d] or points[i, d] > high[slot, d]:
                            break
                    elif low[slot, d] != LOWEST or high[slot, d] != HIGHEST:
                        break
                    d += 1
                if d == width:
                    if found == len(owners):
                        owners = np.concatenate((owners, np.empty(found, dtype=np.int64)))
                        slots = np.concatenate((slots, np.empty(found, dtype=np.int64)))
                    owners[found], slots[found] = i, slot
                    found += 1
    return owners[:found].copy(), slots[:found].copy()
