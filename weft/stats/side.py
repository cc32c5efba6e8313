"""One side of a pair: sampled rows of a stream under the names of an alias, all or those that pass its selections.

What must hold: the rows that pass are a sample of all rows of the stream that would pass.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from weft.expr.evaluate import Functions, evaluate
from weft.expr.model import Expr, text_of, without_alias
from weft.kernels.codes import Bools, Ints, equality_codes
from weft.query.model import Stream
from weft.stats.held import Held


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
    keys: dict[tuple[str, ...], Held] = field(default_factory=dict)
    """What was worked out of keys, by the texts of their parts; aliases over the same rows share it."""

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
            keys={},
        )

    def held(self, key: Sequence[Expr], functions: Functions) -> Held:
        """What the rows hold of a key over the alias."""
        name = tuple(text_of(without_alias(part)) for part in key)
        if name not in self.keys:
            self.keys[name] = Held(equality_codes([evaluate(part, self.batch, functions) for part in key]))
        return self.keys[name]
