"""The rows of a few values, the same ones in every stream: so the partners of rows are counted, not guessed.

Of a key the k values with the least hashes are kept, with how many rows each has.  Two streams keep the same values,
as far as both have them.  With t the k-th least hash as a number in (0, 1), each value below t was kept with chance t:

    D   = values kept below t / t
    f_ab = sum over common values below t of a_v b_v / (t N_a N_b),        t the smaller one of both

Both are unbiased.  Samples of n rows of each stream have n^2 f common pairs; here as many values are common as the
streams have in common at all, whatever their number of values is (correlated sampling; Vengerov et al., VLDB 2015).

What must hold: counts are exact.  A value that is not among the k least of a part is not among those of the whole
either, so merging is commutative and associative to the bit.  A single value with most of the rows is most likely not
among those kept: who asks adds the frequent values by hand (`weft.adapt.agreement`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weft.kernels.codes import Codes, Ints
from weft.kernels.least import Words, least_hashes
from weft.stats.distinct import DistinctCount
from weft.stats.drawn import Part

VALUES = 2048
"""Values that are kept of a key."""


@dataclass(frozen=True, slots=True, eq=False)
class LeastValues:
    """The values of a key with the least hashes, and how many rows each has."""

    capacity: int = VALUES
    hashes: Words = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    """Sorted, each once."""
    counts: Ints = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    rows: int = 0
    """All rows, also those without a value."""
    valued: int = 0
    """Rows with a value."""

    def add(self, codes: Codes) -> LeastValues:
        """The values with those of more rows."""
        there = codes.values if codes.valid is None else codes.values[codes.valid]
        found, counts = least_hashes(there, self.capacity)
        return self.merge(LeastValues(self.capacity, found, counts, len(codes.values), len(there)))

    def merge(self, other: LeastValues) -> LeastValues:
        """The values over the rows of both."""
        k, rows, valued = min(self.capacity, other.capacity), self.rows + other.rows, self.valued + other.valued
        if not len(self.hashes):
            return LeastValues(k, other.hashes[:k], other.counts[:k], rows, valued)
        every = np.concatenate([self.hashes, other.hashes])
        order = np.argsort(every, kind="stable")  # two runs in order: they are merged, not sorted
        every, counts = every[order], np.concatenate([self.counts, other.counts])[order]
        first = np.flatnonzero(np.concatenate([[True], every[1:] != every[:-1]]))[: k + 1]
        sums = np.add.reduceat(counts, first)
        return LeastValues(k, every[first[:k]], sums[:k], rows, valued)

    @property
    def is_full(self) -> bool:
        """Whether there may be more values than are kept."""
        return len(self.hashes) >= self.capacity

    @property
    def distinct(self) -> float:
        """How many values there are."""
        return DistinctCount(self.capacity, self.hashes).count

    def distinct_count(self, capacity: int) -> DistinctCount:
        """The same values, as a count of fewer hashes."""
        return DistinctCount(capacity, self.hashes[:capacity])

    # ------------------------------------------------------------------------------------- as plain data

    def plain(self) -> dict[str, Any]:
        """The values as plain data; counts in as few bytes as they need."""
        narrow = self.counts.astype(np.min_scalar_type(self.counts.max(initial=0)))
        return {
            "hashes": self.hashes.tobytes(),
            "counts": narrow.tobytes(),
            "type": narrow.dtype.str,
            "rows": self.rows,
            "valued": self.valued,
        }


def read_least(found: Any) -> LeastValues:
    """The values from plain data."""
    hashes = np.frombuffer(found["hashes"], dtype=np.uint64)
    counts = np.frombuffer(found["counts"], dtype=found["type"])
    return LeastValues(VALUES, hashes, counts.astype(np.int64), found["rows"], found["valued"])


@dataclass(frozen=True, slots=True)
class Agreement:
    """What two keys have in common."""

    pairs: float
    """Agreeing pairs of rows among those that were looked at."""
    of: float
    """Of so many pairs these were looked for: the share is pairs / of."""
    looked: int
    """Values that both could have in common."""
    whole: bool
    """Whether all values were looked at."""


def agree(a: LeastValues, b: LeastValues, leaving: Words | None = None, without: Part | None = None) -> Agreement:
    """The rows of two keys that agree, without those of some values, and maybe without a part of all values."""
    whole = not (a.is_full or b.is_full)
    bound = min(x.hashes[-1] if x.is_full else np.uint64(2**64 - 1) for x in (a, b))
    chance = 1.0 if whole else float(bound) * 2.0**-64
    kept = [_below(x, bound, whole, leaving, without) for x in (a, b)]
    if without is not None and not whole:
        chance *= 1 - 1 / without[1]
    (x, n), (y, m) = kept
    _, i, j = np.intersect1d(x, y, assume_unique=True, return_indices=True)
    pairs = float((n[i].astype(np.float64) * m[j]).sum())
    return Agreement(pairs, chance * a.rows * b.rows, min(len(x), len(y)), whole)


def _below(
    found: LeastValues, bound: np.uint64, whole: bool, leaving: Words | None, without: Part | None
) -> tuple[Words, Ints]:
    if whole:
        return found.hashes, found.counts
    keep = found.hashes < bound
    if leaving is not None and len(leaving):
        keep &= ~np.isin(found.hashes, leaving)
    if without is not None:
        keep &= found.hashes % np.uint64(without[1]) != without[0]
    return found.hashes[keep], found.counts[keep]
