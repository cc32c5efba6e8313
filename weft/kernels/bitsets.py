"""Many stored boxes and few points: per dimension and slab one set of boxes, as bits.

Shape.  A *box* has a lowest and a highest code in each dimension, both included; a missing end is LOWEST or HIGHEST.
It has a *slot*, a number from 0 on.  A *point* has a code in each dimension, or none (NULL, NaN).  It lies in a box iff
in every dimension its code is between the ends; where it has no code, iff the box has neither end there.
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

Why the answer is right.  If a code c lies in the interval of a box, the slab of c meets the interval, so the bit of the
box is set there: no box that the point lies in is ever lost.  A bit of an upper level is set whenever a bit below it
is, so no word that is not 0 is passed over.  Bits are only taken away by narrowing.  What is left at the end is
compared with the ends themselves, so no other box stays; and each has one bit, so it comes once.  An end needs to be
compared only where it lies in the slab of the point: slabs are in the order of codes, so a point in a later slab than
that of the lowest code is above it.  An empty interval is kept as its first slab, where its ends are compared.

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
from weft.kernels.lanes import count_zeros, ending, meeting

SLABS = 255
"""Slabs of a dimension at most, so that a slab is a byte and NONE is another one."""
NONE = 255
"""The byte of a point without a code."""
GROUP = 64
"""Words of a group: one word of the second level."""
MOST = 65_536

Words = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]


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
        self._make_room(count + room)
        self.count = 0
        """Slots in use, those of removed boxes too."""
        placed = _alike(low, high, range(self.width) if order is None else order)
        self.slots = np.empty(count, dtype=np.int64)
        """The slots of the boxes that were given at the beginning."""
        self.slots[placed] = self.add(low[placed], high[placed])

    def _make_room(self, room: int) -> None:
        words = -(-max(1, room) // 64)
        groups = -(-words // GROUP)
        self.slabs = _aligned((words, self.width, 2, 64))
        """Of each word and dimension the slabs of lowest codes, then how many slabs further the highest codes lie."""
        self.above = np.zeros((groups, self.width, NONE + 1), dtype=np.uint64)
        self.top = np.zeros((self.width, NONE + 1, -(-groups // 64)), dtype=np.uint64)
        self.alive = np.zeros(words, dtype=np.uint64)
        self.ends = np.empty((words * 64, self.width, 2), dtype=np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes of the sets and of the slabs of ends, without the ends themselves."""
        return sum(array.nbytes for array in (self.slabs, self.above, self.top, self.alive))

    # -------------------------------------------------------------------------------------------- changes

    def add(self, low: Ints, high: Ints) -> Ints:
        """More boxes; their slots."""
        slots = np.arange(self.count, self.count + len(low), dtype=np.int64)
        if self.count + len(low) > len(self.ends):
            self._grow(self.count + len(low))
        self.ends[slots] = np.stack([low, high], axis=2)
        first, last = (np.stack([self._slab(d, ends[:, d]) for d in range(self.width)], axis=1) for ends in (low, high))
        last[(low == LOWEST) & (high == HIGHEST)] = NONE
        _set_slabs(self.slabs, self.above, self.top, first, np.maximum(last, first), slots)
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
        return self.slabs, self.above, self.top, self.alive, self.ends

    def _slab(self, dimension: int, codes: Ints) -> Ints:
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
        codes = np.ascontiguousarray(points[:, asked])
        at = self._places(asked, codes, None if valid is None else valid[:, asked])
        reach = _reach(self.top, asked, at)
        owners, slots = (np.empty(most + GROUP * 64, dtype=np.int64) for _ in range(2))
        group = row = 0
        while group < len(self.above):
            found, group, row = _find(
                self.slabs, self.above, self.alive, self.ends, asked, cuts, at, codes, reach, levels, group, row, most,
                owners, slots,
            )  # fmt: skip
            if found:
                yield owners[:found].copy(), slots[:found].copy()

    def has_any(self, dimensions: Sequence[int], points: Ints, valid: Bools | None = None) -> Bools:
        """Whether something may be left of points by some of their dimensions: a column of `points` for each."""
        asked = np.array(dimensions, dtype=np.int64)
        at = self._places(asked, points, valid)
        return _has_any(self.slabs, self.above, self.alive, asked, at, _reach(self.top, asked, at))

    def _places(self, asked: Ints, codes: Ints, valid: Bools | None) -> Bytes:
        """The slabs of points, a column for each dimension in the order asked."""
        places = np.empty(codes.shape, dtype=np.uint8)
        for k, d in enumerate(asked):
            places[:, k] = self._slab(int(d), codes[:, k])
        if valid is not None:
            places[~valid] = NONE
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
_BYTES2 = types.Array(types.uint8, 2, "C")


