"""A run in a notebook: one output that is written over after every batch.

IPython is asked only if it is there already; elsewhere a line on the terminal shows the run.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from weft.observe.board import Recent, say_lag
from weft.observe.markup import block, notices, table
from weft.observe.notice import Notice
from weft.observe.progress import Progress, human_bytes
from weft.observe.watermark import count_batches

LEAST = 0.2
"""Seconds between two updates: a notebook keeps each of them for a while."""


def in_notebook() -> bool:
    """Whether this program runs in the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return shell is not None and getattr(shell, "kernel", None) is not None


class LiveView:
    """Shows a run in the output of a cell."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._seen, self._drawn = Recent(time.monotonic()), 0.0

    def show(self, progress: Progress) -> None:
        """Show a finished batch, unless the last one was shown just now."""
        now = time.monotonic()
        self._seen.add(progress, now)
        if now - self._drawn >= LEAST or self._handle is None:
            self._draw(now, over=False)

    def tell(self, notice: Notice) -> None:
        """Show a notice that belongs to no batch."""
        self._seen.notice = notice

    def close(self) -> None:
        """The run is over: its last state stays."""
        if self._seen.count:
            self._draw(time.monotonic(), over=True)

    def _draw(self, now: float, *, over: bool) -> None:
        from IPython.display import HTML, display

        self._drawn = now
        shown = HTML(markup(self._seen, now, over=over))
        if self._handle is None:
            self._handle = display(shown, display_id=True)
        else:
            self._handle.update(shown)


def markup(seen: Recent, now: float, *, over: bool) -> str:
    """What has come so far, as HTML."""
    last = seen.last
    if last is None:
        return block("starting")
    recent, seconds = seen.rates(now)
    front = max(last.newest.values(), default=0)
    streams = [
        (name, rows, f"{recent.rows_in.get(name, 0) / seconds:,.0f}", _behind(front, last.newest.get(name)))
        for name, rows in seen.total.rows_in.items()
    ]
    queries = [
        (name, rows, f"{recent.results.get(name, 0) / seconds:,.0f}", str(last.watermarks.get(name, "")))
        for name, rows in seen.total.results.items()
    ]
    title = f"{'ended' if over else 'running'}: {count_batches(seen.count)}, the last one {last.seconds:.2f} s"
    state = f"<p style='margin:4px 0'>state: {last.state_rows:,} rows, {human_bytes(last.state_bytes)}</p>"
    told = notices([] if seen.notice is None else [seen.notice])
    return block(
        title,
        table(("stream", "rows", "rows/s", "behind"), streams),
        table(("query", "results", "per s", "watermark"), queries),
        state,
        told,
    )


def _behind(front: int, newest: int | None) -> str:
    return "" if newest is None else say_lag((front - newest) / 1e6)
