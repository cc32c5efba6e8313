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

Walk.  `narrowing` takes points through the sets, part by part.

Why the answer is right.  If a code c lies in the interval of a box, the slab of c meets the interval, so the bit of the
box is set there: no box that the point lies in is ever lost.  A bit of an upper level is set whenever a bit below it
is, so no word that is not 0 is passed over.  Bits are only taken away by narrowing.  What is left at the end is
compared with the ends themselves, so no other box stays; and each has one bit, so it comes once.  An end needs to be
compared only where it lies in the slab of the point: slabs are in the order of codes, so a point in a later slab than
that of the lowest code is above it.  An empty interval is kept as its first slab, where its ends are compared.  A point
without a code meets boxes without ends alone, and these have the lowest and the highest code there is as theirs.

Two bytes.  Most points are above or below an end in their slab by far.  So a code has a second byte, the place in its
slab: from 1 to 254, rising with the code.  Two bytes are in the order of codes where they differ, and where they do not
the ends themselves are compared.  The lowest code of a slab has place 0 as an end of a box that begins there, and the
highest one 255 as an end of a box that ends there: no point has these, so every point of the slab is inside.  A box
without ends has 0 and 65,535; one whose interval is empty ends at place 0, below all points of its slab.

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

from weft.kernels import narrowing
from weft.kernels.boxes import order_points
from weft.kernels.codes import HIGHEST, LOWEST, Bools, Ints
from weft.kernels.lanes import BLOCK
from weft.kernels.narrowing import FEW, GROUP, NONE, RUN, SOME

SLABS = 255
"""Slabs of a dimension at most, so that a slab is a byte and NONE is another one."""
CELLS = 1024
"""Cells of a dimension in which the slab of a code is looked for."""
FEW_STEPS = 5
"""With so many cuts in a cell, to halve all of them takes no longer."""
MOST_PLACES = 253
"""The last place that a code may have in a slab, from 0 on: two more bytes say that a box ends where the slab does."""
MOST = 65_536

Words = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]
Pairs = npt.NDArray[np.uint16]


