"""Rows as points in several dimensions, probes as boxes: a tree that is nothing but an order of the rows.

Shape.  A row is a point: one order code for each of D dimensions.  A probe is a box: a lowest and a highest code for
each dimension, both included; a missing end is the lowest or the highest code there is.  A row matches iff it lies in
the box.  A row that is itself an interval is a point with two dimensions, its low and its high end: it meets the
interval [l, h] iff its low end is at most h and its high end at least l, which is a box again.

Order.  The index gives each row a place, and rows of one equality code a *run* of consecutive places.  A *node* of
level k is a range of places [i * S, (i + 1) * S) with S = LEAF * FAN^k; it knows the smallest box around its points.
Inside a run rows are ordered so that nodes are small boxes: wherever a multiple of LEAF lies inside a part of a run,
the part is cut at the one that the most powers of two divide, smaller values of one dimension before it and larger
ones after it, and both halves are cut again.  (Of the multiples of 2^j inside a part, for the largest j that has any,
there is exactly one: between two there would be one of 2^(j+1).)  Each dimension gets an equal share of the cuts, one
after the other; first those in which the rows ascend as they come, such as time, since these cuts move nothing.

Walk.  A probe stands at a place p of its run.  If a node begins at p and its box misses the probe's box, no row of the
node matches, and the probe goes on behind the node; it asks the largest node that begins at p first, and smaller ones
until one is passed over or a leaf is reached.  The rows of a leaf are compared one by one.

Why every match comes once.  p only grows, so no row is met twice.  p passes a row without comparing it only with a
node that contains it and whose box, which contains the row, misses the probe's box; such a row does not match.  A node
may reach into a neighbouring run: its box is then larger than needed, which is no harm, and rows behind the end of the
run are never compared.  The order of rows has no part in this argument: it decides the cost, not the answer.

Cost.  Ordering n rows takes O(n log n) comparisons, one quickselect a level.  Rejected: trees with pointers (they
cannot be mapped from a file, and there is one for every segment), curves through all dimensions (codes of 64 bits and
any distribution would have to be cut to ranks first), and one sorted order a dimension with intersection (a wide range
in one dimension costs what it holds).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit, types

from weft.kernels.codes import INTS, INTS32, Ints

Places = npt.NDArray[np.int32]

LEAF_BITS, FAN_BITS = 4, 2
LEAF, FAN = 1 << LEAF_BITS, 1 << FAN_BITS
"""Rows of a leaf, and nodes of a node: powers of two."""

_POINTS = types.Array(types.int64, 2, "C", readonly=True)


def order_points(points: Sequence[Ints], rows: Any, codes: Ints) -> tuple[Ints, Ints]:
    """Order `rows` in place inside the runs of equal `codes` (none: one run); their points and the boxes of all nodes.

    Points are row by row; boxes node by node, level by level, each the lowest and highest code of every dimension.
    """
    columns = np.stack(points)
    turns = sorted(range(len(points)), key=lambda d: not is_ascending(columns[d], rows))
    _order_runs(columns, np.array(turns), rows, codes)
    placed = np.ascontiguousarray(columns.T).take(rows, axis=0)
    return placed.ravel(), _surround(placed)


# --------------------------------------------------------------------------------------------------- order


@njit(types.int64(types.int64, types.int64), cache=True)
def _cut_of(start: Any, end: Any) -> Any:
    """The multiple of LEAF strictly inside that the most powers of two divide; -1 if there is none."""
    size = np.int64(LEAF)
    if (start // size + 1) * size >= end:
        return -1
    while (start // (size * 2) + 1) * size * 2 < end:
        size *= 2
    return (start // size + 1) * size


@njit(types.void(types.int64[::1], types.int32[::1], types.int64), cache=True)
def _select(keys: Any, rows: Any, place: int) -> None:
    """Reorder so that no key before `place` is larger, and none from it on smaller, than the key at it."""
    low, high = 0, len(keys) - 1
    while low < high:
        a, b, c = keys[low], keys[(low + high) >> 1], keys[high]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = low, high
        while i <= j:
            while keys[i] < pivot:
                i += 1
            while keys[j] > pivot:
                j -= 1
            if i <= j:
                keys[i], keys[j] = keys[j], keys[i]
                rows[i], rows[j] = rows[j], rows[i]
                i += 1
                j -= 1
        if place <= j:
            high = j
        elif place >= i:
            low = i
        else:
            return


@njit(types.bool_(INTS, INTS32), cache=True)
def is_ascending(values: Any, rows: Any) -> bool:
    """Whether values follow each other, row by row."""
    for i in range(1, len(rows)):  # noqa: SIM110 - compiled
        if values[rows[i - 1]] > values[rows[i]]:
            return False
    return True


@njit(types.int64(_POINTS, INTS, INTS32, types.int64), cache=True)
def _differing(columns: Any, turns: Any, rows: Any, first: int) -> int:
    """The first dimension, in turn from `first`, in which rows differ; -1 if they are all one point."""
    for turn in range(len(turns)):
        d = turns[(first + turn) % len(turns)]
        for i in range(1, len(rows)):
            if columns[d, rows[i]] != columns[d, rows[0]]:
                return d
    return -1


@njit(types.void(_POINTS, INTS, types.int32[::1], types.int64, types.int64, types.int64[::1]), cache=True)
def _order_run(columns: Any, turns: Any, rows: Any, start: int, end: int, keys: Any) -> None:
    """Cut one run until no multiple of LEAF lies inside a part; each dimension for a share of the cuts to be made."""
    starts, ends, depths = np.empty(130, np.int64), np.empty(130, np.int64), np.empty(130, np.int64)
    starts[0], ends[0], depths[0] = start, end, 0
    cuts, waiting = 1, 1
    while LEAF << cuts < end - start:
        cuts += 1
    while waiting:
        waiting -= 1
        start, end, depth = starts[waiting], ends[waiting], depths[waiting]
        cut = _cut_of(start, end)
        if cut < 0:
            continue
        d = _differing(columns, turns, rows[start:end], depth * len(turns) // cuts)
        if d < 0:
            continue
        for i in range(start, end):
            keys[i] = columns[d, rows[i]]
        _select(keys[start:end], rows[start:end], cut - start)
        for a, b in ((start, cut), (cut, end)):
            starts[waiting], ends[waiting], depths[waiting] = a, b, depth + 1
            waiting += 1


@njit(types.void(_POINTS, INTS, types.int32[::1], INTS), cache=True)
def _order_runs(columns: Any, turns: Any, rows: Any, codes: Any) -> None:
    keys = np.empty(len(rows), dtype=np.int64)
    start = 0
    while start < len(rows):
        end = start + 1 if len(codes) else len(rows)
        while end < len(rows) and codes[end] == codes[start]:
            end += 1
        if end - start > 1:
            _order_run(columns, turns, rows, start, end, keys)
        start = end


# --------------------------------------------------------------------------------------------------- boxes


@njit(types.int64[::1](_POINTS), cache=True)
def _surround(points: Any) -> Any:
    """The boxes of all nodes, leaves first."""
    count, width = points.shape
    nodes = total = (count + LEAF - 1) // LEAF
    while nodes > 1:
        nodes = (nodes + FAN - 1) // FAN
        total += nodes
    boxes = np.empty(total * width * 2, dtype=np.int64)
    for i in range(count):
        at, begins = (i >> LEAF_BITS) * width * 2, i & (LEAF - 1) == 0
        for d in range(width):
            value = points[i, d]
            boxes[at + 2 * d] = value if begins else min(value, boxes[at + 2 * d])
            boxes[at + 2 * d + 1] = value if begins else max(value, boxes[at + 2 * d + 1])
    below, nodes = 0, (count + LEAF - 1) // LEAF
    while nodes > 1:
        above = below + nodes
        for node in range(nodes):
            of, at = (below + node) * width * 2, (above + (node >> FAN_BITS)) * width * 2
            begins = node & (FAN - 1) == 0
            for d in range(width):
                low, high = boxes[of + 2 * d], boxes[of + 2 * d + 1]
                boxes[at + 2 * d] = low if begins else min(low, boxes[at + 2 * d])
                boxes[at + 2 * d + 1] = high if begins else max(high, boxes[at + 2 * d + 1])
        below, nodes = above, (nodes + FAN - 1) // FAN
    return boxes


@njit(types.int64[::1](types.int64), cache=True)
def _level_starts(count: int) -> Any:
    """The first node of each level in the boxes of `count` rows."""
    starts = np.zeros(40, dtype=np.int64)
    levels, nodes = 1, (count + LEAF - 1) // LEAF
    while nodes > 1:
        starts[levels] = starts[levels - 1] + nodes
        levels, nodes = levels + 1, (nodes + FAN - 1) // FAN
    return starts[:levels].copy()


# ---------------------------------------------------------------------------------------------------- walk


def walk(
    points: Ints,
    boxes: Ints,
    index_rows: Places,
    runs: tuple[Ints, Ints, Ints],
    low: Ints,
    high: Ints,
    chunk: int,
) -> Iterator[tuple[Places, Places]]:
    """All matches as pairs of a probe and a row, at most `chunk` at a time.

    `runs` are probes, and for each the places where its run begins and ends.  `low` and `high` have a row for each
    probe, in order, and a column for each dimension.
    """
    begins, lows, highs = _level_starts(len(index_rows)), np.ascontiguousarray(low), np.ascontiguousarray(high)
    k, place = 0, -1
    while k < len(runs[0]):
        probes, rows = np.empty(chunk, dtype=np.int32), np.empty(chunk, dtype=np.int32)
        found, k, place = _walk(points, boxes, begins, index_rows, *runs, lows, highs, k, place, probes, rows)
        if found:
            yield probes[:found], rows[:found]


def side_by_side(ends: Sequence[Ints | None], count: int, missing: int) -> Ints:
    """Ends of several dimensions as `walk` takes them; None where a dimension has no end."""
    made = np.full((count, len(ends)), missing, dtype=np.int64)
    for d, values in enumerate(ends):
        if values is not None:
            made[:, d] = values
    return made


@njit(
    types.UniTuple(types.int64, 3)(
        INTS, INTS, INTS, INTS32, INTS, INTS, INTS, _POINTS, _POINTS, types.int64, types.int64,
        types.int32[::1], types.int32[::1],
    ),
    cache=True,
)  # fmt: skip
def _walk(
    points: Any, boxes: Any, begins: Any, index_rows: Any, which: Any, begin: Any, end: Any, low: Any, high: Any,
    first: int, place: Any, out_probes: Any, out_rows: Any,
) -> Any:  # fmt: skip
    """Fill the output from run `first`, at `place` (-1: not started); the number of pairs, and where to go on.

    One function with all loops in it: a call with so many arrays costs as much as a walk.
    """
    found, top, width = 0, len(begins) - 1, low.shape[1]
    for k in range(first, len(which)):
        probe, last = which[k], end[k]
        place = max(place, begin[k])
        small = last - place <= LEAF
        while place < last:
            level = np.int64(-1)
            if not small and place & (LEAF - 1) == 0:
                level, size = np.int64(0), np.int64(LEAF)
                while level < top and place & (size * FAN - 1) == 0 and place + size < last:
                    level, size = level + 1, size * FAN
                while level >= 0:  # ask the nodes that begin here, from the largest to the leaf
                    at, d = (begins[level] + (place >> (LEAF_BITS + FAN_BITS * level))) * width * 2, 0
                    while d < width and boxes[at + 2 * d] <= high[probe, d] and boxes[at + 2 * d + 1] >= low[probe, d]:
                        d += 1
                    if d < width:
                        break
                    level -= 1
            if level >= 0:
                place += np.int64(LEAF) << (FAN_BITS * level)
                continue
            stop = min(last, (place | (LEAF - 1)) + 1)
            while place < stop:
                at, d = place * width, 0
                while d < width and points[at + d] >= low[probe, d] and points[at + d] <= high[probe, d]:
                    d += 1
                if d == width:
                    if found == len(out_rows):
                        return found, k, place
                    out_probes[found] = probe
                    out_rows[found] = index_rows[place]
                    found += 1
                place += 1
        place = np.int64(-1)
    return found, len(which), place
