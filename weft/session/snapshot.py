"""What a session was at some moment, so that a change can be undone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.optimizer.choose import Choice
from weft.optimizer.wishes import Wishes
from weft.stats.model import Statistics
from weft.topology.model import Topology

if TYPE_CHECKING:
    from weft.session.query import QueryHandle


@dataclass(frozen=True)
class Snapshot:
    """All that can change while a session runs; streams and functions are only ever added."""

    queries: Mapping[str, QueryHandle]
    dropped: frozenset[str]
    workers: int | None
    wishes: Wishes
    given: Statistics
    statistics: Statistics | None
    planned: tuple[Choice, ...] | None
    assembled: Topology | None
