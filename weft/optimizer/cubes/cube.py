"""Hypercubes: machines are the cells of a grid, and every combination of joining tuples meets in exactly one cell.

    Hash-Hypercube     an axis for each join key; a tuple is hashed on the keys it has, copied along the others
    Random-Hypercube   an axis for each relation; a tuple is dealt along its own, copied along the others
    Hybrid-Hypercube   hash axes for keys without skew; every skewed occurrence of a key gets a random axis of its own
                       (Squall 3.1, 4)

An occurrence is (relation, attribute).  Attributes that equalities make equal form a class, and a class is an axis.  An
attribute that only other predicates mention is a class of its own.  Hybrid renames: skewed occurrences of z leave its
axis and become z', z'', and so on; what is left of z stays hashed.  The search then needs only to know which relation
owns which axis, so one search serves all three schemes.

What must hold: every axis has an owner, all owners of an axis put joining tuples at the same place on it, and a
relation is copied along the axes it does not own.  Hence exactly one cell sees all members of a result.

A machine's number is its coordinates in mixed radix, the first axis counting most, as in `weft.topology.spread`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from weft.errors import PlanError
from weft.kernels.numbers import Floats
from weft.optimizer.cubes.dimensions import best_dimensions, better_dimensions
from weft.optimizer.cubes.skew import EVEN, Skew, slots_of


class Occurrence(NamedTuple):
    """An attribute of a relation; None stands for a relation's rows as such."""

    relation: str
    attribute: str | None


Skews = Mapping[Occurrence, Skew]
"""What is known about occurrences; a missing one is even."""


@dataclass(frozen=True, slots=True)
class JoinKeys:
    """Relations with their sizes, and the classes of equal attributes between them."""

    sizes: tuple[tuple[str, float], ...]
    classes: tuple[tuple[str, tuple[Occurrence, ...]], ...]
    """(name, members); a class of one member is an attribute that only other predicates mention."""

    def __post_init__(self) -> None:
        names, labels = [name for name, _ in self.sizes], [label for label, _ in self.classes]
        if not names or len(set(names)) < len(names) or len(set(labels)) < len(labels):
            raise PlanError(f"relations and keys of a cube need different names: {', '.join(names + labels) or 'none'}")
        if wrong := [name for name, size in self.sizes if not (math.isfinite(size) and size >= 0)]:
            raise PlanError(
                f'size of "{wrong[0]}" is not a number >= 0',
                detail=f"the sizes are {self.sizes}.",
                hint="give the expected number of rows.",
            )
        members = [member for _, found in self.classes for member in found]
        if len(set(members)) < len(members) or not all(found for _, found in self.classes):
            raise PlanError("an attribute belongs to one class, and every class has one", detail=f"{self.classes}.")
        if unknown := [m.relation for m in members if m.relation not in names]:
            raise PlanError(f'no relation "{unknown[0]}"', detail=f"there are {', '.join(names)}.")

    @property
    def relations(self) -> tuple[str, ...]:
        """Names in query order."""
        return tuple(name for name, _ in self.sizes)

    @property
    def occurrences(self) -> tuple[Occurrence, ...]:
        """All members of all classes."""
        return tuple(member for _, members in self.classes for member in members)


@dataclass(frozen=True, slots=True)
class HeavyGrid:
    """A value too frequent for one slot: on its hash axis it has a grid of its own, a side for each owner."""

    code: int
    sides: tuple[tuple[str, int], ...]
    """(owner, length); rows of an owner are dealt along its side and copied along the others."""


@dataclass(frozen=True, slots=True)
class CubeAxis:
    """One dimension of a cube."""

    name: str
    kind: Literal["hash", "random"]
    size: int
    members: tuple[Occurrence, ...]
    """Who owns it; on a random axis one occurrence."""
    domain: tuple[int, ...] = ()
    """Codes of all values of a hash axis where they are known and few: they are dealt in turn instead of hashed."""
    heavy: tuple[HeavyGrid, ...] = ()
    """Values of a hash axis that are spread."""

    def key(self, relation: str) -> Occurrence | None:
        """The occurrence that places a relation on this axis; None if it is copied along it."""
        return next((member for member in self.members if member.relation == relation), None)


