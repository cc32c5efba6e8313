"""What the committed batches of a checkpoint did, as explain puts it beside estimates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from weft.observe.counters import Counters
from weft.stats.model import Statistics


@dataclass(frozen=True, slots=True)
class Measured:
    """What the committed batches of a checkpoint did."""

    batches: int
    counters: Counters
    held: Mapping[str, int]
    """Store -> rows in its live segments, including expired rows that have not been merged away yet."""
    seen: Statistics = field(default_factory=Statistics)
    """What the streams have shown."""
