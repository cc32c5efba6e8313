"""Rows to the workers of a spread, each row to all of its workers once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from weft.expr.evaluate import evaluate
from weft.host.batch import Functions
from weft.host.envelope import Frame
from weft.kernels.codes import Ints, destinations, equality_codes, order_codes
from weft.topology.spread import Axis, Cube, Regions, Spread


def spread_rows(frame: Frame, spread: Spread, functions: Functions, row: int) -> Iterator[tuple[int, Frame]]:
    """(Worker, rows).  `row` numbers the first row; numbers place rows on random axes, so they must be stable."""
    if isinstance(spread, Cube):
        yield from _cube(frame, spread, functions, row)
    else:
        yield from _regions(frame, spread, functions)


def _cube(frame: Frame, cube: Cube, functions: Functions, row: int) -> Iterator[tuple[int, Frame]]:
    home = np.zeros(frame.num_rows, dtype=np.int64)
    numbers = np.arange(row, row + frame.num_rows, dtype=np.int64)
    offsets, step = [0], 1
    for axis in cube.axes:
        if axis.kind == "copy":
            offsets = [offset + step * place for offset in offsets for place in range(axis.size)]
        elif axis.kind == "random":
            home += step * (numbers % axis.size)
            numbers //= axis.size
        else:
            home += step * _hashed(frame, axis, functions, numbers)
        step *= axis.size
    yield from _dealt(frame, [home + offset for offset in offsets], cube.workers)


def _hashed(frame: Frame, axis: Axis, functions: Functions, numbers: Ints) -> Ints:
    """Coordinates on a hash axis; a row without a value equals nothing and may be anywhere."""
    assert axis.key is not None
    codes = equality_codes([evaluate(axis.key, frame, functions)])
    places: Ints = destinations(codes.values, axis.size).astype(np.int64)
    return places if codes.valid is None else np.where(codes.valid, places, numbers % axis.size)


def _regions(frame: Frame, regions: Regions, functions: Functions) -> Iterator[tuple[int, Frame]]:
    codes = order_codes(evaluate(regions.key, frame, functions))
    ranges = np.searchsorted(np.array(regions.bounds, dtype=np.int64), codes.values, side="right")
    most = max(map(len, regions.workers), default=0)
    table = np.full((len(regions.workers), most), -1, dtype=np.int64)
    for i, workers in enumerate(regions.workers):
        table[i, : len(workers)] = workers
    found = table[ranges]
    if codes.valid is not None:
        found[~codes.valid] = -1
    yield from _dealt(frame, [found[:, i] for i in range(most)], int(table.max(initial=0)) + 1)


def _dealt(frame: Frame, places: Sequence[Ints], workers: int) -> Iterator[tuple[int, Frame]]:
    """The rows of every worker in their order; -1 is nowhere."""
    where = np.concatenate(places) if places else np.empty(0, dtype=np.int64)
    rows = np.tile(np.arange(frame.num_rows), len(places))
    order = np.argsort(where, kind="stable")
    starts = np.searchsorted(where[order], np.arange(workers + 1))
    for worker in range(workers):
        mine = rows[order[starts[worker] : starts[worker + 1]]]
        if len(mine):
            yield worker, frame.take(pa.array(mine))