@dataclass(frozen=True, slots=True)
class Hypercube:
    """Where every tuple of a multi-way join goes."""

    sizes: tuple[tuple[str, float], ...]
    axes: tuple[CubeAxis, ...]
    """All axes of the scheme, those of length 1 included."""

    def __post_init__(self) -> None:
        if any(a.size < 1 or not a.members or (a.kind == "random" and len(a.members) > 1) for a in self.axes):
            raise PlanError("an axis has a length, and one owner if it is random", detail=f"{self.axes}.")
        for axis in self.axes:
            for heavy in axis.heavy:
                owners = {m.relation for m in axis.members}
                if {r for r, _ in heavy.sides} != owners or math.prod(n for _, n in heavy.sides) > axis.size:
                    raise PlanError(f'value {heavy.code} does not fit axis "{axis.name}"', detail=f"{heavy}.")

    @property
    def dims(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        return tuple(axis.size for axis in self.axes)

    @property
    def machines(self) -> int:
        """Cells of the grid."""
        return math.prod(self.dims)

    def owned_axes(self, relation: str) -> tuple[int, ...]:
        """Axes along which a relation is spread."""
        return tuple(i for i, axis in enumerate(self.axes) if axis.key(relation))

    def copied_axes(self, relation: str) -> tuple[int, ...]:
        """Axes along which a relation is copied."""
        return tuple(i for i, axis in enumerate(self.axes) if not axis.key(relation))

    def copies(self, relation: str) -> int:
        """How many machines see a tuple of a relation, unless its value is heavy."""
        return math.prod(self.dims[i] for i in self.copied_axes(relation))

    # ------------------------------------------------------------------------------------------- loads

    def cells(self, skews: Skews | None = None) -> Floats:
        """Tuples that each machine gets, by its coordinates: exact on random axes, by frequent values on hash axes."""
        found = np.zeros(self.dims)
        for name, size in self.sizes:
            part = np.full((1,) * len(self.axes), size)
            for i in (i for i in self.owned_axes(name) if self.axes[i].size > 1):
                shape = [-1 if i == k else 1 for k in range(len(self.axes))]
                part = part * self.slots(i, name, skews or {}).reshape(shape)
            found += part
        return found

    def slots(self, at: int, relation: str, skews: Skews) -> Floats:
        """The part of a relation's rows in each slot of one of its axes."""
        axis = self.axes[at]
        if axis.kind == "random":
            return np.full(axis.size, 1 / axis.size)
        position = sum(before.size > 1 for before in self.axes[:at])  # hosts do not have axes of length 1
        rest, light = skews.get(_key(axis, relation), EVEN).without(frozenset(h.code for h in axis.heavy))
        found = rest * light.slots(axis.size, position, axis.domain)
        for heavy, top in _heavy(axis, relation, skews):
            start, part = (
                int(slots_of((heavy.code,), axis.size, position, axis.domain)[0]),
                top / _side(heavy, relation),
            )
            for slot in range(start, start + _grid(heavy)):
                found[slot % axis.size] += part
        return found

    def load(self, skews: Skews | None = None) -> float:
        """L: tuples that the fullest machine gets."""
        return float(self.cells(skews).max())

    def sent(self, relation: str, skews: Skews | None = None) -> float:
        """Copies of the tuples of a relation, over all machines."""
        plain, extra = float(self.copies(relation)), 1.0
        for axis in (self.axes[i] for i in self.owned_axes(relation)):
            extra *= 1 + math.fsum(t * (_grid(h) / _side(h, relation) - 1) for h, t in _heavy(axis, relation, skews))
        return dict(self.sizes)[relation] * plain * extra

    def total(self, skews: Skews | None = None) -> float:
        """Tuples sent to all machines."""
        return math.fsum(self.sent(name, skews) for name, _ in self.sizes)

    def skew_degree(self, skews: Skews | None = None) -> float:
        """Ratio of the largest to the average load."""
        total = self.total(skews)
        return self.load(skews) * self.machines / total if total else 1.0


# ------------------------------------------------------------------------------------------------- schemes


def hash_cube(keys: JoinKeys, p: int, *, skews: Skews | None = None, weight: float = 0.0) -> Hypercube:
    """An axis for each class; a relation without keys is copied everywhere."""
    axes = [CubeAxis(name, "hash", 1, members) for name, members in keys.classes]
    return _fit_axes(keys, axes, p, skews, weight)


def random_cube(keys: JoinKeys, p: int, *, weight: float = 0.0) -> Hypercube:
    """An axis for each relation."""
    axes = [CubeAxis(name, "random", 1, (Occurrence(name, None),)) for name in keys.relations]
    return _fit_axes(keys, axes, p, None, weight)


def hybrid_cube(
    keys: JoinKeys,
    p: int,
    skewed: Iterable[Occurrence] = (),
    *,
    skews: Skews | None = None,
    exact: bool = False,
    weight: float = 0.0,
) -> Hypercube:
    """Hash axes, and a random one for each skewed occurrence and for each relation without keys."""
    return _fit_axes(keys, rename_skewed(keys, frozenset(skewed)), p, skews, weight, exact)


def rename_skewed(keys: JoinKeys, skewed: frozenset[Occurrence]) -> list[CubeAxis]:
    """The axes of the hybrid scheme: z for those without skew, then z', z'', ... (Squall 4)."""
    if unknown := sorted(skewed - set(keys.occurrences)):
        raise PlanError(
            f'"{unknown[0].relation}.{unknown[0].attribute}" is not a join key',
            detail=f"there are {', '.join(f'{o.relation}.{o.attribute}' for o in keys.occurrences) or 'none'}.",
            hint="only join keys can be dealt at random.",
        )
    axes = []
    for name, members in keys.classes:
        if even := tuple(member for member in members if member not in skewed):
            axes.append(CubeAxis(name, "hash", 1, even))
        for at, member in enumerate((m for m in members if m in skewed), 1):
            axes.append(CubeAxis(name + "'" * at, "random", 1, (member,)))
    keyed = {member.relation for member in keys.occurrences}
    axes += [CubeAxis(name, "random", 1, (Occurrence(name, None),)) for name in keys.relations if name not in keyed]
    return axes


def better_hybrid(
    keys: JoinKeys, p: int, skewed: Iterable[Occurrence], *, skews: Skews, below: float, weight: float = 0.0
) -> Hypercube | None:
    """The hybrid cube if its load plus weighted average load is below a limit, else None."""
    axes = rename_skewed(keys, frozenset(skewed))
    owned, shares = _find_owners(keys, axes, p, skews)
    sizes = [size for _, size in keys.sizes]
    dims = better_dimensions(sizes, owned, len(axes), p, below=below, shares=shares, weight=weight)
    return None if dims is None else _resize(keys, axes, dims)


def _fit_axes(
    keys: JoinKeys, axes: list[CubeAxis], p: int, skews: Skews | None, weight: float, exact: bool = False
) -> Hypercube:
    owned, shares = _find_owners(keys, axes, p, skews or {})
    sizes = [size for _, size in keys.sizes]
    return _resize(keys, axes, best_dimensions(sizes, owned, len(axes), p, shares=shares, exact=exact, weight=weight))


def _find_owners(
    keys: JoinKeys, axes: list[CubeAxis], p: int, skews: Skews
) -> tuple[list[tuple[int, ...]], dict[tuple[int, int], Floats]]:
    """Who owns which axes, and how unevenly; by position."""
    cube = Hypercube(keys.sizes, tuple(axes))
    owned = [cube.owned_axes(name) for name in keys.relations]
    shares = {}
    for i, name in enumerate(keys.relations):
        for a in owned[i]:
            skew = skews.get(_key(axes[a], name), EVEN)
            if axes[a].kind == "hash" and skew.share(2) > 0.5:
                shares[i, a] = skew.table(p)
    return owned, shares


def _resize(keys: JoinKeys, axes: list[CubeAxis], dims: Sequence[int]) -> Hypercube:
    return Hypercube(keys.sizes, tuple(replace(axis, size=n) for axis, n in zip(axes, dims, strict=True)))


# ------------------------------------------------------------------------------------------------- helpers


def _key(axis: CubeAxis, relation: str) -> Occurrence:
    return axis.key(relation) or Occurrence(relation, None)


def _heavy(axis: CubeAxis, relation: str, skews: Skews | None) -> list[tuple[HeavyGrid, float]]:
    """Heavy values of an axis with their share in a relation."""
    skew = (skews or {}).get(_key(axis, relation), EVEN)
    shares = dict(zip(skew.codes or (), skew.tops, strict=False))
    return [(heavy, shares.get(heavy.code, 0.0)) for heavy in axis.heavy]


def _side(heavy: HeavyGrid, relation: str) -> int:
    return dict(heavy.sides)[relation]


def _grid(heavy: HeavyGrid) -> int:
    return math.prod(n for _, n in heavy.sides)
