"""The rows of `bench.peers` as one SVG: a row of bars a workload, input rows per second on a logarithmic axis."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from bench.peerrun import RIGHT, Row
from bench.picture import head, key, short, text

COLOURS = {
    "weft": "#222255",
    "weft-flat": "#4477aa",
    "weft-rows": "#88aacc",
    "spark": "#ee6677",
    "spark-rocksdb": "#cc3311",
    "spark-rocksdb-v4": "#ee7733",
    "spark-v4": "#ddaa99",
    "flink": "#228833",
    "flink-multi": "#99bb55",
    "pathway": "#66ccee",
    "duckdb": "#bbbbbb",
    "polars": "#999999",
}
WIDTH, LEFT, BAR, GAP = 1000, 120, 11, 12
ACROSS = 5
"""Systems in a line of the legend."""
LOW, HIGH = 1e3, 3e7
"""Rows per second at both ends of the axis."""


def picture(rows: Sequence[Row], title: str) -> str:
    """The SVG document."""
    workloads = [*dict.fromkeys(row.workload for row in rows)]
    groups = {name: [row for row in rows if row.workload == name] for name in workloads}
    height = 70 + sum(len(group) * BAR + GAP for group in groups.values()) + 60
    parts = [
        head(WIDTH, height),
        text(WIDTH / 2, 20, title, "middle", 14),
        *_axis(height),
        *_groups(groups),
        *_legend(rows, height - 30),
        "</svg>",
    ]
    return "\n".join(parts)


def _groups(groups: dict[str, list[Row]]) -> Iterator[str]:
    y = 60.0
    for name, group in groups.items():
        yield text(LEFT - 8, y + len(group) * BAR / 2 + 4, name, "end")
        for row in group:
            yield from _bar(row, y)
            y += BAR
        y += GAP


def _bar(row: Row, y: float) -> Iterator[str]:
    rate = row.steady or row.speed
    if rate:
        wide = _x(rate) - LEFT
        faint = "" if row.verdict == RIGHT else ' fill-opacity="0.4"'
        yield (
            f'<rect x="{LEFT}" y="{y:.1f}" width="{wide:.1f}" height="{BAR - 1}" fill="{COLOURS[row.system]}"{faint}>'
            f"<title>{escape(row.system)}: {rate:,.0f} rows/s, {escape(row.verdict)}</title></rect>"
        )
    if row.verdict != RIGHT:
        said = f"{row.system} {row.verdict}"[:90]
        yield text((_x(rate) if rate else LEFT) + 6, y + BAR - 2, said, "start", 9)


def _axis(height: int) -> Iterator[str]:
    for power in range(3, 8):
        x = _x(10**power)
        yield f'<path d="M{x:.1f} 48V{height - 54}" stroke="#dddddd"/>'
        yield text(x, 44, short(10**power), "middle")


def _legend(rows: Sequence[Row], y: float) -> Iterator[str]:
    names = [*dict.fromkeys(row.system for row in rows)]
    for place, name in enumerate(names):
        column, line = place % ACROSS, place // ACROSS
        yield key(LEFT + 160 * column, y + 18 * line, COLOURS[name], name)


def _x(rate: float) -> float:
    share = math.log10(min(max(rate, LOW), HIGH) / LOW) / math.log10(HIGH / LOW)
    return LEFT + (WIDTH - LEFT - 30) * share
