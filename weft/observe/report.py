"""The report of a run, and the tally it is made from.

What must hold: a tally keeps sums and the last batches, so that a run of a million batches needs no more memory than
one of a thousand.  Of each kind of notice only the last is kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from weft.observe.counters import Counters
from weft.observe.epochs import EpochRecord
from weft.observe.markup import markup_report
from weft.observe.notice import Notice
from weft.observe.progress import Counted, Progress, human_bytes

KEPT = 1000
"""Batches whose progress is kept."""
SHOWN = 10
"""Epochs that a report prints."""


@dataclass(frozen=True, slots=True)
class RunReport(Counted):
    """Everything a run did; counters are sums over its batches."""

    batches: Sequence[Progress]
    """The last batches, at most 1,000."""
    count: int
    """How many batches there were."""
    counters: Counters = field(repr=False)
    """What every part of the plan did."""
    seconds: float
    """Wall time of the run: starting up, batches, and waiting for input."""
    starting: float | None = None
    """Seconds until the first batch began; None if there was none."""
    working: float = 0.0
    """Seconds in which batches ran."""
    stopped: bool = False
    """Whether the run was stopped before all input was read."""
    signal: int | None = None
    """The signal that stopped the run, if one did: 2 is Ctrl-C, 15 SIGTERM."""
    notices: tuple[Notice, ...] = ()
    """All notices of the run; of each kind only the last."""
    epochs: tuple[EpochRecord, ...] = ()
    """The epochs that have ended, where plans follow the data; at most 1,000."""

    @property
    def speed(self) -> float:
        """Rows a second while batches ran."""
        return sum(self.rows_in.values()) / self.working if self.working else 0.0

    def __str__(self) -> str:
        lines = [self._headline()]
        if self.starting is not None:
            lines.append(f"  time   {self._times()}")
        lines += [
            f"  stream {name:<16} {count:>12,} rows{_dropped_rows(self, name)}" for name, count in self.rows_in.items()
        ]
        lines += [
            f"  query  {name:<16} {count:>12,} results{self._watermark(name)}" for name, count in self.rows_out.items()
        ]
        if self.batches:
            last = self.batches[-1]
            lines.append(
                f"  state  {last.state_rows:,} rows, {human_bytes(last.state_bytes)}, {last.segments} segments"
            )
        lines += [f"  {epoch.line()}" for epoch in self.epochs[-SHOWN:]]
        lines += [f"  {line}" for notice in self.notices for line in notice.lines()]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return markup_report(self)

    def _watermark(self, query: str) -> str:
        mark = self.batches[-1].watermarks.get(query) if self.batches else None
        return "" if mark is None else f"  watermark {mark}"

    def _headline(self) -> str:
        rows, results = sum(self.rows_in.values()), sum(self.rows_out.values())
        how = "stopped after" if self.stopped else "done:"
        batches = f"{self.count:,} batch" + ("" if self.count == 1 else "es")
        return f"{how} {batches}, {rows:,} rows in, {results:,} results, {self.seconds:.1f} s"

    def _times(self) -> str:
        overall = sum(self.rows_in.values()) / self.seconds if self.seconds else 0.0
        return (
            f"{self.starting:.1f} s to start, {self.working:.1f} s in batches ({self.speed:,.0f} rows/s; "
            f"{overall:,.0f} rows/s overall)"
        )


class Tally:
    """What a run has done so far."""

    def __init__(self) -> None:
        self.count = 0
        self.counters = Counters()
        self.working = 0.0
        self._recent: deque[Progress] = deque(maxlen=KEPT)
        self._notices: dict[str, Notice] = {}

    def add(self, progress: Progress) -> None:
        """Add a batch that has ended."""
        self.count += 1
        self.working += progress.seconds
        self.counters = Counters.total([self.counters, progress.counters])  # a new sum: reports may hold the old one
        self._recent.append(progress)
        for notice in progress.notices:
            self.tell(notice)

    def tell(self, notice: Notice) -> None:
        """Add a notice."""
        self._notices.pop(notice.kind, None)
        self._notices[notice.kind] = notice

    def recent(self, most: int = KEPT) -> list[Progress]:
        """The last batches, the newest at the end."""
        kept = list(self._recent)
        return kept[-most:] if most > 0 else []

    def report(self, seconds: float, starting: float | None = None, *, stopped: bool = False) -> RunReport:
        """The report of a run that has taken so many seconds."""
        return RunReport(
            tuple(self._recent), self.count, self.counters, seconds, starting, self.working, stopped,
            notices=tuple(self._notices.values()),
        )  # fmt: skip


def _dropped_rows(report: RunReport, stream: str) -> str:
    parts = []
    if bad := report.unreadable.get(stream):
        parts.append(f"{bad:,} unreadable records left out")
    if gone := report.lost.get(stream):
        parts.append(f"{gone:,} deleted before they were read")
    if late := report.late.get(stream):
        parts.append(f"{late:,} late, dropped")
    if missing := report.untimed.get(stream):
        parts.append(f"{missing:,} without event time, dropped")
    return f"  ({'; '.join(parts)})" if parts else ""
