"""A curve of `bench.scale` as an SVG: lines over one axis, the other one from zero."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.picture import ceiling, frame, head, key, short, text

WIDTH, HEIGHT = 640, 420
BOX = (80, 50, 520, 280)
COLOURS = ("#4477aa", "#ee6677", "#228833")


@dataclass(frozen=True, slots=True)
class Line:
    """A named line through points."""

    name: str
    points: tuple[tuple[float, float], ...]


def chart(lines: Sequence[Line], across: str, unit: str, title: str, logarithmic: bool) -> str:
    """The SVG document."""
    top = ceiling(max(value for line in lines for _, value in line.points))
    x, y, width, height = BOX
    parts = [
        head(WIDTH, HEIGHT),
        text(WIDTH / 2, 20, title, "middle", 11),
        text(x, y - 10, unit, "start"),
        *frame(BOX, [(i / 4, short(top * i / 4)) for i in range(5)]),
        text(x + width / 2, y + height + 38, across, "middle"),
        *_lines(lines, top, logarithmic),
        "</svg>",
    ]
    return "\n".join(parts)


def _lines(lines: Sequence[Line], top: float, logarithmic: bool) -> Iterator[str]:
    x, y, width, height = BOX
    scaled = math.log10 if logarithmic else float
    values = sorted({at for line in lines for at, _ in line.points})
    low, high = scaled(values[0]), scaled(values[-1])

    def place(at: float, value: float) -> tuple[float, float]:
        share = (scaled(at) - low) / (high - low) if high > low else 0.5
        return x + width * (0.04 + 0.92 * share), y + height * (1 - value / top)

    for at in values:
        yield text(place(at, 0)[0], y + height + 18, short(at), "middle")
    for number, line in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in (place(*point) for point in line.points))
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
        for px, py in (place(*point) for point in line.points):
            yield f'<circle cx="{px:.1f}" cy="{py:.1f}" r="4" fill="{colour}"/>'
        yield key(x + 160 * number, HEIGHT - 20, colour, line.name)
