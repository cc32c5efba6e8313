"""Where rows go under a cube or a range partition of the optimizer, routed by the host; nothing is joined."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from weft.expr.model import Column
from weft.host.routing import cube_places, region_places
from weft.kernels.codes import Ints
from weft.optimizer.cubes.cube import Hypercube
from weft.optimizer.cubes.plan import project
from weft.optimizer.ranges.grid import Values
from weft.optimizer.ranges.regions import regions_of
from weft.optimizer.ranges.route import RangeTable

Columns = Mapping[str, Ints]
"""Attribute -> values; those that a cube does not hash by may be missing."""


def cube_route(cube: Hypercube, relation: str, columns: Columns, rows: int, first: int = 0) -> tuple[Ints, Ints]:
    """Rows and machines, a pair for each copy; `first` is the number of the first row."""
    keys = {m: Column("", str(m.attribute), pa.int64()) for axis in cube.axes for m in axis.members}
    names = [*columns] or [""]
    frame = pa.RecordBatch.from_arrays([pa.array(columns.get(name, np.zeros(rows, np.int64))) for name in names], names)
    return cube_places(frame, project(cube, relation, keys), {}, first)


def range_route(side: RangeTable, values: Values, first: int = 0) -> tuple[Ints, Ints]:
    """Rows and workers of one side of a range partition, a pair for each copy."""
    array = pa.array(values)
    frame = pa.RecordBatch.from_arrays([array], ["value"])
    return region_places(frame, regions_of(Column("", "value", array.type), side), {}, first)


def loads(cube: Hypercube, relation: str, columns: Columns, rows: int, first: int = 0) -> Ints:
    """Rows of a relation that each machine gets."""
    return np.bincount(cube_route(cube, relation, columns, rows, first)[1], minlength=cube.machines)
