"""What sampled rows say about the values of one key: how many there are, which are frequent, what quantiles are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from weft.expr.logic import nan_to_null
from weft.kernels.codes import Bools, Codes, Ints
from weft.kernels.numbers import plain_numbers
from weft.stats.estimators import distinct_values
from weft.stats.side import Side

QUANTILES = 1024
"""How many quantiles of a column are kept."""
HEAVY = 32
"""How many frequent values of a column are kept."""
SEEN = 8
"""How often a value must be in a sample to count as frequent: its share is then known within about a third."""


def heaviest(codes: Codes) -> list[tuple[int, float]]:
    """The most frequent values and their shares of all rows, NULLs included; none that may be frequent by chance.

    If there are so few values that all can be kept, all are kept: then the whole domain is known.
    """
    valid = codes.values if codes.valid is None else codes.values[codes.valid]
    values, counts = np.unique(valid, return_counts=True)
    usual = max(SEEN, 3 * len(valid) / max(1, len(values))) if len(values) > HEAVY else 1
    frequent = np.flatnonzero(counts >= usual)
    best = frequent[np.argsort(-counts[frequent], kind="stable")][:HEAVY]
    return [(int(values[i]), float(counts[i] / len(codes.values))) for i in best]


def quantiles(column: pa.Array) -> list[float]:
    """Quantiles of a column of numbers, in order, with equally many rows between any two; none if it has no values."""
    values = np.sort(plain_numbers(nan_to_null(column).drop_null()))
    values = values[np.isfinite(values)]
    places = np.linspace(0, len(values) - 1, min(QUANTILES, len(values))).round().astype(np.int64)
    return list(values[places].tolist())


def values_in_stream(side: Side, codes: Codes, unique: bool) -> float | None:
    """How many values a key has in the stream."""
    values, held = present(codes)
    if side.whole:
        return float(len(np.unique(values)))
    if side.total is None:
        return None
    share = len(values) / len(side)
    if unique and len(np.unique(values)) == len(values):
        return side.total * share
    parts = None if side.parts is None else side.parts[held]
    return distinct_values(values, side.total * share, None if side.read is None else side.read * share, parts)


def present(codes: Codes) -> tuple[Ints, Bools]:
    """The codes of rows with a value, and which rows these are."""
    present = np.ones(len(codes.values), dtype=np.bool_) if codes.valid is None else codes.valid
    return codes.values[present], present
