"""The share of pairs of rows that satisfies predicates, from a sample of either side.

Equalities are estimated from common values (`weft.stats.estimators`), anything else by evaluating it on at most PAIRS
pairs of sampled rows; beside equalities, on pairs that agree on them.

What must hold: two whole streams give the exact share, up to PAIRS pairs.  Two aliases of one stream see the same
sample, in which a row meets itself far too often; such pairs are counted separately, with the weight that they have in
the stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from weft.errors import QueryError
from weft.expr.evaluate import Functions, filter_mask
from weft.expr.model import Column, Expr, columns
from weft.kernels.codes import Ints
from weft.stats.estimators import PRIOR, match, share_of, weigh
from weft.stats.held import Held
from weft.stats.keys import find_keys, is_equality
from weft.stats.side import Side
from weft.stats.values import values_in_stream

PAIRS = 1 << 18
"""Pairs on which a predicate is evaluated at most."""
CHUNK = 1 << 16
"""Pairs evaluated at a time."""


def pair_share(
    a: Side,
    b: Side,
    predicates: Sequence[Expr],
    functions: Functions,
    random: np.random.Generator,
    prior: float | None = None,
) -> float | None:
    """The share of pairs that satisfy all predicates; `prior` is what is believed of the equalities among them."""
    try:
        return _Pairs(a, b, tuple(predicates), functions, random).share(prior)
    except QueryError:
        return None  # it fails on a sampled pair; a join might never evaluate it there


@dataclass(frozen=True)
class _Pairs:
    """All predicates between two sides."""

    a: Side
    b: Side
    predicates: tuple[Expr, ...]
    functions: Functions
    random: np.random.Generator

    def share(self, prior: float | None) -> float | None:
        """The result of `pair_share`."""
        n, same = len(self.a) * len(self.b), self._find_same()
        if not n:
            return None
        apart = self._share_apart(prior, same)
        if apart is None:
            return None
        # Of all pairs of the stream's rows one in N is a row with itself, of the sample's pairs one in n.
        itself = len(same[0]) * self.a.drawn / n
        alike = self._hits(self.predicates, *same) / len(same[0]) if len(same[0]) else 0.0
        return (1 - itself) * apart + itself * alike or share_of(0, n)

    def _find_same(self) -> tuple[Ints, Ints]:
        """Rows that stand on both sides."""
        if self.a.stream.name != self.b.stream.name:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        _, i, j = np.intersect1d(self.a.ids, self.b.ids, assume_unique=True, return_indices=True)
        return i, j

    def _share_apart(self, prior: float | None, same: tuple[Ints, Ints]) -> float | None:
        """The share among pairs of different rows; 0 only if both streams are whole and all pairs were evaluated."""
        if len(self.a) * len(self.b) == len(same[0]):
            return 0.0 if self._whole else None
        equal = tuple(p for p in self.predicates if is_equality(p))
        rest = tuple(p for p in self.predicates if not is_equality(p))
        if not equal:
            return self._share_evaluated(rest)
        keys = [self._keys(side, equal) for side in (self.a, self.b)]
        share = self._share_equal(keys, equal, prior, same)
        return share * self._share_beside(keys, rest) if share and rest else share

    @property
    def _whole(self) -> bool:
        return self.a.whole and self.b.whole

    # ------------------------------------------------------------------------------------------ equalities

    def _keys(self, side: Side, equal: Sequence[Expr]) -> Held:
        return side.held(find_keys(side.alias, equal), self.functions)

    def _share_equal(
        self, keys: Sequence[Held], equal: Sequence[Expr], prior: float | None, same: tuple[Ints, Ints]
    ) -> float | None:
        a, b = keys
        pairs = len(self.a) * len(self.b) - len(same[0])
        found = match(a.counted, b.counted, self.a.drawn, self.b.drawn)
        alike = (a.codes.values[same[0]] == b.codes.values[same[1]]) & a.there[same[0]] & b.there[same[1]]
        seen = found.pairs - int(alike.sum())
        if self._whole:
            return seen / pairs
        if not (len(a.present) and len(b.present)):
            return share_of(0, pairs)
        worth = found.worth * seen / found.pairs if seen else 0.0
        d_a, d_b = (values_in_stream(s, c, _is_unique(s, equal)) for s, c in zip((self.a, self.b), keys, strict=True))
        if d_a is None or d_b is None:
            return weigh(prior, seen, worth, pairs)
        values = max(1.0, d_a, d_b)
        contained = float(a.there.mean() * b.there.mean()) / values
        parts = min(self.a.independent, self.b.independent)
        return weigh(contained if prior is None else prior, seen, worth, pairs, parts, found.most / values)

    def _share_beside(self, keys: Sequence[Held], rest: Sequence[Expr]) -> float:
        """The share of pairs that satisfy the rest, among those that agree on the keys."""
        i, j = self._drop_same(*self._draw_agreeing(keys))
        hits = self._hits(rest, i, j)
        if self._whole or len(i) >= CHUNK:
            return hits / len(i) if self._draws_all(keys) or hits else share_of(0, len(i))
        return (hits + PRIOR * self._share_evaluated(rest)) / (len(i) + PRIOR)

    def _draw_agreeing(self, keys: Sequence[Held]) -> tuple[Ints, Ints]:
        """Pairs that agree on the keys: all of them, or PAIRS drawn from them."""
        order, first, count = self._partners(keys)
        ends = np.cumsum(count)
        every = int(ends[-1]) if len(ends) else 0
        at = np.arange(every) if every <= PAIRS else self.random.integers(0, every, PAIRS)
        i = np.searchsorted(ends, at, side="right")
        return i, order[first[i] + at - (ends[i] - count[i])]

    def _draws_all(self, keys: Sequence[Held]) -> bool:
        return int(self._partners(keys)[2].sum()) <= PAIRS

    def _partners(self, keys: Sequence[Held]) -> tuple[Ints, Ints, Ints]:
        """Rows of b in key order, and for every row of a where its partners begin in it and how many there are."""
        a, b = keys[0].codes.values, keys[1].codes.values
        rows = np.flatnonzero(keys[1].there)
        order = rows[np.argsort(b[rows], kind="stable")]
        first = np.searchsorted(b[order], a, side="left")
        count = np.searchsorted(b[order], a, side="right") - first
        return order, first, np.where(keys[0].there, count, 0)

    # ---------------------------------------------------------------------------------------- anything else

    def _share_evaluated(self, predicates: Sequence[Expr]) -> float:
        """The share of pairs of different rows, all or PAIRS of them, that satisfies the predicates."""
        n, width = len(self.a) * len(self.b), len(self.b)
        at = np.arange(n) if n <= PAIRS else self.random.integers(0, n, PAIRS)
        i, j = self._drop_same(*np.divmod(at, width))
        hits = self._hits(predicates, i, j)
        return hits / len(i) if hits or (n <= PAIRS and self._whole) else share_of(0, len(i))

    def _drop_same(self, i: Ints, j: Ints) -> tuple[Ints, Ints]:
        if self.a.stream.name != self.b.stream.name:
            return i, j
        apart = self.a.ids[i] != self.b.ids[j]
        return i[apart], j[apart]

    def _hits(self, predicates: Sequence[Expr], i: Ints, j: Ints) -> int:
        needed = {column.field for predicate in predicates for column in columns(predicate)}
        hits = 0
        for start in range(0, len(i), CHUNK):
            arrays, names = [], []
            for side, rows in ((self.a, i), (self.b, j)):
                chosen = [name for name in side.batch.schema.names if name in needed]
                arrays += [side.batch.column(name).take(pa.array(rows[start : start + CHUNK])) for name in chosen]
                names += chosen
            hits += filter_mask(predicates, pa.RecordBatch.from_arrays(arrays, names=names), self.functions).true_count
        return hits


def _is_unique(side: Side, equal: Sequence[Expr]) -> bool:
    """Whether the stream is declared to be unique by this key."""
    key = find_keys(side.alias, equal)
    names = [expr.name for expr in key if isinstance(expr, Column)]
    return len(names) == len(key) and sorted(names) == sorted(side.stream.unique)
