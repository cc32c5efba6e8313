"""Watches the join keys of running streams in bounded memory: which values are frequent, how many there are.

Every task of wave 0 counts the rows that pass an edge's selections and reports to the driver.  The driver adds the
reports to the totals of the checkpoint.  In a large frame, frequent values are counted in a sample of the rows only: a
value that matters is frequent in the sample too.

Where plans follow the data, the rows of some values are counted besides (`weft.stats.least`).  Their hashes are those
that count values, so it costs little.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.expr.evaluate import Functions, evaluate, filter_mask
from weft.host.envelope import Frame
from weft.kernels.codes import equality_codes
from weft.stats.distinct import DistinctCount
from weft.stats.heavy import HeavyHitters
from weft.stats.least import LeastValues
from weft.stats.sketch import HASHES, VALUES, Sketches, plain
from weft.topology.model import Edge

SAMPLED = 2048
"""Frequent values are counted in about this many rows of a frame."""


class Watcher:
    """What one task has seen."""

    def __init__(self, *, partners: bool = False) -> None:
        """With `partners`, rows are kept of which two streams tell how many agree."""
        self._partners = partners
        self._heavy: dict[str, HeavyHitters] = {}
        self._distinct: dict[str, DistinctCount] = {}
        self._least: dict[str, LeastValues] = {}

    def see(self, edge: Edge, rows: Frame, functions: Functions) -> None:
        """Count the keys of some rows."""
        for name, key, chosen in edge.watch:
            mine = rows.filter(filter_mask(chosen, rows, functions)) if chosen else rows
            codes = equality_codes([evaluate(key, mine, functions)])
            valid = codes.values if codes.valid is None else codes.values[codes.valid]
            stride = max(1, len(valid) // SAMPLED)
            seen = HeavyHitters(VALUES).add(np.ascontiguousarray(valid[::stride]))
            seen = HeavyHitters(VALUES, seen.codes, seen.counts * stride, len(valid), seen.error * stride)
            self._heavy[name] = self._heavy[name].merge(seen) if name in self._heavy else seen
            if self._partners:
                self._least[name] = self._least.get(name, LeastValues()).add(codes)
            else:
                self._distinct[name] = self._distinct.get(name, DistinctCount(HASHES)).add(valid)

    def plain(self) -> Sketches:
        """The sketches as data for JSON."""
        counted = self._distinct | {name: found.distinct_count(HASHES) for name, found in self._least.items()}
        return {name: plain(heavy, counted[name]) for name, heavy in self._heavy.items()}

    def least(self) -> dict[str, Any]:
        """The rows of some values of each key, as plain data; nothing without `partners`."""
        return {name: found.plain() for name, found in self._least.items()}