class BitSets:
    """Boxes that points are looked up in."""

    def __init__(self, low: Ints, high: Ints, *, free: Bools | None = None, slabs: int = SLABS, room: int = 0) -> None:
        """Boxes by their ends, a row each; `room` is how many more may come before the sets are made larger.

        `free` says where a box has no end: the lowest and the highest code, but these may be ends as well.
        """
        count, self.width = low.shape
        cuts = [_cuts(low[:, d], high[:, d], slabs) for d in range(self.width)]
        self.begins, self.lasts, self.shifts = (np.stack(part) for part in zip(*map(_steps, cuts), strict=True))
        """Of each dimension the first and last codes of slabs, and how many bits of a place in them are cut off."""
        self.highest = np.array([len(some) for some in cuts], dtype=np.int64)
        """Of each dimension the last slab that a code has."""
        self.cells = tuple(np.stack(part) for part in zip(*map(_cells, cuts), strict=True))
        """Of each dimension where a code is looked for among the slabs."""
        self._make_room(count + room)
        self.count = 0
        """Slots in use, those of removed boxes too."""
        placed = _alike(low, high)
        self.slots = np.empty(count, dtype=np.int64)
        """The slots of the boxes that were given at the beginning."""
        self.slots[placed] = self.add(low[placed], high[placed], None if free is None else free[placed])

    def _make_room(self, room: int) -> None:
        words = -(-max(1, room) // 64)
        groups = -(-words // GROUP)
        self.slabs = _aligned((words, self.width, 2, 64))
        """Of each word and dimension the slabs of lowest codes, then how many slabs further the highest codes lie."""
        self.spans = _aligned((words * 64, 4 * self._filled)).view(np.uint16)
        """The same by box, with a byte more: two bytes of the lowest codes in all dimensions, then of the highest."""
        self.spans[:, self._filled + self.width :] = 0xFFFF
        self.above = np.zeros((groups, self.width, NONE + 1), dtype=np.uint64)
        self.top = np.zeros((self.width, NONE + 1, -(-groups // 64)), dtype=np.uint64)
        self.alive = np.zeros(words, dtype=np.uint64)
        self.ends = np.empty((words * 64, self.width, 2), dtype=np.int64)

    @property
    def _filled(self) -> int:
        """Bytes for the dimensions of a box or a point; those that are too many hold slabs in which no box ends."""
        return -(-self.width // BLOCK) * BLOCK

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
        first, last = self._ends(low, high, (low == LOWEST) & (high == HIGHEST) if free is None else free)
        self.spans[slots, : self.width], self.spans[slots, self._filled : self._filled + self.width] = first, last
        _set_slabs(self.slabs, self.above, self.top, first >> 8, last >> 8, slots)
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

    def _ends(self, low: Ints, high: Ints, free: Bools) -> tuple[Pairs, Pairs]:
        """Both ends of boxes as two bytes in each dimension."""
        every = np.arange(self.width)
        first, last = (self._places(every, codes)[1][:, : self.width] for codes in (low, high))
        first[low == self.begins[every, first >> 8]] &= 0xFF00
        last[high == self.lasts[every, last >> 8]] |= 0xFF
        last[free] = 0xFFFF
        return first, np.maximum(last, first & 0xFF00)

    # -------------------------------------------------------------------------------------------- questions

    def find(
        self, parts: Sequence[Sequence[int]], points: Ints, levels: Ints, valid: Bools | None = None, most: int = MOST
    ) -> Iterator[tuple[Ints, Ints]]:
        """All (point, slot), about `most` at a time; `parts` are all dimensions, in the order of narrowing.

        `levels` says for each point which part is the first in which it differs from the point before it: what is left
        by the parts before that is used again.  That of the first point is 0.
        """
        asked = np.array([d for part in parts for d in part], dtype=np.int64)
        cuts = np.cumsum([0, *map(len, parts)], dtype=np.int64)
        points = np.ascontiguousarray(points)
        part = np.repeat(np.arange(len(parts)), np.diff(cuts))
        at, rows = self._places(asked, points, valid, part=part, levels=levels)
        runs = narrowing.runs(levels, len(parts))
        near, reach = narrowing.reach(self.top, asked, cuts[1], at, levels)
        room = most + RUN * max(GROUP, FEW * RUN) + SOME + GROUP * 64
        owners, slots = (np.empty(room, dtype=np.int64) for _ in range(2))
        notes = np.empty((room * (self._filled // BLOCK), 2), dtype=np.int64)
        group = row = 0
        while group < len(self.above):
            found, group, row = narrowing.find(
                self.slabs, self.spans, self.above, self.alive, self.ends, asked, cuts, at, rows, points, near, reach,
                levels, runs, group, row, most, owners, slots, notes,
            )  # fmt: skip
            if found:
                yield owners[:found].copy(), slots[:found].copy()

    def has_any(self, dimensions: Sequence[int], points: Ints, valid: Bools | None = None) -> Bools:
        """Whether something may be left of points by some of their dimensions: a column of `points` for each."""
        asked, columns = np.array(dimensions, dtype=np.int64), np.arange(len(dimensions))
        at, _ = self._places(asked, points, valid, columns=columns)
        _, reach = narrowing.reach(self.top, asked, len(asked), at, np.zeros(len(points), dtype=np.int64))
        return narrowing.has_any(self.slabs, self.above, self.alive, asked, at, reach)

    def _places(
        self, asked: Ints, points: Ints, valid: Bools | None = None, *,
        columns: Ints | None = None, part: Ints | None = None, levels: Ints | None = None,
    ) -> tuple[Bytes, Pairs]:  # fmt: skip
        """The slabs of points, a row for each dimension in the order asked, with room behind for a run of points; and
        their two bytes, a row for each point.

        Points have a column for each dimension, or `columns` names them.  Where the level of a point is above the part
        of a dimension it has the code of the point before.
        """
        places = np.zeros((len(asked), len(points) + RUN), dtype=np.uint8)
        rows = np.ones((len(points), self._filled), dtype=np.uint16)
        _place(
            self.begins, self.highest, self.shifts, *self.cells, asked, asked if columns is None else columns,
            np.ascontiguousarray(points, dtype=np.int64),
            np.empty((0, 0), dtype=np.bool_) if valid is None else valid,
            np.zeros(len(asked), dtype=np.int64) if part is None else part,
            np.zeros(len(points), dtype=np.int64) if levels is None else levels, places, rows,
        )  # fmt: skip
        return places, rows


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


def _steps(cuts: Ints) -> tuple[Ints, Ints, Words]:
    """The first and the last code of each slab, and how many bits of a distance from the first do not fit a place."""
    begins, lasts = np.full(NONE + FEW_STEPS, HIGHEST), np.full(NONE + 1, HIGHEST)
    begins[0], begins[1 : len(cuts) + 1], lasts[: len(cuts)] = LOWEST, cuts, cuts - 1
    wide = [int(last) - int(begin) for begin, last in zip(begins[: NONE + 1], lasts, strict=True)]
    return begins, lasts, np.array([_shift(one) for one in wide], dtype=np.uint64)


def _cells(cuts: Ints) -> tuple[Bytes, Ints, np.uint64, np.int64]:
    """What cuts lie before each of the equal cells that codes between the first and the last cut are in.

    Then: the first and the last cut, how many bits make a cell, and how many cuts are in one cell at most.
    """
    before, ends = np.zeros(CELLS, dtype=np.uint8), np.zeros(2, dtype=np.int64)
    if not len(cuts):
        return before, ends, np.uint64(0), np.int64(0)
    ends[:] = cuts[0], cuts[-1]
    wide = int(cuts[-1]) - int(cuts[0])
    shift = max(0, wide.bit_length() - (CELLS - 1).bit_length())
    begins = [int(cuts[0]) + (cell << shift) for cell in range((wide >> shift) + 1)]
    before[: len(begins)] = np.searchsorted(cuts, begins)
    most = np.diff(np.append(before[: len(begins)], np.uint8(len(cuts)))).max()
    return before, ends, np.uint64(shift), np.int64(most)


def _shift(wide: int) -> int:
    shift = max(0, wide.bit_length() - 8)
    return shift + (wide >> shift > MOST_PLACES)


def _alike(low: Ints, high: Ints) -> npt.NDArray[np.int32]:
    """The boxes in an order in which neighbours are alike: by the middles of their intervals."""
    rows = np.arange(len(low), dtype=np.int32)
    if len(low):
        middles = [low[:, d] // 2 + high[:, d] // 2 for d in range(low.shape[1])]
        order_points(middles, rows, np.empty(0, dtype=np.int64))
    return rows


_SLABS = types.Array(types.uint8, 4, "C")
_WORDS3, _WORDS = (types.Array(types.uint64, n, "C") for n in (3, 1))
_INTS = types.Array(types.int64, 1, "C", readonly=True)
_ENDS, _BYTES = types.Array(types.uint16, 2, "C"), types.Array(types.uint8, 1, "C")


_INTS2, _CODES = (types.Array(types.int64, 2, "C", readonly=some) for some in (False, True))
_WORDS2, _VALID = types.Array(types.uint64, 2, "C"), types.Array(types.bool_, 2, "A", readonly=True)
_BYTES2 = types.Array(types.uint8, 2, "C")


@njit(
    types.void(
        _INTS2,
        _INTS,
        _WORDS2,
        _BYTES2,
        _INTS2,
        _WORDS,
        _INTS,
        _INTS,
        _INTS,
        _CODES,
        _VALID,
        _INTS,
        _INTS,
        _BYTES2,
        _ENDS,
    ),
    cache=True,
)
def _place(
    begins: Any, highest: Any, shifts: Any, cells: Any, ends: Any, bits: Any, most: Any, asked: Any, columns: Any,
    points: Any, valid: Any, part: Any, levels: Any, places: Any, rows: Any,
) -> None:  # fmt: skip
    """Cut codes to two bytes: the slab, and from 1 to 254 the place in it.

    The slab is found from the cell of a code, where few cuts lie in a cell: after those before the cell come those in
    it that are not above the code.
    """
    some = len(valid) > 0
    for k in range(len(asked)):
        d, column = asked[k], columns[k]
        mine, last, cut = begins[d], np.uint64(highest[d]), shifts[d]
        before, first, behind, wide, steps = cells[d], ends[d, 0], ends[d, 1], bits[d] & np.uint64(63), most[d]
        slab, place = np.uint64(0), np.uint64(0)
        for i in range(len(points)):
            if levels[i] > part[k]:  # as the point before
                places[k, i], rows[i, d] = slab, slab << np.uint64(8) | place
                continue
            code, slab = points[i, column], np.uint64(0)
            if steps < FEW_STEPS:
                slab = np.uint64(before[np.uint64(min(max(code, first), behind) - first) >> wide])
                for _ in range(steps):
                    slab += np.uint64(mine[slab + np.uint64(1)] <= code)
            else:
                for n in range(8):  # how many slabs behind the first begin not above it, without a guess
                    half = np.uint64(128) >> np.uint64(n)
                    slab += half * np.uint64(mine[slab + half] <= code)
            slab = min(slab, last)
            place = np.uint64(1) + (np.uint64(code - mine[slab]) >> (cut[slab] & np.uint64(63)))
            if some and not valid[i, column]:
                slab = np.uint64(NONE)
            places[k, i], rows[i, d] = slab, slab << np.uint64(8) | place


@njit(types.void(_SLABS, _WORDS3, _WORDS3, _ENDS, _ENDS, _INTS), cache=True)
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
