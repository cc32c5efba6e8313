"""Sketches of join keys as plain data: so they are sent, added up, and kept in checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from weft.stats.distinct import DistinctCount
from weft.stats.heavy import HeavyHitters
from weft.stats.model import Statistics

VALUES = 64
"""Frequent values that are kept of a key."""
HASHES = 256
"""How many hashes count the values of a key: up to this many the count is exact, above it within about six percent."""

Sketches = dict[str, dict[str, Any]]
"""Key -> its sketches in plain data."""


def merge_sketches(a: Mapping[str, Any], b: Mapping[str, Any]) -> Sketches:
    """The sketches of both."""
    both = {name: [_read(part[name]) for part in (a, b) if name in part] for name in sorted({*a, *b})}
    return {
        name: plain(*parts[0]) if len(parts) == 1 else plain(*(x.merge(y) for x, y in zip(*parts, strict=True)))
        for name, parts in both.items()
    }


def read(sketches: Mapping[str, Any]) -> dict[str, tuple[HeavyHitters, DistinctCount]]:
    """Key -> what was counted."""
    return {name: _read(found) for name, found in sketches.items()}


def read_statistics(rows: Mapping[str, int], sketches: Mapping[str, Any]) -> Statistics:
    """What rows of streams and sketches of join keys tell: sizes, frequent values and numbers of values."""
    found = read(sketches)
    return Statistics(
        {name: float(count) for name, count in rows.items()},
        distinct={name: distinct.count for name, (_, distinct) in found.items()},
        heavy={name: heavy.tops() for name, (heavy, _) in found.items() if heavy.tops()},
    )


def plain(heavy: HeavyHitters, distinct: DistinctCount) -> dict[str, Any]:
    """Both sketches of a key as JSON-able data."""
    return {
        "codes": heavy.codes.tolist(), "counts": heavy.counts.tolist(), "rows": heavy.rows, "error": heavy.error,
        "hashes": distinct.hashes.tolist(),
    }  # fmt: skip


def _read(found: Mapping[str, Any]) -> tuple[HeavyHitters, DistinctCount]:
    codes, counts = (np.array(found[name], dtype=np.int64) for name in ("codes", "counts"))
    heavy = HeavyHitters(VALUES, codes, counts, found["rows"], found["error"])
    return heavy, DistinctCount(HASHES, np.array(found["hashes"], dtype=np.uint64))
