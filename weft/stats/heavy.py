"""Heavy hitters in bounded memory: which values are frequent, with bounds that always hold.

A Misra-Gries summary keeps k counters.  When there are more, all are lowered by the (k+1)-th largest, and those at
zero go.  `error` adds up what was lowered, so for every value, kept or not (whose counter is 0):

    counter <= true count <= counter + error,        error <= (rows - sum of counters) / (k + 1)

Merging adds counters and lowers once (Agarwal et al., PODS 2012).  It is commutative to the bit.  Another grouping may
keep other counters, but the bounds hold for any, so every value with more than rows / (k + 1) of the rows is kept.
A batch is counted exactly first and then merged; there is no loop over rows.

SpaceSaving keeps the same bound with counters that are too large instead of too small.  It was rejected because its
merge needs the smallest counter of both sides as a correction, and shares that are too large add up to more than 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from weft.errors import PlanError
from weft.kernels.codes import Ints


def _none() -> Ints:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class HeavyHitters:
    """Counters of the most frequent codes of a column; rows without a value (NULL, NaN) stay outside."""

    capacity: int
    """k"""
    codes: Ints = field(default_factory=_none)
    """Sorted."""
    counts: Ints = field(default_factory=_none)
    rows: int = 0
    error: int = 0

    def __post_init__(self) -> None:
        if self.capacity < 1:
            raise PlanError(f"{self.capacity} counters for heavy hitters", hint="keep at least one.")

    def add(self, codes: Ints) -> HeavyHitters:
        """The summary with more rows added."""
        found, counts = np.unique(codes, return_counts=True)
        return self.merge(HeavyHitters(self.capacity, found, counts.astype(np.int64), len(codes)))

    def merge(self, other: HeavyHitters) -> HeavyHitters:
        """The summary over the rows of both."""
        codes, counts = _add_up(self, other)
        k = min(self.capacity, other.capacity)
        lowered = int(np.sort(counts)[-k - 1]) if len(counts) > k else 0  # most are equal: np.partition is slow then
        kept = counts > lowered
        return HeavyHitters(
            k, codes[kept], counts[kept] - lowered, self.rows + other.rows, self.error + other.error + lowered
        )

    def bounds(self, code: int) -> tuple[int, int]:
        """The count of a value lies between these, ends included."""
        at = int(np.searchsorted(self.codes, code))
        counter = int(self.counts[at]) if at < len(self.codes) and self.codes[at] == code else 0
        return counter, min(self.rows, counter + self.error)

    def frequent(self, share: float) -> Ints:
        """Every code that may have more than this share of the rows; none is missing if share >= 1 / (k + 1)."""
        return self.codes[self.counts + self.error > share * self.rows]

    def tops(self, most: int | None = None) -> list[tuple[int, float]]:
        """(Code, share) of those kept, the most frequent first; a share is never too large, and too small by `error`
        at most.

        A code whose counter is below the error may be there by chance and is left out.
        """
        sure = np.flatnonzero(self.counts >= max(1, self.error))
        order = sure[np.lexsort((self.codes[sure], -self.counts[sure]))]
        return [(int(self.codes[i]), float(self.counts[i] / self.rows)) for i in order[:most]]


def _add_up(a: HeavyHitters, b: HeavyHitters) -> tuple[Ints, Ints]:
    """The codes of both, sorted, and their counters."""
    if not len(a.codes):
        return b.codes, b.counts
    if not len(b.codes):
        return a.codes, a.counts
    codes, inverse = np.unique(np.concatenate([a.codes, b.codes]), return_inverse=True)
    counts = np.zeros(len(codes), dtype=np.int64)
    np.add.at(counts, inverse, np.concatenate([a.counts, b.counts]))
    return codes, counts
