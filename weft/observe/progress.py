"""Progress of a run: one record for each micro-batch, a view of its counters."""

from __future__ import annotations

import datetime
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field

from weft.observe.counters import Counters
from weft.observe.markup import markup_progress
from weft.observe.notice import Notice
from weft.observe.watermark import Watermark, say_time

SOME = 10
"""A watermark that has stood still for so many batches is shown with the stream that holds it."""


class Counted:
    """What a batch, or a run of batches, says of its counters."""

    __slots__ = ()

    @property
    @abstractmethod
    def counters(self) -> Counters:
        """What every part of the plan did."""

    @property
    def rows_in(self) -> Mapping[str, int]:
        """Stream -> rows read."""
        return self.counters.rows_in

    @property
    def rows_out(self) -> Mapping[str, int]:
        """Query -> results."""
        return self.counters.results

    @property
    def late(self) -> Mapping[str, int]:
        """Stream -> rows dropped because they were below the watermark."""
        return self.counters.late

    @property
    def unreadable(self) -> Mapping[str, int]:
        """Stream -> records left out because they cannot be read as declared."""
        return self.counters.unreadable

    @property
    def lost(self) -> Mapping[str, int]:
        """Stream -> records that were deleted before they were read."""
        return self.counters.lost

    @property
    def untimed(self) -> Mapping[str, int]:
        """Stream -> rows dropped because their event time is NULL."""
        return self.counters.untimed

    @property
    def wave_seconds(self) -> dict[int, float]:
        """Wave -> seconds of work, summed over the workers."""
        return {int(wave): spent for wave, spent in self.counters.seconds.items()}


@dataclass(frozen=True, slots=True)
class Progress(Counted):
    """One finished micro-batch."""

    batch: int
    seconds: float
    """Wall time from the start of the batch to its commit."""
    state_rows: int
    state_bytes: int
    segments: int
    watermark: datetime.datetime | int | None
    """The earliest watermark of all queries; None while there is none.  In microseconds if no datetime can hold it."""
    counters: Counters = field(default_factory=Counters)
    """What every part of the plan did in this batch."""
    notices: tuple[Notice, ...] = ()
    """Notices that are new with this batch."""
    watermarks: Mapping[str, Watermark] = field(default_factory=dict)
    """Query -> its watermark, the stream it waits for, and for how long.  A query that drops nothing has none."""
    newest: Mapping[str, int] = field(default_factory=dict)
    """Stream -> the newest event time so far, in microseconds."""
    lag: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Stream -> partition -> records that waited when the batch had been planned; streams that know it."""
    workers: int | None = None
    """How many workers the plan has."""

    @property
    def total_in(self) -> int:
        """Rows read in this batch."""
        return sum(self.rows_in.values())

    @property
    def total_out(self) -> int:
        """Results of this batch."""
        return sum(self.rows_out.values())

    def line(self) -> str:
        """The batch in one line."""
        parts = [
            f"batch {self.batch}",
            f"{self.total_in:,} rows in",
            f"{self.total_out:,} results",
            f"{self.seconds:.2f} s (waves {' + '.join(f'{s:.2f}' for _, s in sorted(self.wave_seconds.items()))})",
            f"state {self.state_rows:,} rows, {human_bytes(self.state_bytes)}",
        ]
        if self.watermark is not None:
            parts.append(f"watermark {say_time(self.watermark)}{self._held()}")
        if dropped := sum(self.late.values()):
            parts.append(f"{dropped:,} late rows dropped")
        if bad := sum(self.unreadable.values()):
            parts.append(f"{bad:,} unreadable records left out")
        if gone := sum(self.lost.values()):
            parts.append(f"{gone:,} records deleted before they were read")
        if waiting := sum(count for partitions in self.lag.values() for count in partitions.values()):
            parts.append(f"{waiting:,} records wait")
        if missing := sum(self.untimed.values()):
            parts.append(f"{missing:,} rows without event time dropped")
        parts += [f"notice: {notice.message}" for notice in self.notices]
        return "  ".join(parts)

    def __repr__(self) -> str:
        return f"<{self.line()}>"

    def _repr_html_(self) -> str:
        return markup_progress(self)

    def _held(self) -> str:
        """Which stream the watermark has been waiting for, if that is so for some batches."""
        held = max(self.watermarks.values(), key=lambda mark: mark.batches, default=None)
        return f" (held by {held.stream} for {held.batches:,} batches)" if held and held.batches >= SOME else ""


def human_bytes(count: float) -> str:
    """A number of bytes with a unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
