"""Join keys of running streams, watched in bounded memory: which values are frequent, how many there are.

Every task of wave 0 counts the rows that pass an edge's selections and tells the driver, which adds everything up
with the totals of the checkpoint.  Of a large frame a few rows stand for all where frequent values are counted; a value
that matters is frequent there too.
"""

from __future__ import annotations

import numpy as np

from weft.expr.evaluate import evaluate
from weft.host.batch import Functions
from weft.host.envelope import Frame
from weft.kernels.codes import equality_codes
from weft.stats.distinct import DistinctCount
from weft.stats.heavy import HeavyHitters
from weft.stats.sketch import HASHES, VALUES, Sketches, plain
from weft.topology.model import Edge

SAMPLED = 2048
"""Rows of a frame in which frequent values are counted."""


class Watcher:
    """What one task has seen."""

    def __init__(self) -> None:
        self._heavy: dict[str, HeavyHitters] = {}
        self._distinct: dict[str, DistinctCount] = {}

    def see(self, edge: Edge, rows: Frame, functions: Functions) -> None:
        """Count the keys of some rows."""
        for name, key in edge.watch:
            codes = equality_codes([evaluate(key, rows, functions)])
            valid = codes.values if codes.valid is None else codes.values[codes.valid]
            stride = max(1, len(valid) // SAMPLED)
            seen = HeavyHitters(VALUES).add(np.ascontiguousarray(valid[::stride]))
            seen = HeavyHitters(VALUES, seen.codes, seen.counts * stride, len(valid), seen.error * stride)
            self._heavy[name] = self._heavy.get(name, HeavyHitters(VALUES)).merge(seen)
            self._distinct[name] = self._distinct.get(name, DistinctCount(HASHES)).add(valid)

    def plain(self) -> Sketches:
        """The sketches as JSON-able data."""
        return {name: plain(heavy, self._distinct[name]) for name, heavy in self._heavy.items()}