@njit(types.void(_SLABS, _WORDS3, _WORDS3, _INTS2, _INTS2, _INTS), cache=True)
def _set_slabs(slabs: Any, above: Any, top: Any, first: Any, last: Any, slots: Any) -> None:
    for i in range(len(slots)):
        word = slots[i] >> 6
        group, mark = word >> 6, np.uint64(1) << np.uint64(word & 63)
        peak = np.uint64(1) << np.uint64(group & 63)
        for d in range(slabs.shape[1]):
            slabs[word, d, 0, slots[i] & 63] = first[i, d]
            slabs[word, d, 1, slots[i] & 63] = last[i, d] - first[i, d]
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
    out = np.empty((len(places), top.shape[2]), dtype=np.uint64)
    for i in range(len(places)):
        for at in range(top.shape[2]):
            some = np.uint64(0xFFFFFFFFFFFFFFFF)
            for k in range(len(asked)):
                some &= top[asked[k], places[i, k], at]
            out[i, at] = some
    return out


@njit(inline="always")
def _narrow(
    slabs: Any, above: Any, group: Any, asked: Any, cuts: Any, part: Any, places: Any, i: Any, marks: Any, bits: Any
) -> None:  # fmt: skip
    """What a part leaves of the words of a group: bits by word, and marks for words that are not 0."""
    first, upto, some, some_left = cuts[part], cuts[part + 1], marks[part], np.uint64(0)
    if some:
        for k in range(first, upto):
            some &= above[group, asked[k], places[i, k]]
    while some:
        at = count_zeros(some)
        mark = some & (~some + np.uint64(1))
        some ^= mark
        left = bits[part, at]
        for k in range(first, upto):
            left &= meeting(slabs, (group << 6) + at, asked[k], places[i, k])
            if not left:
                break
        if left:
            bits[part + 1, at] = left
            some_left |= mark
    marks[part + 1] = some_left


@njit(inline="always")
def _inside(slabs: Any, ends: Any, word: Any, left: Any, asked: Any, places: Any, codes: Any, i: Any) -> Any:
    """The boxes of a word that a point lies in, of those that are left by slabs: others end in a slab of the point."""
    for k in range(len(asked)):
        if places[i, k] != NONE:
            some, d, code = left & ending(slabs, word, asked[k], places[i, k]), asked[k], codes[i, k]
            while some:
                slot = (word << 6) + count_zeros(some)
                if code < ends[slot, d, 0] or code > ends[slot, d, 1]:
                    left ^= some & (~some + np.uint64(1))
                some &= some - np.uint64(1)
    return left


@njit(
    types.UniTuple(types.int64, 3)(
        _SLABS, _WORDS3, _WORDS, types.int64[:, :, ::1], _INTS, _INTS, _BYTES2, _INTS2, _WORDS2,
        _INTS, types.int64, types.int64, types.int64, types.int64[::1], types.int64[::1],
    ),
    cache=True,
)  # fmt: skip
def _find(
    slabs: Any, above: Any, alive: Any, ends: Any, asked: Any, cuts: Any, places: Any, codes: Any, reach: Any,
    levels: Any, group: int, row: int, most: int, owners: Any, slots: Any,
) -> tuple[int, int, int]:  # fmt: skip
    """Fill the output from a group and a point on; return how much there is, and where to continue."""
    depth, found = len(cuts) - 1, 0
    marks, bits = np.zeros(depth + 1, dtype=np.uint64), np.empty((depth + 1, GROUP), dtype=np.uint64)
    while group < len(above):
        begin, level = group * GROUP, 0
        marks[0] = 0
        for at in range(min(GROUP, len(alive) - begin)):
            bits[0, at] = alive[begin + at]
            if bits[0, at]:
                marks[0] |= np.uint64(1) << np.uint64(at)
        while row < len(places):
            level = min(level, levels[row])
            if reach[row, group >> 6] >> np.uint64(group & 63) & np.uint64(1):
                for part in range(level, depth):
                    _narrow(slabs, above, group, asked, cuts, part, places, row, marks, bits)
                level = depth
                some = marks[depth]
                while some:
                    word = begin + count_zeros(some)
                    left = _inside(slabs, ends, word, bits[depth, word - begin], asked, places, codes, row)
                    some &= some - np.uint64(1)
                    while left:
                        owners[found], slots[found] = row, (word << 6) + count_zeros(left)
                        left &= left - np.uint64(1)
                        found += 1
                if found >= most:
                    return found, group, row + 1
            row += 1
        group, row = group + 1, 0
    return found, group, row


@njit(types.bool_[::1](_SLABS, _WORDS3, _WORDS, _INTS, _BYTES2, _WORDS2), cache=True)
def _has_any(slabs: Any, above: Any, alive: Any, asked: Any, places: Any, reach: Any) -> Any:
    out = np.zeros(len(places), dtype=np.bool_)
    for i in range(len(places)):
        there = False
        for at in range(reach.shape[1]):
            groups = reach[i, at]
            while groups and not there:
                group = (at << 6) + count_zeros(groups)
                groups &= groups - np.uint64(1)
                some = np.uint64(0xFFFFFFFFFFFFFFFF)
                for k in range(len(asked)):
                    some &= above[group, asked[k], places[i, k]]
                while some and not there:
                    word = (group << 6) + count_zeros(some)
                    some &= some - np.uint64(1)
                    left = alive[word]
                    for k in range(len(asked)):
                        left &= meeting(slabs, word, asked[k], places[i, k])
                        if not left:
                            break
                    there = left != 0
        out[i] = there
    return out
