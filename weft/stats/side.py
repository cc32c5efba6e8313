"""One side of a pair: sampled rows of a stream under the names of an alias, all or those that pass its selections.

What must hold: the rows that pass are a sample of all rows of the stream that would pass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from weft.kernels.codes import Bools, Ints
from weft.query.model import Stream


@dataclass(frozen=True, eq=False)
class Side:
    """Sampled rows of one alias."""

    alias: str
    batch: pa.RecordBatch
    ids: Ints
    """Where each row stands in the sample of its stream."""
    total: float | None
    whole: bool
    read: float | None
    parts: Ints | None
    stream: Stream

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    @property
    def drawn(self) -> float:
        """The share of the stream's rows that was sampled; 0 if unknown."""
        return 1.0 if self.whole else 0.0 if not self.total else min(1.0, len(self) / self.total)

    @property
    def independent(self) -> float:
        """How many parts the rows are from; infinite if they are from everywhere."""
        return math.inf if self.parts is None else len(np.unique(self.parts))

    def keep(self, mask: pa.BooleanArray) -> Side:
        """The rows that pass, as a sample of all that pass."""
        chosen: Bools = mask.to_numpy(zero_copy_only=False)
        share = float(chosen.mean()) if len(chosen) else 0.0
        return replace(
            self,
            batch=self.batch.filter(mask),
            ids=self.ids[chosen],
            total=None if self.total is None else self.total * share,
            read=None if self.read is None else self.read * share,
            parts=None if self.parts is None else self.parts[chosen],
        )
