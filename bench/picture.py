"""The figures of `bench.plans` as one SVG: throughput by plan, and tuples sent by capacity beside the model.

Written by hand: a plotting library would be the largest dependency of the project, for two charts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from bench.papers import RATIOS
from bench.runs import Figures
from bench.tables import Timed

COLOURS = {"flat": "#4477aa", "left_deep": "#ee6677", "tree": "#228833", "auto": "#ccbb44"}
LINES = ("#4477aa", "#ee6677", "#228833")
WIDTH, HEIGHT = 1180, 430
LEFT = (70, 60, 640, 300)
RIGHT = (810, 60, 330, 300)
"""x, y, width and height of the two charts."""
Box = tuple[int, int, int, int]
Ratios = Mapping[str, Sequence[tuple[float, float, float]]]
"""Chain -> (capacity by size of a relation, measured ratio, ratio of the model)"""


def picture(timed: Timed, counted: Sequence[Figures], title: str) -> str:
    """The SVG document."""
    parts = [
        head(WIDTH, HEIGHT),
        text(WIDTH / 2, 22, title, "middle", 14),
        *_throughput(timed),
        *_sent(ratios(counted)),
        "</svg>",
    ]
    return "\n".join(parts)


def ratios(counted: Sequence[Figures]) -> Ratios:
    """Left-deep over flat, by chain and capacity."""
    flats = {(f.workload, f.capacity): f for f in counted if f.label == "flat"}
    found: dict[str, list[tuple[float, float, float]]] = {}
    for f in counted:
        other = flats.get((f.workload, f.capacity))
        if f.label == "left_deep" and other is not None and f.capacity:
            relation = f.rows / (1 + f.plan.count(","))
            point = (f.capacity / relation, f.sent / other.sent, f.model_sent / other.model_sent)
            found.setdefault(f.workload, []).append(point)
    return found


# ---------------------------------------------------------------------------------------------- charts


def _throughput(timed: Timed) -> Iterator[str]:
    x, y, width, height = LEFT
    top = ceiling(max(f.speed for found in timed.values() for f in found.values()))
    yield text(x + width / 2, y - 12, "input rows per second, Spark, 2 workers", "middle")
    yield from frame(LEFT, [(i / 4, short(top * i / 4)) for i in range(5)])
    group = width / len(timed)
    for number, (name, found) in enumerate(timed.items()):
        bar = group * 0.8 / max(1, len(found))
        start = x + group * (number + 0.1)
        for place, (label, f) in enumerate(found.items()):
            tall = height * f.speed / top
            yield (
                f'<rect x="{start + bar * place:.1f}" y="{y + height - tall:.1f}" width="{bar * 0.9:.1f}" '
                f'height="{tall:.1f}" fill="{COLOURS.get(label, "#888888")}"><title>{escape(f.plan)}: '
                f"{f.speed:,.0f} rows/s</title></rect>"
            )
        yield text(start + group * 0.4, y + height + 18, name, "middle")
    labels = dict.fromkeys(label for found in timed.values() for label in found)
    for place, label in enumerate(labels):
        yield key(x + 110 * place, y + height + 40, COLOURS.get(label, "#888888"), label)


def _sent(found: Ratios) -> Iterator[str]:
    x, y, width, height = RIGHT
    top = 1.75
    yield text(x + width / 2, y - 12, "tuples sent, left-deep / flat", "middle")
    yield from frame(RIGHT, [(v / top, f"{v:.2g}") for v in (0, 0.5, 1, 1.5)])
    yield text(x + width / 2, y + height + 34, "what a task holds, as a share of a relation", "middle")

    def place(capacity: float, ratio: float) -> tuple[float, float]:
        return x + width * (0.05 + 0.9 * (1 + math.log10(capacity))), y + height * (1 - min(ratio, top) / top)

    for capacity in (0.1, 0.2, 0.5, 1.0):
        yield text(place(capacity, 0)[0], y + height + 18, f"{capacity:g}", "middle")
    for number, (name, points) in enumerate(found.items()):
        colour = LINES[number % len(LINES)]
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in (place(c, model) for c, _, model in points))
        yield f'<polyline points="{path}" fill="none" stroke="{colour}"/>'
        for px, py in (place(capacity, ratio) for capacity, ratio, _ in points):
            yield f'<circle cx="{px:.1f}" cy="{py:.1f}" r="4" fill="{colour}"/>'
        for px, py in (place(_near(points, theirs), ratio) for _, chain, theirs, ratio in RATIOS if chain.name == name):
            yield f'<path d="M{px - 6:.1f} {py:.1f}h12m-6 -6v12" stroke="black"/>'
        yield key(x + 100 * number, y + height + 50, colour, name)
    yield text(x, y + height + 66, "line: model, dot: measured, cross: derived from the paper", "start", 11)


# ----------------------------------------------------------------------------------------------- pieces


def frame(box: Box, ticks: Sequence[tuple[float, str]]) -> Iterator[str]:
    x, y, width, height = box
    for share, label in ticks:
        line = y + height * (1 - share)
        yield f'<path d="M{x} {line:.1f}h{width}" stroke="#dddddd"/>'
        yield text(x - 6, line + 4, label, "end")
    yield f'<path d="M{x} {y}v{height}h{width}" fill="none" stroke="black"/>'


def head(width: int, height: int) -> str:
    """The beginning of a document of this size."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        f'font-size="12"><rect width="{width}" height="{height}" fill="white"/>'
    )


def key(x: float, y: float, colour: str, label: str) -> str:
    return f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{colour}"/>' + text(x + 17, y, label, "start")


def text(x: float, y: float, words: str, anchor: str, size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(words)}</text>'


def _near(points: Sequence[tuple[float, float, float]], capacity: float) -> float:
    """The counted capacity that stands for that of the paper."""
    return min((c for c, _, _ in points), key=lambda c: abs(c - capacity))


def ceiling(value: float) -> float:
    """The next round number."""
    unit: float = 10 ** math.floor(math.log10(value))
    return next(unit * step for step in (1, 2, 4, 5, 8, 10) if unit * step >= value)


def short(value: float) -> str:
    return f"{value / 1e6:g} M" if value >= 1e6 else f"{value / 1e3:g} k" if value >= 1e3 else f"{value:g}"
