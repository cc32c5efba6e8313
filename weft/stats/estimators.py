"""From a sample to the whole: how many values a column has, and which share of pairs an equality lets through.

Numbers in, numbers out.  Values come as codes (`weft.kernels.codes`); rows without a value (NULL, NaN) stay outside.

distinct values
    n sampled rows of N hold d values, f_1 of them once, f_2 twice; q = n / N.  Where frequencies are even, the
    unsmoothed first-order jackknife of Haas, Naughton, Seshadri and Stokes (VLDB 1995):

        D_uj1 = d / (1 - (1 - q) f_1 / n)

    It is exact for keys (f_1 = n gives N) and for whole streams (q = 1 gives d), and far too small under skew.
    Where two rows agree more than twice as often as D_uj1 even values would (skew), the geometric mean of Chao's lower
    bound d + (1 - q) f_1 (f_1 - 1) / (2 (f_2 + 1)) and of GEE, sqrt(N / n) f_1 + d - f_1 (Charikar et al., PODS 2000).
    On Zipf data of exponent up to 1.5, of which 1/10 is sampled, it is off by a factor of 2 at most; of 1/100, by 6.

    Rows drawn from some parts of a stream say nothing about values that occur in other parts only (the lines of an
    order stand together).  So parts are scaled up like rows: I is the number of (value, part) pairs that were met, Q_1
    the number of values met in one part only, and D_parts = D_read / (1 - (1 - r / N) Q_1 / I) for the r rows of the
    parts read.  That is right for values that stay in one place, and too much for rare values that may be anywhere.
    The result lies between both estimates, by how much rarer rows of two parts agree than rows of one part.

equality
    Containment says f = 1 / max(D_a, D_b): every value of the side with fewer values occurs on the other, all equally
    often.  Samples say sum_k a_k b_k / (n_a n_b) over their common values, unbiased, but they may have few of them.  So
    containment counts as many matches as PRIOR, and the sample as many as its relative variance is worth:

        1 / c = sum_k x_k^2 ((1 - q_a) / a_k + (1 - q_b) / b_k) / (sum_k x_k)^2,    x_k = a_k b_k
        f = prior (c + PRIOR) / (e + PRIOR)            if fewer matches were seen than expected, e to every c
        f = prior (c / e)^(c / (c + PRIOR))            if more were seen: skew makes it many times more

    With many common values the sample decides.  With none, and none expected, containment decides.  With none though
    thousands were expected, the sides hardly overlap, and f is small but not 0.  Too few matches prove nothing if they
    depend on a few values that were just not drawn: they are then worth no more than n_a / D times the effective number
    of values of b, n_b^2 / sum_k b_k^2, or the same with a and b exchanged.  Switching from one estimate to the other
    at a threshold was rejected, because the result would jump there.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from weft.kernels.codes import Ints
from weft.stats.held import Counted, count

PRIOR = 10.0
"""How many matches the assumption of containment is worth."""
SKEWED = 2.0
"""D_uj1 is not used where two rows agree more than this many times as often as with even values."""
COLLISIONS = 40
"""With fewer agreeing pairs than this, (i, j) and (j, i) both counted, nothing is concluded about skew."""


def share_of(hits: int, of: int) -> float:
    """The share of hits; no hit among m is not 0 but 1 / (m + 2), by Laplace's rule: streams go on."""
    return hits / of if hits else 1 / (of + 2)


def distinct_values(
    codes: Ints, total: float, read: float | None = None, parts: Ints | None = None, counted: Counted | None = None
) -> float:
    """How many values `total` rows have; those with `codes` were drawn, maybe from `read` rows of some parts only."""
    held, counts = counted or count(codes)
    mixed = _scale_up(counts, total)
    if read is None or parts is None or read >= total or not len(codes):
        return mixed
    numbers = np.searchsorted(held, codes)
    inner, rows_inner = np.unique(np.stack([numbers, parts]), axis=1, return_counts=True)
    places = np.bincount(inner[0], minlength=len(held))
    once = float((places == 1).sum()) / float(places.sum())
    local = min(total, _scale_up(counts, max(read, len(codes))) / (1 - (1 - read / total) * once))
    share = _mixed_share(counts, rows_inner, np.unique(parts, return_counts=True)[1])
    return float(mixed**share * local ** (1 - share))


