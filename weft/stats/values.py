"""What sampled rows say about the values of one key: how many there are, which are frequent, what quantiles are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from weft.expr.logic import nan_to_null
from weft.kernels.numbers import plain_numbers
from weft.stats.estimators import distinct_values
from weft.stats.held import Held
from weft.stats.side import Side

QUANTILES = 1024
"""How many quantiles of a column are kept."""
HEAVY = 32
"""How many frequent values of a column are kept."""
SEEN = 8
"""How often a value must be in a sample to count as frequent: its share is then known within about a third."""


def heaviest(held: Held) -> list[tuple[int, float]]:
    """The most frequent values and their shares of all rows, NULLs included; none that may be frequent by chance.

    If there are so few values that all can be kept, all are kept: then the whole domain is known.
    """
    values, counts = held.counted
    usual = max(SEEN, 3 * len(held.present) / max(1, len(values))) if len(values) > HEAVY else 1
    frequent = np.flatnonzero(counts >= usual)
    best = frequent[np.argsort(-counts[frequent], kind="stable")][:HEAVY]
    return [(int(values[i]), float(counts[i] / len(held.there))) for i in best]


def quantiles(column: pa.Array) -> list[float]:
    """Quantiles of a column of numbers, in order, with equally many rows between any two; none if it has no values."""
    values = np.sort(plain_numbers(nan_to_null(column).drop_null()))
    values = values[np.isfinite(values)]
    places = np.linspace(0, len(values) - 1, min(QUANTILES, len(values))).round().astype(np.int64)
    return list(values[places].tolist())


def values_in_stream(side: Side, held: Held, unique: bool) -> float | None:
    """How many values a key has in the stream."""
    if unique not in held.in_stream:
        held.in_stream[unique] = _values_in_stream(side, held, unique)
    return held.in_stream[unique]


def _values_in_stream(side: Side, held: Held, unique: bool) -> float | None:
    values, different = held.present, len(held.counted.values)
    if side.whole:
        return float(different)
    if side.total is None:
        return None
    share = len(values) / len(side)
    if unique and different == len(values):
        return side.total * share
    parts = None if side.parts is None else side.parts[held.there]
    read = None if side.read is None else side.read * share
    return distinct_values(values, side.total * share, read, parts, held.counted)
