"""What can be explained: queries, how to get their plans, and what a run of them did."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from weft.observe.measured import Measured
from weft.optimizer.choose import Choice
from weft.query.draft import Draft
from weft.query.model import Query
from weft.topology.model import Topology


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
    """None if nothing was committed, or no measured numbers were asked for."""
