"""What is known when a plan is chosen: of the data, of the host, and of the plan that made the state of a checkpoint.

What must hold: what is unknown is None or missing.  Only `cost.estimate` replaces it by a number.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.optimizer.cost.prices import BATCH_ROWS, Prices
from weft.optimizer.graph.placement import Sizes
from weft.optimizer.written.plan import Plan
from weft.stats.model import Statistics


@dataclass(frozen=True, slots=True)
class Known:
    """What a plan is chosen by."""

    statistics: Statistics | None = None
    sizes: Sizes = field(default_factory=dict)
    """How much comes from each stream, where there are no statistics."""
    batch_rows: float = BATCH_ROWS
    prices: Prices = field(default_factory=Prices)
    given: Statistics | None = None
    """The part of the statistics that was given by hand."""
    measured: Statistics | None = None
    """The part of the statistics that committed batches have shown."""
    made: Plan | None = None
    """The plan that made the state of a checkpoint.  It is kept as it is: what it leaves out is not chosen by cost
    now, because the state was made without it."""
