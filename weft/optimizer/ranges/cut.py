"""Rectangles over the staircase of a band or inequality join, one for each worker.

    M-Bucket       balances what comes in: rows of cells are covered from above by rectangles of bounded input; the
                   bound is found by bisection (Okcan and Riedewald, M-Bucket-I).  Where values are frequent on both
                   sides, one rectangle makes most of the results.
    equi-weight    balances input plus output (Vitorovic et al., EWH; Squall 3.1): a rectangle with k workers is cut
                   in two, and the workers are divided between the halves.  Each half shrinks to the cells that can
                   hold matches, so empty corners cost nothing.  While k is small, both directions are tried to the
                   end, and the cut whose heaviest rectangle is lightest is taken.

EWH itself finds the fewest rectangles of bounded weight by dynamic programming over a coarse matrix.  Here cuts are
searched on the fine matrix instead: a coarse one would have to be fitted to the weights first, and its cell size is
the error of the result.

What must hold: rectangles are disjoint and cover all cells that can hold a match.  As every worker has one rectangle,
a left and a right row share a worker iff their cell is in its rectangle; so every match is found exactly once.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from typing import NamedTuple

import numpy as np

from weft.errors import PlanError
from weft.optimizer.ranges.grid import Grid


class Rectangle(NamedTuple):
    """Rows and columns of cells; ends are not included."""

    r0: int
    r1: int
    c0: int
    c1: int


# ---------------------------------------------------------------------------------------------- equi-weight

FULL, SOME = 4, 16
"""Up to the first number of workers all cuts are tried to the end; up to the second, one in each direction; with more
workers only the more even one."""


def equi_weight(grid: Grid, workers: int) -> tuple[Rectangle, ...]:
    """At most so many rectangles of about equal work: tuples in, plus results."""
    _check(workers)
    whole = _shrink(grid, Rectangle(0, len(grid.rows) - 1, 0, len(grid.columns) - 1))
    return () if whole is None else _Cutter(grid).cut(whole, workers)[1]


_Cut = tuple[float, tuple[Rectangle, ...]]
"""The work of the heaviest rectangle, and all of them."""


class _Halves(NamedTuple):
    """A rectangle in two, shrunk; None where nothing is left."""

    a: Rectangle | None
    b: Rectangle | None
    k_a: int
    """Workers of the first."""
    heavier: float
    """Work by worker, of the half that has more of it."""


class _Cutter:
    def __init__(self, grid: Grid) -> None:
        # Lists, because reading single numbers out of arrays is slow, and a million of them are read.
        self.first, self.last = grid.first.tolist(), grid.last.tolist()
        self.rows, self.columns = grid.rows.tolist(), grid.columns.tolist()
        self.out = grid.out.tolist()
        self.known: dict[tuple[Rectangle, int], _Cut] = {}

    def cut(self, box: Rectangle, k: int) -> _Cut:
        """The best way found to cut a rectangle for k workers."""
        if (box, k) not in self.known:
            found = [self._join_halves(halves, k) for halves in self._ways(box, k)] if k > 1 else []
            self.known[box, k] = min([(self._work(box), (box,)), *found], key=lambda f: f[0])
        return self.known[box, k]

    def _join_halves(self, halves: _Halves, k: int) -> _Cut:
        a, b, k_a, _ = halves
        if a is None or b is None:
            one = a or b
            return self.cut(one, k) if one is not None else (0.0, ())
        (w_a, boxes_a), (w_b, boxes_b) = self.cut(a, k_a), self.cut(b, k - k_a)
        return max(w_a, w_b), boxes_a + boxes_b

    def _ways(self, box: Rectangle, k: int) -> list[_Halves]:
        """Ways to cut a rectangle: across rows or columns, half of the workers each, or less and more if k is odd."""
        shares = sorted({k // 2, (k + 1) // 2}) if k <= FULL else [k // 2]
        ways = []
        for k_a in shares:
            for across in (True, False):
                low, high = (box.r0, box.r1) if across else (box.c0, box.c1)
                if high - low > 1:
                    at = self._balance(box, across, k_a, k - k_a, low + 1, high - 1)
                    places = {at, max(low + 1, at - 1)}
                    found = [self._halves(box, across, place, k_a, k - k_a) for place in sorted(places)]
                    ways += found if k <= FULL else [min(found, key=lambda h: h.heavier)]
        return ways if k <= SOME else sorted(ways, key=lambda h: h.heavier)[:1]

    def _balance(self, box: Rectangle, across: bool, k_a: int, k_b: int, first: int, last: int) -> int:
        """The place from which on the first half is the heavier one; it only grows, so bisection finds it."""
        while first < last:
            middle = (first + last) // 2
            a, b = self._split(box, across, middle)
            if self._work(a) * k_b >= self._work(b) * k_a:
                last = middle
            else:
                first = middle + 1
        return first

    def _halves(self, box: Rectangle, across: bool, at: int, k_a: int, k_b: int) -> _Halves:
        a, b = self._split(box, across, at)
        return _Halves(a, b, k_a, max(self._work(a) / k_a, self._work(b) / k_b))

    def _split(self, box: Rectangle, across: bool, at: int) -> tuple[Rectangle | None, Rectangle | None]:
        r0, r1, c0, c1 = box
        if across:
            return self._shrink(r0, at, c0, c1), self._shrink(at, r1, c0, c1)
        return self._shrink(r0, r1, c0, at), self._shrink(r0, r1, at, c1)

    def _work(self, box: Rectangle | None) -> float:
        if box is None:
            return 0.0
        (r0, r1, c0, c1), out = box, self.out
        results = out[r1][c1] - out[r0][c1] - out[r1][c0] + out[r0][c0]
        return float(self.rows[r1] - self.rows[r0] + self.columns[c1] - self.columns[c0] + results)

    def _shrink(self, r0: int, r1: int, c0: int, c1: int) -> Rectangle | None:
        """As `Grid.shrink`, over lists."""
        r0 = max(r0, bisect_right(self.last, c0))
        r1 = min(r1, bisect_left(self.first, c1))
        if r0 >= r1:
            return None
        c0, c1 = max(c0, self.first[r0]), min(c1, self.last[r1 - 1])
        return Rectangle(r0, r1, c0, c1) if c0 < c1 else None


# ------------------------------------------------------------------------------------------------ M-Bucket


def m_bucket(grid: Grid, workers: int) -> tuple[Rectangle, ...]:
    """At most so many rectangles of about equal input."""
    _check(workers)
    whole = _shrink(grid, Rectangle(0, len(grid.rows) - 1, 0, len(grid.columns) - 1))
    if whole is None:
        return ()
    low, high = 0.0, grid.input(*whole)
    best: tuple[Rectangle, ...] = (whole,)
    for _ in range(24):
        middle = (low + high) / 2
        found = _cover(grid, workers, middle)
        if found is None:
            low = middle
        else:
            high, best = middle, found
    return best


def _cover(grid: Grid, workers: int, bound: float) -> tuple[Rectangle, ...] | None:
    """Rectangles of bounded input over everything, or None if it takes more than there are workers."""
    boxes: list[Rectangle] = []
    row, rows = 0, len(grid.rows) - 1
    while row < rows:
        best: tuple[float, int, list[Rectangle]] | None = None
        for end in range(row + 1, min(rows, row + 64) + 1):
            block = _block(grid, row, end, bound)
            if block is None:
                break
            covered = float((grid.last[row:end] - grid.first[row:end]).clip(min=0).sum())
            score = covered / len(block) if block else math.inf
            if best is None or score >= best[0]:
                best = score, end, block
        if best is None or len(boxes) + len(best[2]) > workers:
            return None
        boxes += best[2]
        row = best[1]
    return tuple(boxes)


def _block(grid: Grid, r0: int, r1: int, bound: float) -> list[Rectangle] | None:
    """Some rows covered by rectangles side by side."""
    whole = _shrink(grid, Rectangle(r0, r1, 0, len(grid.columns) - 1))
    boxes: list[Rectangle] = []
    if whole is None:
        return boxes
    column = whole.c0
    while column < whole.c1:
        room = bound - grid.input(r0, r1, column, column)
        end = min(whole.c1, int(np.searchsorted(grid.columns, grid.columns[column] + room, side="right")) - 1)
        if end <= column:
            return None
        if box := _shrink(grid, Rectangle(r0, r1, column, end)):
            boxes.append(box)
        column = end
    return boxes


# ------------------------------------------------------------------------------------------------- helpers


def _shrink(grid: Grid, box: Rectangle) -> Rectangle | None:
    found = grid.shrink(*box)
    return None if found is None else Rectangle(*found)


def _check(workers: int) -> None:
    if workers < 1:
        raise PlanError(f"a join over {workers} workers", hint="use at least one worker.")
