"""How long the axes of a hypercube are: whole numbers whose product is at most p, for the least largest load.

    L = sum_i abs(R_i) * prod_{j in axes(R_i)} share_ij(p_j)      share = 1/p_j where keys are even (Squall 4)

The search is branch and bound over the lengths, one axis after the other.  It needs a lower bound on the load that any
lengths of the axes still open can reach:

    1. Every share falls as its axis grows, and is never below 1/p_j.  So there is a floor c, the largest number with
       share(n) >= c + (1 - c)/n  for all n.  A product of shares is at least  prod c + (1 - prod c) * prod 1/n.
    2. Without the floors the load is a sum of terms w/n, n being the product of the open axes of a relation.  Terms
       without a common axis have to share the machines that are left.  The least sum of such terms over real n is found
       as water fills vessels: the largest terms are brought down to one level (`_fill_vessels`).

With this bound the search looks at hundreds of vectors out of hundreds of thousands.  Where there are only a few dozen,
it looks at all of them, since bounds would cost more than they save.
Real-valued optima were rejected, because rounding them loses machines (7 over 3 axes would be 1 x 1 x 1).

Of equal loads the one wins that sends less in total; then fewer machines, smaller largest axis, and order (K-24).  With
`exact` the product is p and the smaller largest axis comes first, as in Squall's code.  That code also divides in whole
numbers, so that its answer depends on the unit of sizes; this is not copied here.

If all owners of an axis also own another axis, with more owners, and their keys are even there, then the first axis
stays 1: machines given to the other axis serve more relations.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from weft.errors import PlanError
from weft.kernels.numbers import Floats

Shares = Mapping[tuple[int, int], Floats]
"""(relation, axis) -> table: entry n is the share of the fullest of n slots.  A missing one is even: 1/n."""

_FEW = 64
"""Up to this many vectors, all of them are looked at."""
_STEP = 1.5
"""Ratio of the ends of the intervals into which a bound cuts the number of machines used."""

NEAR = 1e-12
"""Loads that differ by less than this share are equal: the same sum in another order."""


def best_dimensions(
    sizes: Sequence[float],
    owned: Sequence[Sequence[int]],
    axes: int,
    p: int,
    *,
    shares: Shares | None = None,
    exact: bool = False,
    weight: float = 0.0,
) -> tuple[int, ...]:
    """The lengths of `axes` axes over at most p machines; relation i is spread along the axes `owned[i]`.

    `weight` adds so many times the average load, which is what is sent divided by p.
    """
    if p < 1:
        raise PlanError(f"a cube over {p} machines", hint="use at least one machine.")
    search = _Search(tuple(sizes), tuple(map(tuple, owned)), axes, p, shares or {}, exact, weight)
    search.run()
    return search.best


def better_dimensions(
    sizes: Sequence[float],
    owned: Sequence[Sequence[int]],
    axes: int,
    p: int,
    *,
    below: float,
    shares: Shares | None = None,
    weight: float = 0.0,
) -> tuple[int, ...] | None:
    """As `best_dimensions`, but None if no load (plus weighted average load) is below a limit; that is found fast."""
    search = _Search(tuple(sizes), tuple(map(tuple, owned)), axes, p, shares or {}, False, weight)
    search.limit(below)
    search.run()
    return search.best or None


def load(sizes: Sequence[float], owned: Sequence[Sequence[int]], dims: Sequence[int], shares: Shares) -> float:
    """L: what comes to the fullest machine."""
    return math.fsum(
        size * math.prod(float(shares[i, a][dims[a]]) if (i, a) in shares else 1 / dims[a] for a in mine)
        for i, (size, mine) in enumerate(zip(sizes, owned, strict=True))
    )


def total_sent(sizes: Sequence[float], owned: Sequence[Sequence[int]], dims: Sequence[int]) -> float:
    """Tuples over all machines: a relation is copied along every axis it does not own."""
    machines = math.prod(dims)
    return math.fsum(
        size * (machines // math.prod(dims[a] for a in mine)) for size, mine in zip(sizes, owned, strict=True)
    )


@dataclass(slots=True)
class _Search:
    sizes: tuple[float, ...]
    owned: tuple[tuple[int, ...], ...]
    axes: int
    p: int
    shares: Shares
    exact: bool
    weight: float
    best: tuple[int, ...] = ()
    _score: tuple[float, ...] = (math.inf,)
    _owners: tuple[frozenset[int], ...] = ()
    _order: tuple[int, ...] = ()
    _after: dict[int, int] = field(default_factory=dict)
    """Axis -> an interchangeable one that must not be longer."""
    _floors: list[tuple[float, ...]] = field(default_factory=list)
    _apart: list[frozenset[int]] = field(default_factory=list)

    def limit(self, below: float) -> None:
        """Look only for scores below this."""
        self._score = (below * (1 - 2 * NEAR),)

    def run(self) -> None:
        self._owners = tuple(frozenset(i for i, mine in enumerate(self.owned) if a in mine) for a in range(self.axes))
        useful = [a for a in range(self.axes) if not self._is_dominated(a)]
        few = [] if self.exact else [*islice(_vectors(self.axes, useful, self.p), _FEW + 1)]
        if few and len(few) <= _FEW:
            for dims in few:
                self._offer(dims)
        else:
            self._search(useful)

    def _search(self, useful: Sequence[int]) -> None:
        """Branch and bound over the axes that are not dominated by another."""
        # Axes of the largest relations first: they get long, so few machines are left for the others, and bounds are
        # tight early.
        weights = [math.fsum(self.sizes[i] for i in self._owners[a]) for a in range(self.axes)]
        self._order = tuple(sorted(useful, key=lambda a: (-weights[a], a)))
        self._after = self._find_interchangeable()
        for depth in range(len(self._order) + 1):
            rest = set(self._order[depth:])
            self._floors.append(tuple(self._floor(i, rest) for i in range(len(self.sizes))))
            self._apart.append(self._pick_disjoint(rest))
        if not self.exact:
            self._climb()
        self._descend(0, [1] * self.axes, self.p, list(self.sizes))

    # ------------------------------------------------------------------------------------ which is better

    def _offer(self, dims: Sequence[int]) -> None:
        spread = load(self.sizes, self.owned, dims, self.shares)
        sent = total_sent(self.sizes, self.owned, dims)
        rest: tuple[float, ...] = (sent, math.prod(dims), max(dims, default=1))
        rest = (rest[2], rest[0], rest[1]) if self.exact else rest
        score = (spread + self.weight * sent / self.p, *rest, *dims)
        if _is_less(score, self._score):
            self.best, self._score = tuple(dims), score

    def _is_hopeless(self, bound: float, dims: Sequence[int]) -> bool:
        """Whether nothing below this node can win: by load, or at equal load by what is already sent."""
        if bound > self._score[0] * (1 + NEAR):
            return True
        if self.exact or not self.best or bound < self._score[0] * (1 - NEAR):
            return False
        return total_sent(self.sizes, self.owned, dims) > self._score[1] * (1 + NEAR)

    # ----------------------------------------------------------------------------------------- the search

    def _descend(self, depth: int, dims: list[int], left: int, loads: list[float]) -> None:
        if depth == len(self._order):
            if not self.exact or left == 1:
                self._offer(dims)
            return
        axis = self._order[depth]
        for n in self._lengths(depth, dims, left, loads):
            dims[axis] = n
            inner = self._lengthen(loads, axis, n)
            if not self._is_hopeless(self._bound(depth + 1, left // n, inner, dims), dims):
                self._descend(depth + 1, dims, left // n, inner)
        dims[axis] = 1

    def _lengths(self, depth: int, dims: Sequence[int], left: int, loads: Sequence[float]) -> Iterator[int]:
        axis, last = self._order[depth], depth == len(self._order) - 1
        least = dims[self._after[axis]] if axis in self._after else 1
        if self.exact:
            yield from (n for n in range(least, left + 1) if left % n == 0 and (not last or n == left))
        elif last and not self.weight:
            # The last axis takes all machines that are left: longer never raises the load.  Where the last machines do
            # not lower it either, a shorter axis is taken, because it sends less.
            n = left
            while n > least and _is_near(
                math.fsum(self._lengthen(loads, axis, n)), math.fsum(self._lengthen(loads, axis, n - 1))
            ):
                n -= 1
            if n >= least:
                yield n
        else:
            yield from range(least, left + 1)

    def _lengthen(self, loads: Sequence[float], axis: int, n: int) -> list[float]:
        """Loads once an axis has a length."""
        owners = self._owners[axis]
        return [w * self._share(i, axis, n) if i in owners else w for i, w in enumerate(loads)]

    def _share(self, relation: int, axis: int, n: int) -> float:
        table = self.shares.get((relation, axis))
        return 1 / n if table is None else float(table[n])

    def _climb(self) -> None:
        """A good start for the search: grow the axis that lowers the load most, while there are machines left."""
        dims = [1] * self.axes
        while True:
            self._offer(dims)
            grown = [[n + (a == b) for b, n in enumerate(dims)] for a in self._order]
            fit = [d for d in grown if math.prod(d) <= self.p]
            if not fit:
                return
            dims = min(fit, key=lambda d: load(self.sizes, self.owned, d, self.shares))

    # ------------------------------------------------------------------------------------------- bounds

    def _bound(self, depth: int, left: int, loads: Sequence[float], dims: Sequence[int]) -> float:
        """A load that no lengths of the axes from `depth` on, over `left` machines, can go below."""
        floors = self._floors[depth]
        fixed = math.fsum(w * c for w, c in zip(loads, floors, strict=True))
        open_ = [w * (1 - c) for w, c in zip(loads, floors, strict=True)]
        if not self.weight:
            return fixed + self._spread(depth, left, open_)
        # What is sent is  q * sum sent_i * g_i,  where q is the product of the open axes and g_i the share of R_i that
        # they leave on a machine.  Apart from q this is the same sum as the load, so its terms join the weights.
        # q is not known yet, so its values are cut into intervals [a, b].  In each, the factor q is at least a, and the
        # machines that the terms share are at most b.
        machines = math.prod(dims)
        per = [
            self.weight / self.p * size * (machines // math.prod(dims[a] for a in mine))
            for size, mine in zip(self.sizes, self.owned, strict=True)
        ]
        least, a = math.inf, 1
        while a <= left:
            b = min(left, max(a, int(a * _STEP)))
            closed = math.fsum(a * s for s, c in zip(per, floors, strict=True) if c == 1)
            least = min(least, closed + self._spread(depth, b, [w + a * s for w, s in zip(open_, per, strict=True)]))
            a = b + 1
        return fixed + least

    def _spread(self, depth: int, left: int, weights: Sequence[float]) -> float:
        """The least sum of weights, each divided by the product of its open axes: the larger of two lower bounds."""
        floors, apart = self._floors[depth], self._apart[depth]
        shared = [(i, w) for i, w in enumerate(weights) if w and floors[i] < 1]
        most = math.fsum(w for i, w in shared if i not in apart) / left
        filled = most + _fill_vessels([w for i, w in shared if i in apart], left)
        return max(filled, self._mean(depth, left, shared))

    def _mean(self, depth: int, left: int, shared: Sequence[tuple[int, float]]) -> float:
        """The arithmetic mean is at least the geometric one.

        If no axis serves more than k of the r terms, the divisors of all terms multiply to at most left^k.
        """
        if not shared:
            return 0.0
        r, inside = len(shared), {i for i, _ in shared}
        k = max(len(self._owners[a] & inside) for a in self._order[depth:])
        return r * math.exp((math.fsum(math.log(w) for _, w in shared) - k * math.log(left)) / r)

    def _floor(self, relation: int, rest: set[int]) -> float:
        """The product of the floors c of a relation's open axes; 1 where none is open."""
        return math.prod(self._axis_floor(relation, a) for a in self.owned[relation] if a in rest)

    def _axis_floor(self, relation: int, axis: int) -> float:
        table = self.shares.get((relation, axis))
        if table is None or self.p < 2:
            return 0.0
        n = np.arange(2, self.p + 1)
        return max(0.0, float(((table[2 : self.p + 1] - 1 / n) / (1 - 1 / n)).min()))

    def _pick_disjoint(self, rest: set[int]) -> frozenset[int]:
        """Relations of which no two share an open axis, large ones first."""
        taken: set[int] = set()
        chosen = []
        for i in sorted(range(len(self.sizes)), key=lambda i: (len(rest & set(self.owned[i])), -self.sizes[i])):
            mine = rest & set(self.owned[i])
            if mine and not mine & taken:
                taken |= mine
                chosen.append(i)
        return frozenset(chosen)

    # ----------------------------------------------------------------------------------------- symmetry

    def _is_dominated(self, axis: int) -> bool:
        mine = self._owners[axis]
        return any(
            mine < others
            and all((i, other) not in self.shares for i in mine)
            and any(self.sizes[i] for i in others - mine)
            for other, others in enumerate(self._owners)
            if other != axis
        )

    def _find_interchangeable(self) -> dict[int, int]:
        """Axis -> an earlier one that it could change places with.

        Of vectors that differ only by such a change, one is enough; so the later axis is never the shorter one.
        """
        after: dict[int, int] = {}
        seen: dict[tuple[object, ...], int] = {}
        for a in self._order:
            owners = self._owners[a]
            if any((i, a) in self.shares for i in owners):
                continue
            alone = len(owners) == 1 and all(len(self.owned[i]) == 1 for i in owners)
            like = ("alone", *(self.sizes[i] for i in owners)) if alone else ("same", *sorted(owners))
            if like in seen:
                after[a] = seen[like]
            seen[like] = a
        return after


def _vectors(axes: int, useful: Sequence[int], p: int) -> Iterator[list[int]]:
    """All lengths of the useful axes whose product is at most p; the others are 1."""
    if not useful:
        yield [1] * axes
        return
    for n in range(1, p + 1):
        for dims in _vectors(axes, useful[1:], p // n):
            dims[useful[0]] = n
            yield dims


def _fill_vessels(vessels: Sequence[float], left: int) -> float:
    """The least sum of w/n over real n >= 1 with product `left`: the largest terms are brought down to one level."""
    full = sorted((w for w in vessels if w > 0), reverse=True)
    below, logs = math.fsum(full), -math.log(left)
    for j, w in enumerate(full, 1):
        logs += math.log(w)
        below -= w
        level = math.exp(logs / j)
        if j == len(full) or level >= full[j]:
            return j * level + max(0.0, below)
    return 0.0


def _is_less(a: Sequence[float], b: Sequence[float]) -> bool:
    for x, y in zip(a, b, strict=False):
        if not _is_near(x, y):
            return x < y
    return False


def _is_near(x: float, y: float) -> bool:
    return x == y or abs(x - y) <= NEAR * min(abs(x), abs(y))
