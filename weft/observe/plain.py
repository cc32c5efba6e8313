"""Progress and reports as plain data, for programs: JSON, logs, notebooks."""

from __future__ import annotations

from typing import Any

from weft.observe.notice import Notice
from weft.observe.progress import Progress
from weft.observe.report import RunReport
from weft.observe.watermark import Moment, Watermark, as_time, say_time


def plain_progress(progress: Progress) -> dict[str, Any]:
    """A batch as JSON-able data."""
    return {
        "batch": progress.batch,
        "seconds": round(progress.seconds, 6),
        "rows_in": dict(progress.rows_in),
        "rows_out": dict(progress.rows_out),
        "late": dict(progress.late),
        "untimed": dict(progress.untimed),
        "wave_seconds": {str(wave): round(spent, 6) for wave, spent in sorted(progress.wave_seconds.items())},
        "state": {"rows": progress.state_rows, "bytes": progress.state_bytes, "segments": progress.segments},
        "watermark": _moment(progress.watermark),
        "watermarks": {query: _watermark(mark) for query, mark in progress.watermarks.items()},
        "newest": {stream: _moment(as_time(micros)) for stream, micros in progress.newest.items()},
        "notices": [plain_notice(notice) for notice in progress.notices],
    }


def plain_report(report: RunReport) -> dict[str, Any]:
    """A run as JSON-able data: sums, and its last batch."""
    return {
        "batches": report.count,
        "seconds": round(report.seconds, 6),
        "starting": None if report.starting is None else round(report.starting, 6),
        "working": round(report.working, 6),
        "stopped": report.stopped,
        "signal": report.signal,
        "rows_in": dict(report.rows_in),
        "rows_out": dict(report.rows_out),
        "late": dict(report.late),
        "untimed": dict(report.untimed),
        "last": plain_progress(report.batches[-1]) if report.batches else None,
        "notices": [plain_notice(notice) for notice in report.notices],
    }


def plain_notice(notice: Notice) -> dict[str, str]:
    """A notice as JSON-able data."""
    return {
        "kind": notice.kind,
        "message": notice.message,
        "detail": notice.detail,
        "hint": notice.hint,
        "action": notice.action,
    }


def _watermark(mark: Watermark) -> dict[str, Any]:
    return {"at": _moment(mark.at), "held_by": mark.stream, "batches": mark.batches, "seconds": round(mark.seconds, 3)}


def _moment(moment: Moment | None) -> str | None:
    return None if moment is None else say_time(moment)
