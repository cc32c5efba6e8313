"""Sends rows to workers: by key, to one or to all of them (`route`), or as a spread says (`spread_rows`).

A spread may send a row to several workers.  Where each copy goes depends on the axes of the spread:

    hash axis     the slot of the value's code; every axis has its own salt, so that slots of two axes are independent
    random axis   by the row's number: consecutive numbers fill the slots in turn (K-21)
    copied axis   every slot
    heavy value   by the row's number along its stream's side of the value's grid, copied along the other sides

A row's place depends on its values and its number only.  So numbers must be the same when a batch is repeated.
The number of a row that may be taken back is a code of its values: the row that takes it back comes to the same place.
That code depends on the columns that a plan keeps.  Elsewhere it does not matter if both come to different places after
a change of plan, since what they join adds up.  But rows of a table that are looked up must come together (`TOGETHER`):
the worker that looks for them settles which are there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise, product

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from weft.expr.evaluate import Functions, evaluate
from weft.expr.logic import nan_to_null
from weft.expr.model import Expr
from weft.host.envelope import Frame
from weft.host.weights import weight_of
from weft.kernels.cells import deal, hash_slots
from weft.kernels.codes import HIGHEST, Ints, destinations, equality_codes, group_codes
from weft.kernels.numbers import Numbers, parts_of, plain_numbers
from weft.query.model import COPY, TIME
from weft.topology.model import Edge
from weft.topology.spread import Axis, Cube, Heavy, Regions, Spread

TOGETHER = -1
"""The number of rows that must come together whatever columns a plan keeps."""


def along(edge: Edge, rows: Frame, functions: Functions, row: int) -> Iterator[tuple[int, Frame]]:
    """The rows that an edge brings to each worker.  `row` is the number of the first row."""
    if edge.spread is not None:
        return spread_rows(rows, edge.spread, functions, row)
    return route(rows, edge.route, edge.route_key, edge.tasks, functions, row)


def route(
    frame: Frame, kind: str, key: Sequence[Expr], workers: int, functions: Functions, row: int
) -> Iterator[tuple[int, Frame]]:
    """The frame by destination worker."""
    if workers == 1:
        yield 0, frame
    elif kind == "broadcast":
        for worker in range(workers):
            yield worker, frame
    else:
        yield from split(frame, _owners(frame, kind, key, workers, functions, row), workers)


def _owners(
    frame: Frame, kind: str, key: Sequence[Expr], workers: int, functions: Functions, row: int
) -> npt.NDArray[np.int32]:
    """The worker of each row: the owner of its key, or any one."""
    if kind != "key":
        return (number_rows(frame, row) % workers).astype(np.int32)
    codes = equality_codes([evaluate(expr, frame, functions) for expr in key])
    owners = destinations(codes.values, workers)
    if codes.valid is None:
        return owners
    # A NULL key equals nothing: a keyed probe never needs that row, a broadcast one finds it anywhere.
    return np.where(codes.valid, owners, (number_rows(frame, row) % workers).astype(np.int32))


def number_rows(frame: Frame, row: int) -> Ints:
    """A number for each row: counted from `row` on, or a code of its values if rows have weights."""
    if row == TOGETHER:
        return np.zeros(frame.num_rows, dtype=np.int64)
    if weight_of(frame) is None:
        return np.arange(frame.num_rows, dtype=np.int64) + row
    own = [frame.column(name) for name in frame.schema.names if not name.startswith("#") or name == TIME]
    return group_codes(own, frame.num_rows) & HIGHEST


def split(frame: Frame, dest: npt.NDArray[np.int32], workers: int) -> Iterator[tuple[int, Frame]]:
    """The frame's rows by destination; rows with a negative destination go nowhere."""
    order, ends = deal(dest, workers)
    yield from _cut(frame if frame.num_rows in np.diff(ends) else frame.take(pa.array(order)), ends)


def _cut(rows: Frame, ends: Ints) -> Iterator[tuple[int, Frame]]:
    """Rows by worker, from where those of each begin and end."""
    for worker, (begin, end) in enumerate(pairwise(ends.tolist())):
        if begin < end:
            yield worker, rows.slice(begin, end - begin)


def spread_rows(frame: Frame, spread: Spread, functions: Functions, row: int) -> Iterator[tuple[int, Frame]]:
    """The rows of each worker, copies included.  `row` is the number of the first row."""
    if isinstance(spread, Cube):
        yield from _deal(frame, *cube_places(frame, spread, functions, row), spread.workers)
    else:
        yield from _deal(frame, *region_places(frame, spread, functions, row), workers_of(spread))


def workers_of(regions: Regions) -> int:
    """How many workers ranges are dealt to."""
    return 1 + max((worker for found in regions.workers for worker in found), default=0)