def _scale_up(counts: Ints, N: float) -> float:
    n, d = int(counts.sum()), len(counts)
    if n >= N or not d:
        return float(d)
    q, f_1, f_2 = n / N, int((counts == 1).sum()), int((counts == 2).sum())
    jackknife = d / (1 - (1 - q) * f_1 / n)
    agreeing = _count_agreeing(counts)
    if agreeing >= COLLISIONS and agreeing / (n * (n - 1)) * jackknife > SKEWED:
        chao = d + (1 - q) * f_1 * (f_1 - 1) / (2 * (f_2 + 1))
        gee = math.sqrt(N / n) * f_1 + d - f_1
        return min(N, max(d, math.sqrt(chao * gee)))
    return min(N, max(d, jackknife))


def _mixed_share(counts: Ints, inner: Ints, sizes: Ints) -> float:
    """1 if rows of different parts agree as often as rows of one part, 0 if they never do.

    The arguments count rows by value, by value and part, and by part.
    """
    rows = int(counts.sum())
    agree_inside, pairs_inside = _count_agreeing(inner), _count_agreeing(sizes)
    pairs_across = rows * (rows - 1) - pairs_inside
    if not agree_inside:
        return 1.0
    if not pairs_across:
        return 0.5  # one part says nothing about others; the middle is never far off
    across = (_count_agreeing(counts) - agree_inside) / pairs_across
    return min(1.0, across / (agree_inside / pairs_inside))


def _count_agreeing(counts: Ints) -> float:
    """Ordered pairs of different rows in the same group."""
    return float((counts.astype(np.float64) * (counts - 1)).sum())


class Match(NamedTuple):
    """What two samples have in common on a key."""

    pairs: float
    """Agreeing pairs: sum of a_k b_k."""
    worth: float
    """How many independent matches that is, by its relative variance; infinite for whole streams."""
    most: float
    """How many independent matches it could have been, times the number of values of the side that has more."""


def match(a: Counted, b: Counted, q_a: float, q_b: float) -> Match:
    """Common values of two samples, of which q_a and q_b of the rows were drawn."""
    at = np.searchsorted(b.values, a.values)
    at[at == len(b.values)] = 0
    common = b.values[at] == a.values if len(b.values) else np.zeros(len(a.values), dtype=np.bool_)
    a_k, b_k = a.counts[common].astype(np.float64), b.counts[at[common]].astype(np.float64)
    x_k = a_k * b_k
    pairs = float(x_k.sum())
    spread = float((x_k**2 * ((1 - q_a) / a_k + (1 - q_b) / b_k)).sum())
    worth = 0.0 if not pairs else math.inf if not spread else pairs**2 / spread
    return Match(pairs, worth, min(a.counts.sum() * _effective(b.counts), b.counts.sum() * _effective(a.counts)))


def _effective(counts: Ints) -> float:
    return float(counts.sum()) ** 2 / max(1.0, float((counts.astype(np.float64) ** 2).sum()))


def weigh(
    prior: float | None, seen: float, worth: float, pairs: float, most: float = math.inf, most_missed: float = math.inf
) -> float | None:
    """The share of pairs that agree: `seen` of `pairs`, as good as `worth` independent matches, against a prior share.

    `most` bounds what the sample is worth: rows of few parts are not independent.  `most_missed` bounds it if fewer
    pairs were seen than expected.
    """
    if prior is None or math.isinf(worth):
        return min(1.0, seen / pairs) if seen else None if prior is None else prior
    expected = prior * pairs
    c, e = worth, (expected if not seen else worth * expected / seen)
    if seen < expected:
        trust = min(1.0, most / e, most_missed / e)
        return prior * (c * trust + PRIOR) / (e * trust + PRIOR)
    c = min(c, most)
    return min(1.0, prior * (seen / expected) ** (c / (c + PRIOR)))
