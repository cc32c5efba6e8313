"""Clocks: which rows of which streams come too late.

Queries over the same streams, with the same lateness, share a clock.  Its watermark follows the event times of the
streams that it names; a row below the watermark is late for all queries of the clock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal as OneOf

EARLIEST = -(2**63)
"""The earliest possible event time; no row is earlier."""
NEVER_LATE = ""
"""The clock of users for whom no row is ever late; it has no watermark and no marks."""

Policy = OneOf["min", "max"]
"""How the watermarks of several streams make one."""


@dataclass(frozen=True, slots=True)
class Clock:
    """A set of streams whose event times move one watermark."""

    id: str
    streams: tuple[tuple[str, int], ...]
    """(stream name, lateness in microseconds), sorted by name."""
    policy: Policy = "min"
    """Whether the slowest or the fastest stream decides."""
    queries: tuple[str, ...] = ()
    """The queries for which it says what is late."""

    def watermark(self, newest: Mapping[str, int], idle: Collection[str] = ()) -> int | None:
        """Newest event time minus lateness, of the slowest or the fastest stream; None while a stream has no rows.

        Idle streams have no part in it.  If all are idle, the fastest of them decides: none waits for another.
        """
        awake = [given for given in self.streams if given[0] not in idle]
        if any(stream not in newest for stream, _ in awake):
            return None
        known = awake or [given for given in self.streams if given[0] in newest]
        choose = min if awake and self.policy == "min" else max
        return max((EARLIEST, choose(newest[s] - lateness for s, lateness in known))) if known else None