def cube_places(frame: Frame, cube: Cube, functions: Functions, row: int) -> tuple[Ints, Ints]:
    """Row and worker of each copy, as two arrays.

    `home` is the worker in mixed radix: one digit per axis.  `digits` is the row's number, of which each random axis
    takes the lowest digit, so that consecutive rows visit every combination of random slots once.
    """
    rows = np.arange(frame.num_rows, dtype=np.int64)
    digits, home = number_rows(frame, row), np.zeros(frame.num_rows, dtype=np.int64)
    for position, axis in enumerate(cube.axes):
        home *= axis.size
        if axis.kind == "random":
            digits, digit = np.divmod(digits, axis.size)
            home += digit
        elif axis.kind == "copy":
            count = len(rows)
            rows, digits, home = (np.repeat(array, axis.size) for array in (rows, digits, home))
            home += np.tile(np.arange(axis.size), count)
        else:
            rows, digits, home = _move_by_hash(frame, axis, position, functions, rows, digits, home)
    return rows, home


def _move_by_hash(
    frame: Frame, axis: Axis, position: int, functions: Functions, rows: Ints, digits: Ints, home: Ints
) -> tuple[Ints, Ints, Ints]:
    """All copies so far, moved along a hash axis.  A row without a value equals nothing and may go anywhere."""
    assert axis.key is not None
    codes = equality_codes([evaluate(axis.key, frame, functions)])
    mine = codes.values[rows]
    slots = hash_slots(mine, axis.size, position, axis.domain)
    if codes.valid is not None:
        slots = np.where(codes.valid[rows], slots, digits % axis.size)
    if not axis.heavy:
        return rows, digits, home + slots
    light = ~np.isin(mine, [heavy.code for heavy in axis.heavy])
    done = [(rows[light], digits[light], (home + slots)[light])]
    for heavy in axis.heavy:
        at = mine == heavy.code
        done.append(_move_on_grid(axis, position, heavy, rows[at], digits[at], home[at]))
    return tuple(map(np.concatenate, zip(*done, strict=True)))  # type: ignore[return-value]


def _move_on_grid(
    axis: Axis, position: int, heavy: Heavy, rows: Ints, digits: Ints, home: Ints
) -> tuple[Ints, Ints, Ints]:
    """Rows of a heavy value: numbered along their own side, copied along the others, starting at the value's slot."""
    steps = [math.prod(heavy.sides[i + 1 :]) for i in range(len(heavy.sides))]
    rest, digit = np.divmod(digits, heavy.sides[heavy.own])
    others = [range(n) if i != heavy.own else range(1) for i, n in enumerate(heavy.sides)]
    offsets = np.array([sum(a * s for a, s in zip(cell, steps, strict=True)) for cell in product(*others)])
    start = hash_slots(np.array([heavy.code], dtype=np.int64), axis.size, position, axis.domain)[0]
    slots = (start + (digit * steps[heavy.own])[:, None] + offsets[None, :]) % axis.size
    copies = len(offsets)
    return np.repeat(rows, copies), np.repeat(rest, copies), (home[:, None] + slots).reshape(-1)


def _ranges(regions: Regions, values: Numbers, numbers: Ints) -> Ints:
    """The range of each row.  A value that is itself a cut is divided: the row's number decides which side it is on."""
    cuts = np.array([value for value, _ in regions.bounds], dtype=values.dtype)
    found = np.searchsorted(cuts, values, side="left")
    if not len(cuts):
        return found
    at = np.flatnonzero((found < len(cuts)) & (cuts[np.minimum(found, len(cuts) - 1)] == values))
    part = parts_of(numbers[at])
    for value in np.unique(cuts[found[at]]):
        mine = values[at] == value
        inside = np.array([share for cut, share in regions.bounds if cut == value])
        found[at[mine]] += np.searchsorted(inside, part[mine], side="right")
    return found


def region_places(frame: Frame, regions: Regions, functions: Functions, row: int) -> tuple[Ints, Ints]:
    """Row and worker of each copy.

    A row without a value is in no range, and a range may have no partner.  Such rows join nothing in this plan.  They
    go to any one worker: another plan may need them.
    """
    column = nan_to_null(evaluate(regions.key, frame, functions))
    rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    numbers = number_rows(frame, row)
    ranges = _ranges(regions, plain_numbers(column.drop_null()), numbers[rows])
    counts = np.array([len(workers) for workers in regions.workers])
    flat = np.array([worker for workers in regions.workers for worker in workers], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(counts)])[:-1]
    copies = counts[ranges]
    within = np.arange(copies.sum()) - np.repeat(np.cumsum(copies) - copies, copies)
    alone = np.setdiff1d(np.arange(frame.num_rows), rows[copies > 0])
    found = flat[np.repeat(starts[ranges], copies) + within]
    return np.concatenate([np.repeat(rows, copies), alone]), np.concatenate(
        [found, numbers[alone] % workers_of(regions)]
    )


def _deal(frame: Frame, rows: Ints, places: Ints, workers: int) -> Iterator[tuple[int, Frame]]:
    """The rows of every worker, in their order.  All copies of a row but the first are marked."""
    if np.any(rows[1:] < rows[:-1]):
        by_row = np.argsort(rows, kind="stable")
        rows, places = rows[by_row], places[by_row]
    order, ends = deal(places, workers)
    copied = np.concatenate([[False], rows[1:] == rows[:-1]])[: len(rows)]
    yield from _cut(frame.take(pa.array(rows[order])).append_column(COPY, pa.array(copied[order])), ends)
