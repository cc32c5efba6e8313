"""Schemes for joins of two relations, as cubes.

    hash        one axis, the key: no copies, and all rows of a key on one machine
    1-Bucket    a matrix, each relation dealt along one side and copied along the other: any predicate, any skew
    ContRand    the key is hashed to a group of machines, and inside the group rows are dealt as in 1-Bucket (BiStream);
                one group is 1-Bucket, groups of one machine are hash

Range schemes for band and inequality joins are in `weft.optimizer.ranges.route`.

BiStream itself keeps a row on one machine of its own relation and shows it to all machines of the other: p/2 of them
with random placement, where 1-Bucket of equal relations sends to sqrt(p) (Squall 8).
"""

from __future__ import annotations

from dataclasses import replace

from weft.errors import PlanError
from weft.optimizer.cubes.cube import CubeAxis, Hypercube, JoinKeys, Occurrence, Skews
from weft.optimizer.cubes.dimensions import best_dimensions
from weft.optimizer.cubes.skew import EVEN


def cont_rand(keys: JoinKeys, p: int, *, groups: int | None = None, skews: Skews | None = None) -> Hypercube:
    """Groups by the first key, a matrix in each; without `groups`, as many as give the least load under the skew."""
    left, right = _two(keys)
    if not keys.classes:
        raise PlanError("no equality to hash by", hint='use "two-way:1-bucket", which joins by any predicate.')
    name, members = keys.classes[0]
    axes = [
        CubeAxis(name, "hash", 1, members),
        CubeAxis(f"{left} in group", "random", 1, (Occurrence(left, None),)),
        CubeAxis(f"{right} in group", "random", 1, (Occurrence(right, None),)),
    ]
    sizes = [size for _, size in keys.sizes]
    if groups is not None:
        dims = (groups, *best_dimensions(sizes, [[0], [1]], 2, p // groups))
    else:
        tables = {}
        for i, relation in enumerate((left, right)):
            skew = (skews or {}).get(axes[0].key(relation) or Occurrence(relation, None), EVEN)
            tables[i, 0] = skew.table(p)
        dims = best_dimensions(sizes, [[0, 1], [0, 2]], 3, p, shares=tables)
    return Hypercube(keys.sizes, tuple(replace(axis, size=n) for axis, n in zip(axes, dims, strict=True)))


def _two(keys: JoinKeys) -> tuple[str, str]:
    if len(keys.sizes) != 2:
        raise PlanError(f"a two-way scheme for {len(keys.sizes)} relations", hint="a hypercube joins any number.")
    return keys.relations[0], keys.relations[1]
