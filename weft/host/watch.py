"""Watches the join keys of running streams in bounded memory: which values are frequent, how many there are.

Every task of wave 0 counts the rows that pass an edge's selections and reports to the driver.  The driver adds the
reports to the totals of the checkpoint.  In a large frame, frequent values are counted in a sample of the rows only: a
value that matters is frequent in the sample too.
"""

from __future__ import annotations

import numpy as np

from weft.expr.evaluate import Functions, evaluate, filter_mask
from weft.host.envelope import Frame
from weft.kernels.codes import equality_codes
from weft.stats.distinct import DistinctCount
from weft.stats.heavy import HeavyHitters
from weft.stats.sketch import HASHES, VALUES, Sketches, plain
from weft.topology.model import Edge

SAMPLED = 2048
"""Frequent values are counted in about this many rows of a frame."""


class Watcher:
    """What one task has seen."""

    def __init__(self) -> None:
        self._heavy: dict[str, HeavyHitters] = {}
        self._distinct: dict[str, DistinctCount] = {}

    def see(self, edge: Edge, rows: Frame, functions: Functions) -> None:
        """Count the keys of some rows."""
        for name, key, chosen in edge.watch:
            mine = rows.filter(filter_mask(chosen, rows, functions)) if chosen else rows
            codes = equality_codes([evaluate(key, mine, functions)])
            valid = codes.values if codes.valid is None else codes.values[codes.valid]
            stride = max(1, len(valid) // SAMPLED)
            seen = HeavyHitters(VALUES).add(np.ascontiguousarray(valid[::stride]))
            seen = HeavyHitters(VALUES, seen.codes, seen.counts * stride, len(valid), seen.error * stride)
            self._heavy[name] = self._heavy.get(name, HeavyHitters(VALUES)).merge(seen)
            self._distinct[name] = self._distinct.get(name, DistinctCount(HASHES)).add(valid)

    def plain(self) -> Sketches:
        """The sketches as data for JSON."""
        return {name: plain(heavy, self._distinct[name]) for name, heavy in self._heavy.items()}
