"""Progress of a run, one record for each micro-batch, and the report at the end: both are views of their counters."""

from __future__ import annotations

import datetime
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from weft.observe.counters import Counters
from weft.observe.notice import Notice


class _Counted:
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
    def untimed(self) -> Mapping[str, int]:
        """Stream -> rows dropped because their event time is NULL."""
        return self.counters.untimed

    @property
    def wave_seconds(self) -> dict[int, float]:
        """Wave -> seconds of work, summed over the workers."""
        return {int(wave): spent for wave, spent in self.counters.seconds.items()}


@dataclass(frozen=True, slots=True)
class Progress(_Counted):
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
            parts.append(f"watermark {self.watermark}")
        if dropped := sum(self.late.values()):
            parts.append(f"{dropped:,} late rows dropped")
        if missing := sum(self.untimed.values()):
            parts.append(f"{missing:,} rows without event time dropped")
        parts += [f"notice: {notice.message}" for notice in self.notices]
        return "  ".join(parts)


@dataclass(frozen=True)
class RunReport(_Counted):
    """Everything a run did; counters are sums over its batches."""

    batches: Sequence[Progress]
    seconds: float
    """Wall time of the run, start-up included."""
    stopped: bool = False
    """Whether the run was stopped before all input was read."""
    told: Sequence[Notice] = ()
    """Notices between batches: changes of the plan."""

    @cached_property
    def counters(self) -> Counters:
        """What every part of the plan did."""
        return Counters.total(batch.counters for batch in self.batches)

    @property
    def notices(self) -> tuple[Notice, ...]:
        """All notices of the run; of each kind only the last."""
        of_batches = [notice for batch in self.batches for notice in batch.notices]
        return tuple({notice.kind: notice for notice in (*self.told, *of_batches)}.values())

    def __str__(self) -> str:
        rows, results = sum(self.rows_in.values()), sum(self.rows_out.values())
        speed = rows / self.seconds if self.seconds else 0.0
        how = "stopped after" if self.stopped else "done:"
        figures = f"{rows:,} rows in, {results:,} results, {self.seconds:.1f} s ({speed:,.0f} rows/s)"
        batches = f"{len(self.batches)} batch" + ("" if len(self.batches) == 1 else "es")
        lines = [f"{how} {batches}, {figures}"]
        lines += [
            f"  stream {name:<16} {count:>12,} rows{_dropped_rows(self, name)}" for name, count in self.rows_in.items()
        ]
        lines += [f"  query  {name:<16} {count:>12,} results" for name, count in self.rows_out.items()]
        if self.batches:
            last = self.batches[-1]
            lines.append(
                f"  state  {last.state_rows:,} rows, {human_bytes(last.state_bytes)}, {last.segments} segments"
            )
        lines += [f"  {line}" for notice in self.notices for line in notice.lines()]
        return "\n".join(lines)


def human_bytes(count: float) -> str:
    """A number of bytes with a unit."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def _dropped_rows(report: RunReport, stream: str) -> str:
    parts = []
    if late := report.late.get(stream):
        parts.append(f"{late:,} late, dropped")
    if missing := report.untimed.get(stream):
        parts.append(f"{missing:,} without event time, dropped")
    return f"  ({'; '.join(parts)})" if parts else ""
