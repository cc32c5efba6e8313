"""A table on the terminal that is kept up to date while a run goes on: rates, lag, state.

    job.sql   running 12 s   batch 41 in 0.21 s
    stream      rows      rows/s   late   newest event          behind
    orders      12,400    1,030    0      2026-01-01 09:30:00   0 s
    query       results   per s    watermark
    ...

`lines` is a plain function of the batches so far; `LiveBoard` writes it over itself.  On a pipe, in a file and on a
dumb terminal there is nothing to write over, so one line for each batch is written instead, as without the table.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TextIO

from weft.observe.counters import Counters
from weft.observe.live import LiveLine
from weft.observe.notice import Notice
from weft.observe.progress import Progress, human_bytes
from weft.observe.watermark import as_time, count_batches, say_time

RECENT = 10.0
"""Rates are over so many of the last seconds."""
NARROW = 20
"""A terminal is never taken for narrower than this."""

Row = tuple[str, ...]


class Recent:
    """What has come so far, and how fast in the last seconds."""

    def __init__(self, began: float) -> None:
        self.began, self.count = began, 0
        self.last: Progress | None = None
        self.notice: Notice | None = None
        self.total = Counters()
        self._batches: deque[tuple[float, Progress]] = deque()

    def add(self, progress: Progress, now: float) -> None:
        """A batch has ended now."""
        self.count, self.last = self.count + 1, progress
        self.total.merge(progress.counters.plain())
        self._batches.append((now, progress))
        for notice in progress.notices:
            self.notice = notice

    def rates(self, now: float) -> tuple[Counters, float]:
        """The sum of the last seconds, and how many they are."""
        while self._batches and self._batches[0][0] < now - RECENT:
            self._batches.popleft()
        return Counters.total(progress.counters for _, progress in self._batches), max(
            0.001, min(RECENT, now - self.began)
        )


def lines(name: str, seen: Recent, now: float, width: int, *, over: bool = False) -> list[str]:
    """The table, cut to a width."""
    state = "ended" if over else "running" if seen.count else "starting"
    head = f"{name}   {state} {max(0.0, now - seen.began):.0f} s"
    last = seen.last
    if last is None:
        return [_cut(head, width)]
    recent, seconds = seen.rates(now)
    told = [f"{head}   {count_batches(seen.count)}, the last one {last.seconds:.2f} s"]
    told += _aligned([("stream", "rows", "rows/s", "late", "newest event", "behind"), *_streams(seen, recent, seconds)])
    told += _aligned([("query", "results", "per s", "watermark"), *_queries(seen, recent, seconds)])
    told.append(f"state   {last.state_rows:,} rows, {human_bytes(last.state_bytes)}, {last.segments} segments")
    if seen.notice is not None:
        told.append(f"notice  {seen.notice.message}")
    return [_cut(line, width) for line in told]


def _streams(seen: Recent, recent: Counters, seconds: float) -> Iterator[Row]:
    assert seen.last is not None
    newest = seen.last.newest
    front = max(newest.values(), default=0)
    for stream, rows in seen.total.rows_in.items():
        micros = newest.get(stream)
        yield (
            stream,
            f"{rows:,}",
            f"{recent.rows_in.get(stream, 0) / seconds:,.0f}",
            f"{seen.total.late.get(stream, 0):,}",
            "" if micros is None else say_time(as_time(micros)).partition(".")[0],
            "" if micros is None else say_lag((front - micros) / 1e6),
        )


def _queries(seen: Recent, recent: Counters, seconds: float) -> Iterator[Row]:
    assert seen.last is not None
    for query, results in seen.total.results.items():
        mark = seen.last.watermarks.get(query)
        rate = f"{recent.results.get(query, 0) / seconds:,.0f}"
        yield query, f"{results:,}", rate, "" if mark is None else str(mark).partition(".")[0]


def say_lag(seconds: float) -> str:
    """A span of time in its largest unit.

    >>> say_lag(0), say_lag(59.4), say_lag(90), say_lag(7200), say_lag(200_000)
    ('0 s', '59 s', '1.5 min', '2.0 h', '2.3 d')
    """
    for unit, size in (("d", 86_400.0), ("h", 3_600.0), ("min", 60.0)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def _aligned(rows: Sequence[Row]) -> Iterator[str]:
    """Columns as wide as they need; numbers stand to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.rjust(size) if 0 < place < 4 and not cell[:1].isalpha() else cell.ljust(size)
            for place, (cell, size) in enumerate(zip(row, widths, strict=True))
        ]
        yield "   ".join(cells).rstrip()


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"


class LiveBoard:
    """The table on a terminal, written anew after every batch and every second."""

    def __init__(
        self,
        name: str,
        stream: TextIO | None = None,
        now: Callable[[], float] = time.monotonic,
        every: float = 1.0,
    ) -> None:
        self._name, self._stream, self._now, self._every = name, stream or sys.stderr, now, every
        self._plain = LiveLine(wanted=True) if not _can_rewrite(self._stream) else None
        self._seen, self._drawn, self._lock = Recent(now()), 0, threading.Lock()
        self._ended = threading.Event()
        if self._plain is None:
            threading.Thread(target=self._tick, name="weft-board", daemon=True).start()

    def show(self, progress: Progress) -> None:
        """Show a finished batch."""
        if self._plain is not None:
            self._plain.show(progress)
            return
        with self._lock:
            self._seen.add(progress, self._now())
            self._draw()

    def tell(self, notice: Notice) -> None:
        """Show a notice that belongs to no batch."""
        if self._plain is not None:
            self._plain.tell(notice)
            return
        with self._lock:
            self._seen.notice = notice
            self._draw()

    def close(self) -> None:
        """The run is over: the table stays as it is."""
        self._ended.set()
        if self._plain is not None:
            self._plain.close()
            return
        with self._lock:
            self._draw(over=True)

    def _tick(self) -> None:
        while not self._ended.wait(self._every):
            with self._lock:
                if not self._ended.is_set():
                    self._draw()

    def _draw(self, *, over: bool = False) -> None:
        size = shutil.get_terminal_size()
        shown = lines(self._name, self._seen, self._now(), max(NARROW, size.columns - 1), over=over)
        self._write(shown[: max(1, size.lines - 1)])  # what does not fit cannot be written over

    def _write(self, shown: Iterable[str]) -> None:
        found = list(shown)
        up = f"\x1b[{self._drawn}F" if self._drawn else ""
        body = "".join(f"{line}\x1b[K\n" for line in found)
        self._stream.write(f"{up}{body}\x1b[J")
        self._stream.flush()
        self._drawn = len(found)


def _can_rewrite(stream: TextIO) -> bool:
    return stream.isatty() and os.environ.get("TERM", "") != "dumb"
