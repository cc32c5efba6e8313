"""Which machines of a cube see a row: arrays in, arrays out.

    hash axis     the slot of the key's code; every axis salts it, so that equal values on two axes part ways
    random axis   dealt by the row's id: consecutive ids fill the slots in turn, exactly (K-21).  A relation with
                  several random axes takes one digit of the id for each, so its cells are filled in turn as well.

A row's place is a function of its key codes and its id alone: computed again, anywhere, it is the same.  Ids have to be
stable for that.  Dealing in turn keeps every stretch of the stream even; its price is that a value which comes with
every n-th row stays in one slot of n.

The first axis has no salt: a cube of one axis routes as any store that is placed by a key.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product

import numpy as np
import numpy.typing as npt

from weft.errors import PlanError
from weft.kernels.cells import hash_slots
from weft.kernels.codes import Ints
from weft.optimizer.cube import Axis, Cube, Heavy

Machines = npt.NDArray[np.int32]

NOBODY = -1
"""Fills the row of a machine array where a row has fewer copies than others."""


def route(cube: Cube, relation: str, keys: Mapping[str, Ints], ids: Ints) -> Machines:
    """The machines of each row: one line for each row, a column for each copy.

    `keys` has the equality codes of the attributes by which the cube hashes the relation.  Only where some values are
    heavy do lines differ in length; they are filled up with NOBODY.
    """
    if relation not in dict(cube.sizes):
        raise PlanError(f'no relation "{relation}"', detail=f"the cube has {', '.join(n for n, _ in cube.sizes)}.")
    groups = _groups(cube, relation, keys, len(ids))
    parts = [(rows, _group(cube, relation, keys, ids, rows, heavy)) for rows, heavy in groups]
    out = np.full((len(ids), max([part.shape[1] for _, part in parts], default=0)), NOBODY, dtype=np.int32)
    for rows, part in parts:
        out[rows, : part.shape[1]] = part
    return out


def axis_slots(axis: Axis, position: int, codes: Ints) -> Machines:
    """The slot of each code on a hash axis."""
    return hash_slots(codes, axis.size, position, axis.domain).astype(np.int32)


def loads(cube: Cube, routed: Mapping[str, Machines]) -> Ints:
    """Rows that each machine gets."""
    counts = [np.bincount(m[m != NOBODY], minlength=cube.machines) for m in routed.values()]
    return np.sum(counts, axis=0, dtype=np.int64) if counts else np.zeros(cube.machines, dtype=np.int64)


# ------------------------------------------------------------------------------------------------- one group

_Choice = tuple[Heavy | None, ...]
"""For each axis the heavy value of the rows, if theirs is."""


def _groups(cube: Cube, relation: str, keys: Mapping[str, Ints], n: int) -> list[tuple[Ints, _Choice]]:
    """Rows by the heavy values they carry; all others are one group."""
    which = np.zeros(n, dtype=np.int64)
    choices: list[list[Heavy | None]] = []
    for axis in cube.axes:
        heavy: list[Heavy | None] = [None, *axis.heavy] if axis.kind == "hash" and axis.key(relation) else [None]
        choices.append(heavy)
        which *= len(heavy)
        for at, value in enumerate(heavy):
            if value is not None:
                which[_codes(axis, relation, keys) == value.code] += at
    if max(map(len, choices), default=1) == 1:
        return [(np.arange(n), (None,) * len(cube.axes))]
    found = [(np.flatnonzero(which == g), choice) for g, choice in enumerate(product(*choices))]
    return [(rows, choice) for rows, choice in found if len(rows)]


def _group(cube: Cube, relation: str, keys: Mapping[str, Ints], ids: Ints, rows: Ints, heavy: _Choice) -> Machines:
    """Machines of rows with the same heavy values; all have equally many."""
    at = np.zeros((len(rows), 1), dtype=np.int64)
    digits = ids[rows]
    for position, axis, value in zip(_positions(cube), cube.axes, heavy, strict=True):
        if not axis.key(relation):
            slots = np.arange(axis.size, dtype=np.int64)[None, :]
        elif axis.kind == "random":
            digits, slots = _deal(digits, axis.size)
        elif value is None:
            slots = axis_slots(axis, position, _codes(axis, relation, keys)[rows])[:, None].astype(np.int64)
        else:
            digits, slots = _on_grid(axis, position, value, relation, digits)
        at = (at[:, :, None] * axis.size + slots[:, None, :]).reshape(len(rows), -1)
    return at.astype(np.int32)


def _positions(cube: Cube) -> list[int]:
    """Numbers that salt the axes; those of length 1 do not count, as a topology does not have them."""
    return [sum(axis.size > 1 for axis in cube.axes[:at]) for at in range(len(cube.axes))]


def _deal(digits: Ints, n: int) -> tuple[Ints, Ints]:
    """The lowest digit in base n, and what is left for further axes."""
    rest, digit = np.divmod(digits, n)
    return rest, digit[:, None]


def _on_grid(axis: Axis, position: int, value: Heavy, relation: str, digits: Ints) -> tuple[Ints, Ints]:
    """Slots of a heavy value's rows: dealt along their own side, copied along the others, from the value's slot on."""
    sides = dict(value.sides)
    own = list(sides).index(relation)
    rest, digit = _deal(digits, sides[relation])
    lengths = list(sides.values())
    steps = [math.prod(lengths[i + 1 :]) for i in range(len(lengths))]
    others = product(*(range(n) for i, n in enumerate(lengths) if i != own))
    offsets = [sum(a * s for a, s in zip(cell, steps[:own] + steps[own + 1 :], strict=True)) for cell in others]
    start = int(axis_slots(axis, position, np.array([value.code], dtype=np.int64))[0])
    slots = (start + digit * steps[own] + np.array(offsets, dtype=np.int64)[None, :]) % axis.size
    return rest, slots


def _codes(axis: Axis, relation: str, keys: Mapping[str, Ints]) -> Ints:
    member = axis.key(relation)
    if member is None or member.attribute is None or member.attribute not in keys:
        raise PlanError(
            f'codes of "{relation}.{member and member.attribute}" are missing',
            detail=f'the cube hashes "{relation}" on it along axis "{axis.name}".',
        )
    return keys[member.attribute]
