"""Batches and reports as HTML, for notebooks: small tables that follow the reader's colours.

What must hold: all text of users is escaped, and nothing is loaded from elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from weft.observe.notice import Notice

if TYPE_CHECKING:
    from weft.observe.progress import Progress
    from weft.observe.report import RunReport

_CELL = "padding:2px 10px;border-bottom:1px solid #8884;vertical-align:top"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A small table; numbers stand to the right."""
    titles = "".join(f'<th style="{_CELL};text-align:left">{escape(name)}</th>' for name in head)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f'<table style="border-collapse:collapse;font-size:13px"><tr>{titles}</tr>{body}</table>'


def _cell(value: object) -> str:
    if isinstance(value, int | float):
        shown = f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"
        return f'<td style="{_CELL};text-align:right">{shown}</td>'
    return f'<td style="{_CELL};text-align:left">{escape(str(value))}</td>'


def block(title: str, *parts: str) -> str:
    """A title and what stands below it."""
    return f'<div style="font:13px system-ui,sans-serif"><b>{escape(title)}</b>{"".join(parts)}</div>'


def notices(found: Iterable[Notice]) -> str:
    """Notices, each with what to do."""
    said = (
        f"<p style='margin:4px 0'>⚠ <b>{escape(notice.message)}</b><br>{escape(notice.hint)} "
        f"<code>{escape(notice.action)}</code></p>"
        for notice in found
    )
    return "".join(said)


def markup_progress(progress: Progress) -> str:
    """A batch."""
    from weft.observe.progress import human_bytes

    rows = [(f"stream {name}", rows, "rows") for name, rows in progress.rows_in.items()]
    rows += [(f"query {name}", results, "results") for name, results in progress.rows_out.items()]
    rows.append(("state", progress.state_rows, f"rows, {human_bytes(progress.state_bytes)}"))
    title = f"batch {progress.batch}, {progress.seconds:.2f} s"
    return block(title, table(("", "count", ""), rows), notices(progress.notices))


def markup_report(report: RunReport) -> str:
    """A run."""
    from weft.observe.progress import human_bytes

    late = report.late
    rows: list[Sequence[object]] = [
        (f"stream {name}", count, f"{late[name]:,} late" if late.get(name) else "rows")
        for name, count in report.rows_in.items()
    ]
    rows += [(f"query {name}", count, "results") for name, count in report.rows_out.items()]
    if report.batches:
        last = report.batches[-1]
        rows.append(("state", last.state_rows, f"rows, {human_bytes(last.state_bytes)}, {last.segments} segments"))
    title = str(report).partition("\n")[0]
    return block(title, table(("", "count", ""), rows), notices(report.notices))
