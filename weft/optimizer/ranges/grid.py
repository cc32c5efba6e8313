"""The matrix of a band or inequality join, cut into cells: how much comes in, how much comes out, what is empty.

    Band(low, high)      low <= right - left <= high; an open end is None.  left < right of integers is Band(1, None)

Rows of the matrix are left values in order, columns right values.  Each side is cut at quantiles of a sample.  In every
row of cells, those that can hold a match are consecutive, and they move right as rows go down: together they form a
staircase.  All other cells are certainly empty, also for rows that were not sampled.

A frequent value fills many quantiles.  So a cut is a pair (value, part): rows of one value are told apart by a number
in [0, 1) that their id gives, and a value may be cut in parts like any range.  Without that, no cut through a value
that half of the rows share would be possible (`parts=False`, as M-Bucket has it).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.errors import PlanError
from weft.kernels.codes import Ints
from weft.kernels.numbers import Floats

_CHUNK = 2048
"""How many sampled rows are matched with all columns at once."""

Values = npt.NDArray[Any]
"""Ordered numbers of one kind: int64 or float64."""


@dataclass(frozen=True, slots=True)
class Band:
    """low <= right - left <= high."""

    low: float | None
    high: float | None

    def __post_init__(self) -> None:
        if self.low is not None and self.high is not None and not self.low <= self.high:
            raise PlanError(f"no value is at least {self.low} and at most {self.high}")

    def reach(self, left: Values, right: Values) -> tuple[Ints, Ints]:
        """For each left value the places in sorted `right` that match: the first, and the one after the last."""
        first = np.zeros(len(left), np.int64)
        last = np.full(len(left), len(right), np.int64)
        if self.low is not None:
            first = np.searchsorted(right, _plus(left, self.low), side="left")
        if self.high is not None:
            last = np.searchsorted(right, _plus(left, self.high), side="right")
        return first, np.maximum(first, last)


@dataclass(frozen=True, slots=True, eq=False)
class Cuts:
    """Where one side is cut; n cuts make n + 1 ranges, the outer ones open."""

    values: Values
    parts: Floats
    """0 cuts before the value.  x > 0 cuts the value itself: its rows with a part below x lie before the cut."""

    def __len__(self) -> int:
        return len(self.values)

    def select(self, used: Ints) -> Cuts:
        """Some of the cuts."""
        return Cuts(self.values[used], self.parts[used])


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """A staircase of cells with their weights."""

    left: Cuts
    right: Cuts
    first: Ints
    """For each row the first cell that can hold a match; never falls."""
    last: Ints
    """The end of these cells, not included; never falls."""
    rows: Floats
    """Left tuples in the rows before each, one entry more than rows."""
    columns: Floats
    """Right tuples in the columns before each."""
    out: Floats
    """Expected results above and left of each corner."""

    def input(self, r0: int, r1: int, c0: int, c1: int) -> float:
        """Tuples of both sides that a rectangle needs."""
        return float(self.rows[r1] - self.rows[r0] + self.columns[c1] - self.columns[c0])

    def output(self, r0: int, r1: int, c0: int, c1: int) -> float:
        """Results of a rectangle."""
        return float(self.out[r1, c1] - self.out[r0, c1] - self.out[r1, c0] + self.out[r0, c0])

    def shrink(self, r0: int, r1: int, c0: int, c1: int) -> tuple[int, int, int, int] | None:
        """The least rectangle around the cells that can hold matches; None if there is none."""
        r0 = max(r0, int(np.searchsorted(self.last, c0, side="right")))
        r1 = min(r1, int(np.searchsorted(self.first, c1, side="left")))
        if r0 >= r1:
            return None
        c0, c1 = max(c0, int(self.first[r0])), min(c1, int(self.last[r1 - 1]))
        return (r0, r1, c0, c1) if c0 < c1 else None


def build_grid(
    left: Values,
    right: Values,
    band: Band,
    *,
    left_size: float | None = None,
    right_size: float | None = None,
    cells: int = 512,
    parts: bool = True,
) -> Grid:
    """The grid, from samples of both sides and the number of tuples that each sample stands for."""
    if left.dtype != right.dtype or left.dtype not in (np.int64, np.float64):
        raise PlanError("both sides of a band join must be integers, or both must be floats")
    a, b = np.sort(left), np.sort(right)
    cuts_a, starts_a = _quantiles(a, cells, parts)
    cuts_b, starts_b = _quantiles(b, cells, parts)
    per_a = (len(a) if left_size is None else left_size) / max(1, len(a))
    per_b = (len(b) if right_size is None else right_size) / max(1, len(b))
    first, last = _staircase(cuts_a, cuts_b, band)
    out = _matches(a, b, starts_a, starts_b, band) * per_a * per_b
    return Grid(cuts_a, cuts_b, first, last, starts_a * per_a, starts_b * per_b, out)


def _quantiles(values: Values, cells: int, parts: bool) -> tuple[Cuts, Floats]:
    """Cuts into equally many sampled rows, and the rows before each range: 0 first, all of them last."""
    n = len(values)
    places = np.unique(np.linspace(0, n, min(cells, n) + 1).astype(np.int64)[1:-1]) if n else np.empty(0, np.int64)
    found = values[places]
    start, end = np.searchsorted(values, found, side="left"), np.searchsorted(values, found, side="right")
    fraction = (places - start) / np.maximum(1, end - start) if parts else np.zeros(len(places))
    at = start + fraction * (end - start)
    keep = np.ones(len(places), dtype=np.bool_)
    keep[1:] = np.diff(at) > 0
    keep &= at > 0
    cuts = Cuts(found[keep], fraction[keep])
    return cuts, np.concatenate([[0.0], at[keep], [float(n)]])


def _staircase(a: Cuts, b: Cuts, band: Band) -> tuple[Ints, Ints]:
    """Cells of each row that can hold matches, by their corners alone."""
    n = len(b) + 1
    first, last = np.zeros(len(a) + 1, np.int64), np.full(len(a) + 1, n, np.int64)
    if band.low is not None:
        # A cell is out if all its right values are below low + the least left value of the row.
        reach = _plus(a.values, band.low)
        first[1:] = np.searchsorted(b.values, reach, side="left")
        if n > 1:
            cut = np.minimum(first[1:], n - 2)
            first[1:] += (first[1:] < n - 1) & (b.values[cut] == reach) & (b.parts[cut] == 0)
    if band.high is not None:
        # A cell is out if all its right values are above high + the greatest left value of the row.
        last[:-1] = np.searchsorted(b.values, _plus(a.values, band.high), side="right") + 1
    return np.maximum.accumulate(first), np.maximum.accumulate(np.minimum(last, n))


def _matches(a: Values, b: Values, starts_a: Floats, starts_b: Floats, band: Band) -> Floats:
    """Matching pairs of the samples above and left of each corner; rows of a cut value count by their part."""
    first, last = band.reach(a, b)
    out = np.zeros((len(starts_a), len(starts_b)))
    for at in range(0, len(a), _CHUNK):
        here = slice(at, at + _CHUNK)
        low, high = first[here, None], last[here, None]
        below = np.clip(starts_b[None, :] - low, 0, high - low)
        sums = np.concatenate([np.zeros((1, len(starts_b))), np.cumsum(below, axis=0)])
        inside = np.clip(starts_a - at, 0, len(below))
        whole = np.floor(inside).astype(np.int64)
        part = (inside - whole)[:, None]
        out += sums[whole] * (1 - part) + sums[np.minimum(whole + 1, len(below))] * part
    return out


def _plus(values: Values, step: float) -> Values:
    """Sums that stop at the ends of int64 instead of turning over."""
    if values.dtype == np.float64:
        return np.asarray(values + step)
    whole = math.floor(step) if step >= 0 else math.ceil(step)
    most = np.iinfo(np.int64)
    if whole >= 0:
        return np.where(values > most.max - whole, most.max, np.minimum(values, most.max - whole) + whole)
    return np.where(values < most.min - whole, most.min, np.maximum(values, most.min - whole) + whole)
