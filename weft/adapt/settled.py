"""A decision that stands: the plan was the best one, and nothing has moved since.

To weigh plans for many queries takes as long as a short batch, on the cores that batches use.  While streams stay as
they are the answer is the same, so it is not asked again.

What must hold: it is asked again as soon as a number differs by more than `STILL` from the one it was decided by, not
from the last one: many small steps count as what they are together.  The queries, their options and their plans are
those that were weighed.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.optimizer.choose import Choice
from weft.stats.model import Statistics

STILL = 1.25
"""A number that differs by less than this factor has not moved: worse plans are not much better now."""


@dataclass(frozen=True)
class Settled:
    """The plans of an epoch were the best ones, by these statistics."""

    epoch: int
    chosen: tuple[Choice, ...]
    known: Statistics

    def stands(self, chosen: tuple[Choice, ...], found: Statistics) -> bool:
        """Whether the same would be decided again."""
        return self.chosen is chosen and self.known.is_still(found, STILL)
