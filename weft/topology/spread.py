"""Spreads: rows that go to several workers at once, so that everything that joins meets on one of them.

    Cube      workers form a cube.  A row has a coordinate on each axis that its stream owns, by the hash of a value or
              at random, and is copied along all other axes.  Every combination meets on exactly one worker if every
              axis has an owner, and the owners of a hash axis are joined by equality of its values.
    Regions   two streams are cut into ranges of an ordered value.  The pairs of ranges that can hold matches are dealt
              to workers as rectangles; a row goes to every rectangle over its range.

A spread takes the place of a store's placement, and all probes are local.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from weft.expr.model import Expr

AxisKind = Literal["hash", "random", "copy"]
"""Where rows go along an axis: to the slot of a hash, to a random slot, to every slot."""


@dataclass(frozen=True, slots=True)
class Heavy:
    """A value too frequent for one slot of a hash axis: it has a grid of slots of its own, a side for each owner."""

    code: int
    """Equality code of the value."""
    sides: tuple[int, ...]
    """Lengths of the sides, one per owner of the axis."""
    own: int
    """Which side is this stream's: rows are dealt along it and copied along the others."""


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of the cube, as the rows of one stream see it."""

    size: int
    kind: AxisKind
    key: Expr | None = None
    """For kind "hash"."""
    domain: tuple[int, ...] = ()
    """Codes of all values, where they are known and few: they are dealt in turn instead of hashed."""
    heavy: tuple[Heavy, ...] = ()


@dataclass(frozen=True, slots=True)
class Cube:
    """Where rows go: a worker's number is its coordinates in mixed radix, the first axis counting most."""

    axes: tuple[Axis, ...]

    @property
    def workers(self) -> int:
        """How many workers the cube has."""
        return math.prod(axis.size for axis in self.axes)

    @property
    def keys(self) -> tuple[Expr, ...]:
        """The values that decide where rows go."""
        return tuple(axis.key for axis in self.axes if axis.key is not None)

    @property
    def copies(self) -> int:
        """To how many workers each row goes."""
        return math.prod(axis.size for axis in self.axes if axis.kind == "copy")


@dataclass(frozen=True, slots=True)
class Regions:
    """Where rows go: by the range their value lies in."""

    key: Expr
    bounds: tuple[tuple[float, float], ...]
    """(Value, part) where a new range begins, in order.  Part 0 cuts before the value; above 0 it cuts the value
    itself: rows of that value whose part is smaller lie before the cut.  Times are whole microseconds."""
    workers: tuple[tuple[int, ...], ...]
    """Range -> the workers that must see its rows; one entry more than bounds."""

    @property
    def keys(self) -> tuple[Expr, ...]:
        """The values that decide where rows go."""
        return (self.key,)


Spread = Cube | Regions


def with_keys(spread: Spread, change: Callable[[Expr], Expr]) -> Spread:
    """The spread with other expressions for its keys."""
    if isinstance(spread, Regions):
        return replace(spread, key=change(spread.key))
    return Cube(tuple(axis if axis.key is None else replace(axis, key=change(axis.key)) for axis in spread.axes))
