"""How unevenly a key falls on the slots of an axis.

    slots(n)    the part of a relation's rows in each of n slots, 1/n at best
    share(n)    the fullest of them, before it is known which axis of a cube they belong to

    known values   hashing is not random: every frequent value has a known slot, and two of them may share it.  All
                   other rows are spread evenly.  The salt of the hash depends on the position of the axis; while that
                   is open, the mean over a few salts is used.
    top shares     without the values: (L - L_mf)/n + L_mf with L_mf the load of the most frequent key (Squall 3.4).
                   With J keys known, all other rows are spread evenly, and the fullest slot holds the first of them or,
                   since n + 1 keys have to share n slots, the n-th and the (n+1)-th.
    few values     d values hashed on n slots: the expected number in the fullest slot, slots taken as independent.
    dealt          d known values in turn: ceil(d/n) of them (Squall 5).

The largest of these estimates is used.  A key of which nothing is known counts as even.  Tables of shares never rise
with n, which the search for dimensions relies on; a cube that it finds is then weighed by its exact slots.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from weft.errors import PlanError
from weft.kernels.cells import hash_slots
from weft.kernels.codes import Ints
from weft.kernels.numbers import Floats

_EULER = 0.5772156649015329

VALUES_PER_SLOT = 4
"""Fewer values than so many for each slot count as skew (K-26)."""
SALTS = 4
"""Over how many salts the fullest slot is averaged while the place of an axis is open."""
MOST_DEALT = 1024
"""Up to this many values of a key may be dealt in turn: each row has to be looked up among them."""


@dataclass(frozen=True, slots=True)
class Skew:
    """What is known about the values of one key in one relation, after its selections."""

    tops: tuple[float, ...] = ()
    """Shares of rows of the most frequent values, largest first."""
    codes: tuple[int, ...] | None = None
    """Those values, where each is known."""
    distinct: float | None = None
    """How many values there are."""
    dealt: bool = False
    """Whether all values are known and dealt to slots in turn."""
    unique: bool = False
    """Whether no two rows have the same value; such a key is never skewed."""
    skewed: bool | None = None
    """What the user says; it overrides all else."""

    def __post_init__(self) -> None:
        if list(self.tops) != sorted(self.tops, reverse=True) or not all(0 < t <= 1 for t in self.tops):
            raise PlanError(f"shares of frequent values {self.tops}", detail="they are in (0, 1], largest first.")
        if math.fsum(self.tops) > 1 + 1e-9 or (self.codes is not None and len(self.codes) != len(self.tops)):
            raise PlanError(f"shares of frequent values {self.tops}", detail="they add up to 1, each with one code.")
        if self.distinct is not None and not self.distinct >= max(1, len(self.tops)):
            raise PlanError(f"{self.distinct!r} distinct values", detail=f"{len(self.tops)} of them have shares.")

    @property
    def is_complete(self) -> bool:
        """Whether all values are known, and so few that they can be dealt in turn."""
        if not self.codes or self.unique or self.skewed or len(self.codes) > MOST_DEALT:
            return False
        return math.fsum(self.tops) > 1 - 1e-9 or (self.distinct or math.inf) < len(self.codes) + 0.5

    def share(self, n: int) -> float:
        """The part of the rows in the fullest of n slots, whatever their salt."""
        return _share(self, n)

    def slots(self, n: int, position: int = 0, domain: tuple[int, ...] = ()) -> Floats:
        """The part of the rows in each slot of the axis at `position`; light values count with their fullest slot."""
        return _slots(self, n, position, domain)

    def table(self, p: int) -> Floats:
        """Shares of 1 to p slots, each under its number."""
        return _table(self, p)

    def is_skewed_over(self, n: int) -> bool | None:
        """Whether the key must not be hashed on n slots, where that needs no comparison of plans."""
        if self.unique or self.skewed is not None:
            return bool(self.skewed) and not self.unique
        if self.distinct is not None and not self.dealt and n > 1 and self.distinct < VALUES_PER_SLOT * n:
            return True
        return None

    def without(self, codes: frozenset[int]) -> tuple[float, Skew]:
        """The part of rows whose values are not among these, and the skew of that part."""
        if not codes:
            return 1.0, self
        pairs = list(zip(self.tops, self.codes or (), strict=False))
        gone = math.fsum(t for t, code in pairs if code in codes)
        rest = max(0.0, 1 - gone)
        kept = [(min(1.0, t / rest), code) for t, code in pairs if code not in codes] if rest > 1e-12 else []
        left = None if self.distinct is None else max(1.0, self.distinct - len(pairs) + len(kept), len(kept))
        return rest, Skew(tuple(t for t, _ in kept), tuple(c for _, c in kept), left, self.dealt, self.unique)


EVEN = Skew()


@lru_cache(maxsize=4096)
def slots_of(codes: tuple[int, ...], n: int, position: int, domain: tuple[int, ...] = ()) -> Ints:
    """The slot of each value; remembered, as every candidate of a plan asks."""
    return hash_slots(np.array(codes, dtype=np.int64), n, position, domain)


@lru_cache(maxsize=4096)
def _share(skew: Skew, n: int) -> float:
    if skew.unique or n == 1:
        return 1 / n
    if skew.codes is None:
        return min(1.0, max(top_share(skew.tops, n), _few(skew.distinct, n, skew.dealt)))
    if skew.dealt:
        return float(_slots(skew, n, 0, skew.codes).max())
    return math.fsum(float(_slots(skew, n, position, ()).max()) for position in range(SALTS)) / SALTS


@lru_cache(maxsize=4096)
def _slots(skew: Skew, n: int, position: int, domain: tuple[int, ...]) -> Floats:
    found = np.full(n, 1 / n)
    if skew.codes is None and not skew.unique:
        found[0] = _share(skew, n)
    elif skew.codes is not None and not skew.unique and n > 1:
        rest = max(0.0, 1 - math.fsum(skew.tops))
        found *= rest
        np.add.at(found, slots_of(skew.codes, n, position, domain), skew.tops)
        light = None if skew.distinct is None else skew.distinct - len(skew.codes)
        crowd = rest * _few(light, n, False) if light is None or light >= 1 else 0.0
        found[found.argmax()] = min(1.0, max(found.max(), crowd))
    found.flags.writeable = False
    return found


@lru_cache(maxsize=256)
def _table(skew: Skew, p: int) -> Floats:
    falling = np.minimum.accumulate([skew.share(n) for n in range(1, p + 1)])
    table = np.concatenate([[1.0], falling])
    table.flags.writeable = False
    return table


def top_share(tops: tuple[float, ...], n: int) -> float:
    """The fullest of n slots, if these keys are the most frequent and the rest is spread."""
    if not tops:
        return 1 / n
    known = math.fsum(tops)
    two = tops[n - 1] + tops[n] if len(tops) > n else 0.0
    return min(1.0, max(0.0, 1 - known) / n + max(tops[0], two, known / n if len(tops) > 1 else 0.0))


@lru_cache(maxsize=4096)
def most_in_a_slot(values: int, slots: int) -> float:
    """The expected largest number of values in a slot, if each falls anywhere."""
    if slots == 1:
        return float(values)
    mean = values / slots
    if mean > 20:
        # The largest of n normal variables, by the law of extreme values.
        a = math.sqrt(2 * math.log(slots))
        over = a - (math.log(math.log(slots)) + math.log(4 * math.pi)) / (2 * a) + _EULER / a
        return min(values, mean + over * math.sqrt(mean * (1 - 1 / slots)))
    least = math.ceil(mean)
    term, below, expected = (1 - 1 / slots) ** values, 0.0, 0.0
    for m in range(values + 1):
        below = min(1.0, below + term)
        none = below**slots if m >= least else 0.0
        expected += 1 - none
        if none > 1 - 1e-12:
            break
        term *= (values - m) / (m + 1) / (slots - 1)
    return expected


def _few(distinct: float | None, n: int, dealt: bool) -> float:
    if distinct is None:
        return 1 / n
    values = math.ceil(distinct)
    return (math.ceil(values / n) if dealt else most_in_a_slot(values, n)) / values
