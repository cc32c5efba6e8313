"""What Weft says through `logging`, under the name `weft`: one line a batch, starts and ends, changes, notices.

    weft.run       INFO     a run begins, a batch has ended, a run has ended
                   ERROR    a run has failed
    weft.notice    WARNING  something that a person may want to change; INFO for what is only worth knowing
    weft.history   WARNING  the history cannot be written
    weft.console   INFO     where the console is, who was refused

Every record carries its numbers as `record.weft`, a flat dict, so that structured handlers need not read text.  As a
library Weft adds no handler: programs choose theirs.  `show_logs` is what `weft run --log` uses.
"""

from __future__ import annotations

import datetime
import json
import logging
import sys
from pathlib import Path
from typing import Any, Literal, TextIO

from weft.observe.notice import Notice
from weft.observe.progress import Progress
from weft.observe.watermark import count_batches

LogFormat = Literal["text", "json"]
FORMATS: tuple[LogFormat, ...] = ("text", "json")
QUIET = ("plan-changed",)
"""Kinds of notices that ask for nothing."""

logging.getLogger("weft").addHandler(logging.NullHandler())
_run, _notices = logging.getLogger("weft.run"), logging.getLogger("weft.notice")


class Log:
    """Says what a run does."""

    def __init__(self, root: Path) -> None:
        self._root, self._batches = root, 0

    def begin(self, every: float | None) -> None:
        """The run begins."""
        pace = "reads what is there now" if every is None else f"looks for input every {every:g} s"
        facts = {"event": "start", "checkpoint": str(self._root), "every": every}
        _run.info("run begins on %s: %s", self._root, pace, extra={"weft": facts})

    def note(self, progress: Progress) -> None:
        """A batch has ended."""
        self._batches += 1
        if _run.isEnabledFor(logging.INFO):
            _run.info("%s", progress.line(), extra={"weft": batch_numbers(progress)})
        for notice in progress.notices:
            self.tell(notice)

    def tell(self, notice: Notice) -> None:
        """Something is worth knowing."""
        level = logging.INFO if notice.kind in QUIET else logging.WARNING
        facts = {"event": "notice", "kind": notice.kind, "detail": notice.detail, "hint": notice.hint}
        _notices.log(level, "%s: %s", notice.kind, notice.message, extra={"weft": facts})

    def end(self, how: str, why: str | None) -> None:
        """The run has ended."""
        facts = {"event": "end", "how": how, "batches": self._batches, "why": why}
        if how == "failed":
            _run.error("run failed: %s", why, extra={"weft": facts})
        else:
            _run.info("run %s: %s", how, count_batches(self._batches), extra={"weft": facts})


def batch_numbers(progress: Progress) -> dict[str, Any]:
    """The numbers of a batch, flat."""
    marks = [str(mark.at) for mark in progress.watermarks.values() if mark.at is not None]
    return {
        "event": "batch", "batch": progress.batch, "seconds": round(progress.seconds, 4), "rows_in": progress.total_in,
        "results": progress.total_out, "late": sum(progress.late.values()), "state_rows": progress.state_rows,
        "state_bytes": progress.state_bytes, "segments": progress.segments, "watermark": min(marks, default=None),
        "waiting": sum(count for waiting in progress.lag.values() for count in waiting.values()),
        "rows_by_stream": dict(progress.rows_in), "results_by_query": dict(progress.rows_out),
    }  # fmt: skip


class JsonLines(logging.Formatter):
    """A record as one line of JSON: time, level, logger, message, and its numbers."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        at = datetime.datetime.fromtimestamp(record.created, datetime.UTC).isoformat(timespec="milliseconds")
        line = {"time": at, "level": record.levelname.lower(), "logger": record.name, "message": record.getMessage()}
        line |= getattr(record, "weft", {})
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def show_logs(form: LogFormat, out: TextIO | None = None) -> None:
    """Write all that Weft says to stderr, for people or for programs; replaces what an earlier call did."""
    weft = logging.getLogger("weft")
    for old in [handler for handler in weft.handlers if getattr(handler, "is_ours", False)]:
        weft.removeHandler(old)
    handler = logging.StreamHandler(out or sys.stderr)
    handler.setFormatter(
        JsonLines() if form == "json" else logging.Formatter("%(asctime)s %(levelname)-7s %(message)s")
    )
    handler.is_ours = True  # type: ignore[attr-defined]
    weft.addHandler(handler)
    weft.setLevel(logging.INFO)
    weft.propagate = False
