"""What can be explained: queries, how to get their plans, and what a run of them did."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from weft.observe.counters import Counters
from weft.optimizer.choose import Choice
from weft.query.draft import Draft
from weft.query.model import Query
from weft.stats.model import Statistics
from weft.topology.model import Topology


@dataclass(frozen=True, slots=True)
class Measured:
    """What the committed batches of a run did."""

    batches: int
    counters: Counters
    held: Mapping[str, int]
    """Store -> rows in its live segments; expired ones that were not merged away yet are among them."""
    seen: Statistics = field(default_factory=Statistics)
    """What the streams have shown."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What can be explained; plans are made only for the stages that show them."""

    queries: Mapping[str, Query]
    drafts: Mapping[str, Draft]
    """The queries as they were written, where that is known."""
    choose: Callable[[], tuple[Choice, ...]]
    lay: Callable[[], Topology]
    analyze: bool = False
    measured: Measured | None = None
    """None if nothing was committed, or nobody asked."""
