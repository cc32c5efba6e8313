"""Which workers see a value of a band or inequality join.

A side is a list of cuts, and for each range between them the workers whose rectangle crosses it.  That is all a worker
needs: a search among the cuts, and a table.  Samples show where many rows are, never that a range is empty: the outer
ranges are open, and a value that was not sampled finds its partners like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from weft.optimizer.ranges.cut import Rectangle, equi_weight, m_bucket
from weft.optimizer.ranges.grid import Band, Cuts, Grid, Values, build_grid


@dataclass(frozen=True, slots=True, eq=False)
class RangeTable:
    """One relation of a range-partitioned join."""

    cuts: Cuts
    workers: tuple[tuple[int, ...], ...]
    """Range -> the workers that must see its rows; one entry more than cuts."""


@dataclass(frozen=True, slots=True, eq=False)
class RangePartition:
    """Both sides, and what each worker is expected to do."""

    left: RangeTable
    right: RangeTable
    input: tuple[float, ...]
    output: tuple[float, ...]
    """Expected tuples in and results out, by worker."""
    copies: tuple[float, float]
    """To how many workers a tuple of the left and of the right goes on average."""

    @property
    def workers(self) -> int:
        """How many workers have something to do."""
        return len(self.input)


def range_partition(
    left: Values,
    right: Values,
    band: Band,
    workers: int,
    *,
    scheme: Literal["equi-weight", "m-bucket"] = "equi-weight",
    left_size: float | None = None,
    right_size: float | None = None,
    parts: bool = True,
) -> RangePartition:
    """A partition from samples of both sides; a result costs as much as an input tuple.

    Without `parts` no value is cut: workers need no row ids to route by, and the heaviest value stays on one of them.
    """
    even = scheme == "equi-weight"
    cells = min(1024, max(256, 16 * workers)) if even else 8 * workers
    grid = build_grid(left, right, band, left_size=left_size, right_size=right_size, cells=cells, parts=even and parts)
    boxes = equi_weight(grid, workers) if even else m_bucket(grid, workers)
    return partition(grid, boxes)


def partition(grid: Grid, boxes: Sequence[Rectangle]) -> RangePartition:
    """The sides of some rectangles, with no more cuts than they need."""
    left = _side(grid.left, [(box.r0, box.r1) for box in boxes])
    right = _side(grid.right, [(box.c0, box.c1) for box in boxes])
    sent = (
        sum(grid.rows[box.r1] - grid.rows[box.r0] for box in boxes),
        sum(grid.columns[box.c1] - grid.columns[box.c0] for box in boxes),
    )
    whole = grid.rows[-1], grid.columns[-1]
    return RangePartition(
        left,
        right,
        tuple(grid.input(*box) for box in boxes),
        tuple(grid.output(*box) for box in boxes),
        (float(sent[0] / max(1e-9, whole[0])), float(sent[1] / max(1e-9, whole[1]))),
    )


def _side(cuts: Cuts, spans: Sequence[tuple[int, int]]) -> RangeTable:
    edges = np.unique([edge for span in spans for edge in span])
    used = edges[(edges > 0) & (edges <= len(cuts))].astype(np.int64)
    starts = [0, *used.tolist()]
    workers = tuple(tuple(w for w, (a, b) in enumerate(spans) if a <= start < b) for start in starts)
    return RangeTable(cuts.select(used - 1), workers)
