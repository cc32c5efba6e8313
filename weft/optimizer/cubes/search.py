"""Which keys are skewed, and which cube suits them.

A key is skewed where hashing it makes the fullest machine fuller than dealing its rows in turn would, even though
dealing makes more copies of the other relations.  That is not a property of the key alone, so the search is run both
ways (Squall 3.4, K-26).  Two cases need no run: a unique key is never skewed, and what the user says holds.  Fewer than
four values for each slot count as skew, unless the values are known and dealt in turn.

Heavy values may be parted from the rest of their key: rows of a heavy value fill a grid over the slots of the axis,
dealt along one side and copied along the others, while light values are hashed.  Compared with renaming the key, only
rows of heavy values are copied.  The heaviest values are taken, as many as give the least load.  Adding one at a time
for as long as that helps was rejected, because it stops at two equally heavy ones.

Where all values of a key are known and few, they may be dealt to the slots in turn.  Then the slots differ by at most
one value, and having few values is not skew.  Values that appear later are hashed.

Candidates are compared by the load of the fullest machine, plus `weight` times the average load, which stands for what
is sent (K-25).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from weft.optimizer.cubes.cube import (
    CubeAxis,
    HeavyGrid,
    Hypercube,
    JoinKeys,
    Occurrence,
    Skews,
    better_hybrid,
    hash_cube,
    hybrid_cube,
    random_cube,
)
from weft.optimizer.cubes.dimensions import NEAR, best_dimensions
from weft.optimizer.cubes.skew import EVEN

MOST_HEAVY = 64
"""Heavy values of an axis that are considered; every one costs a comparison for each row."""
GAIN = 0.01
"""By how much the largest load must fall for values to be parted or dealt; a smaller gain is within sampling error."""


@dataclass(frozen=True, slots=True)
class WeighedCube:
    """A cube that was considered."""

    scheme: str
    """hash, random, hybrid, or one of them with parted heavy values."""
    cube: Hypercube
    load: float
    """Of the fullest machine."""
    total: float
    """Tuples sent."""
    skewed: frozenset[Occurrence] = frozenset()
    """What was dealt instead of hashed."""

    def score(self, p: int, weight: float) -> float:
        """What is minimised."""
        return self.load + weight * self.total / p


def choose_cube(
    keys: JoinKeys, p: int, skews: Skews | None = None, *, weight: float = 0.0, part: bool = True
) -> tuple[WeighedCube, ...]:
    """All candidates, the best first; of equal ones the plainer."""
    known = skews or {}
    everything = frozenset(keys.occurrences)
    cubes: list[_Named] = [*_hash_cubes(keys, p, known, weight)]
    cubes.append(("random", random_cube(keys, p, weight=weight), everything))
    dealt = _deal_known(known)
    if dealt != known:
        found = [
            (name, deal_values(cube, known), without) for name, cube, without in _hash_cubes(keys, p, dealt, weight)
        ]
        cubes += [(f"{name}, values dealt", c, w) for name, c, w in found if any(a.domain for a in c.axes)]
    if part:
        # Without its heavy values an axis may be worth more slots than with them.
        even = ("hash", hash_cube(keys, p, weight=weight), frozenset[Occurrence]())
        parted = [(name, part_heavy(cube, known), without) for name, cube, without in _drop_equal([*cubes, even])]
        cubes += [(f"{name}, heavy values parted", c, w) for name, c, w in parted if any(a.heavy for a in c.axes)]
    obedient = [(name, cube, without) for name, cube, without in cubes if not _hashes_skewed(cube, known)]
    found_ = [WeighedCube(name, cube, cube.load(known), cube.total(known), without) for name, cube, without in obedient]
    return tuple(sorted(found_, key=lambda c: float(f"{c.score(p, weight):.11e}")))


def hash_scheme(keys: JoinKeys, p: int, skews: Skews) -> Hypercube:
    """The hash cube; values of small known domains are dealt in turn where that is more even (D30)."""
    plain, dealt = hash_cube(keys, p, skews=skews), hash_cube(keys, p, skews=_deal_known(skews))
    return min(plain, deal_values(plain, skews), deal_values(dealt, skews), key=lambda cube: cube.load(skews))


_Named = tuple[str, Hypercube, frozenset[Occurrence]]
"""Scheme, cube, and what it deals at random."""


def _drop_equal(cubes: list[_Named]) -> list[_Named]:
    """Every cube once, under its plainer name: schemes often find the same cube."""
    found: dict[tuple[CubeAxis, ...], _Named] = {}
    for named in cubes:
        found.setdefault(tuple(axis for axis in named[1].axes if axis.size > 1), named)
    return [*found.values()]


def _hash_cubes(keys: JoinKeys, p: int, skews: Skews, weight: float) -> list[_Named]:
    skewed = find_skewed(keys, p, skews, weight=weight)
    return [
        ("hash", hash_cube(keys, p, skews=skews, weight=weight), frozenset()),
        ("hybrid", hybrid_cube(keys, p, skewed, skews=skews, weight=weight), skewed),
    ]


def _hashes_skewed(cube: Hypercube, skews: Skews) -> bool:
    """Whether the cube hashes a key that the user says is skewed; a random cube never does."""
    members = [m for axis in cube.axes if axis.kind == "hash" and axis.size > 1 for m in axis.members]
    return any(skews.get(m, EVEN).skewed and not skews.get(m, EVEN).unique for m in members)


# ---------------------------------------------------------------------------------------- what is skewed


def find_skewed(keys: JoinKeys, p: int, skews: Skews, *, weight: float = 0.0) -> frozenset[Occurrence]:
    """Occurrences that are better dealt than hashed: each is tried both ways, the most frequent values first."""
    skewed = {o for o in keys.occurrences if skews.get(o, EVEN).skewed and not skews.get(o, EVEN).unique}
    order = sorted(keys.occurrences, key=lambda o: -skews.get(o, EVEN).share(p))
    open_ = [o for o in order if skews.get(o, EVEN).skewed is None and skews.get(o, EVEN).share(p) > 1 / p]
    best = _score(hybrid_cube(keys, p, skewed, skews=skews, weight=weight), p, skews, weight)
    for group in (*([o] for o in open_), *_classes(keys, open_)):
        tried = skewed | set(group)
        better = better_hybrid(keys, p, tried, skews=skews, below=best, weight=weight)
        score = best if better is None else _score(better, p, skews, weight)
        if score < best * (1 - NEAR):
            skewed, best = tried, score
    return frozenset(skewed | _too_few(keys, p, skewed, skews, weight))


def _score(cube: Hypercube, p: int, skews: Skews, weight: float) -> float:
    return cube.load(skews) + weight * cube.total(skews) / p


def _classes(keys: JoinKeys, open_: list[Occurrence]) -> list[list[Occurrence]]:
    """All open members of a class together: dealing one side of a join only pays if the other is dealt too."""
    return [found for _, members in keys.classes if len(found := [m for m in members if m in open_]) > 1]


def _too_few(keys: JoinKeys, p: int, skewed: set[Occurrence], skews: Skews, weight: float) -> set[Occurrence]:
    """Occurrences with too few values for the axis they are left on, until there is none."""
    more: set[Occurrence] = set()
    while True:
        cube = hybrid_cube(keys, p, skewed | more, skews=skews, weight=weight)
        on_hash = [(m, axis.size) for axis in cube.axes if axis.kind == "hash" and axis.size > 1 for m in axis.members]
        few = {m for m, n in on_hash if skews.get(m, EVEN).skewed is None and skews.get(m, EVEN).is_skewed_over(n)}
        if not few:
            return more
        more |= few


# ------------------------------------------------------------------------------------- heavy and dealt values


def part_heavy(cube: Hypercube, skews: Skews) -> Hypercube:
    """The cube with heavy values spread, where that lowers the load of the fullest machine."""
    for at, axis in enumerate(cube.axes):
        if axis.kind == "hash" and axis.size > 1:
            loads = {h: _replace_axis(cube, at, replace(axis, heavy=h)).load(skews) for h in _prefixes(cube, at, skews)}
            least = min(loads.values(), default=math.inf)
            if least < cube.load(skews) * (1 - GAIN):
                fewest = next(heavy for heavy, load in loads.items() if load <= least * (1 + GAIN))
                cube = _replace_axis(cube, at, replace(axis, heavy=fewest))
    return cube


def deal_values(cube: Hypercube, skews: Skews) -> Hypercube:
    """The cube with values of small known domains dealt in turn where that makes the fullest machine less full.

    A domain is what any owner of the axis is known to have; other values stay hashed (Squall 5, D30).
    """
    for at, axis in enumerate(cube.axes):
        known = [skews[m].codes or () for m in axis.members if skews.get(m, EVEN).is_complete]
        if axis.kind == "hash" and axis.size > 1 and known:
            domain = tuple(sorted({code for codes in known for code in codes}))
            dealt = _replace_axis(cube, at, replace(axis, domain=domain))
            cube = dealt if dealt.load(skews) < cube.load(skews) * (1 - GAIN) else cube
    return cube


def _deal_known(skews: Skews) -> Skews:
    """The same keys, with values dealt in turn wherever all of them are known."""
    return {o: replace(skew, dealt=True) if skew.is_complete else skew for o, skew in skews.items()}


def _prefixes(cube: Hypercube, at: int, skews: Skews) -> list[tuple[HeavyGrid, ...]]:
    """The heaviest value, the two heaviest, and so on, each with its best grid; of many, every fourth number."""
    axis, sizes = cube.axes[at], dict(cube.sizes)
    owners = list(dict.fromkeys(member.relation for member in axis.members))
    weights: dict[int, list[float]] = {}
    for i, owner in enumerate(owners):
        member = axis.key(owner)
        skew = EVEN if member is None else skews.get(member, EVEN)
        others = [float(cube.slots(k, owner, skews).max()) for k in cube.owned_axes(owner) if k != at]
        elsewhere = sizes[owner] * math.prod(others)
        for code, top in zip(skew.codes or (), skew.tops, strict=False):
            weights.setdefault(code, [0.0] * len(owners))[i] = elsewhere * top
    heavy = []
    for code in sorted(weights, key=lambda c: (-math.fsum(weights[c]), c))[:MOST_HEAVY]:
        sides = best_dimensions(weights[code], [[i] for i in range(len(owners))], len(owners), axis.size)
        heavy.append(HeavyGrid(code, tuple(zip(owners, sides, strict=True))))
    return [tuple(heavy[:n]) for n in range(1, len(heavy) + 1) if n <= 8 or n % 4 == 0 or n == len(heavy)]


def _replace_axis(cube: Hypercube, at: int, axis: CubeAxis) -> Hypercube:
    return replace(cube, axes=(*cube.axes[:at], axis, *cube.axes[at + 1 :]))
