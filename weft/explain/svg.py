"""Charts as SVG: drawn plans for notebooks, documents and `weft explain --open`.

What must hold: all text of users is escaped; nothing is loaded from elsewhere; colours follow the reader's light or
dark setting; the same chart gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from weft.explain.chart import Chart, Group, Link, Node, Part, flat
from weft.explain.draw import draw
from weft.explain.layout import Layout, lay_out
from weft.explain.pages import Page

LETTER, LINE, MARGIN = 6.7, 16.0, 10.0
"""Width of a letter and height of a line, as they are about everywhere; room inside a box."""
LONGEST = 44
"""So many letters of a line are shown; all of it is in the tooltip."""
BESIDE, BETWEEN, FRAME = 18.0, 50.0, 26.0
"""Room between boxes of a layer, between layers besides labels, and for the title of a frame."""

STYLE = """
.weft-chart{font:12px system-ui,sans-serif;max-width:100%;height:auto}
.weft-chart text{fill:#1f2933}.weft-chart .head{font-weight:600}
.weft-chart .box{stroke:#52606d;fill:#fff}.weft-chart .input{fill:#e0f2fe}.weft-chart .store{fill:#fef3c7}
.weft-chart .probe{fill:#f1f5f9}.weft-chart .result{fill:#dcfce7}.weft-chart .alias{fill:#e0f2fe}
.weft-chart .line{stroke:#52606d;fill:none}.weft-chart .look{stroke-dasharray:4 3;stroke:#9aa5b1}
.weft-chart .tip{fill:#52606d}.weft-chart .label{font-size:11px;paint-order:stroke;stroke:#fff;stroke-width:4px}
.weft-chart .frame{fill:none;stroke:#cbd2d9}
@media (prefers-color-scheme:dark){.weft-chart text{fill:#e4e7eb}.weft-chart .box{stroke:#9aa5b1;fill:#1f2933}
.weft-chart .input,.weft-chart .alias{fill:#0c4a6e}.weft-chart .store{fill:#713f12}.weft-chart .probe{fill:#323f4b}
.weft-chart .result{fill:#14532d}.weft-chart .label{stroke:#1f2933}.weft-chart .line{stroke:#9aa5b1}}
""".replace("\n", "")


@dataclass(frozen=True, slots=True)
class Box:
    """A node with its place: the middle, and half of its size."""

    node: Node
    x: float
    y: float
    half_width: float
    half_height: float


@dataclass(frozen=True, slots=True)
class Drawing:
    """SVG elements and the room they take."""

    elements: tuple[str, ...]
    width: float
    height: float


def svg(page: Page) -> str:
    """The page as a drawing."""
    chart = draw(page)
    made = _draw(chart.parts, chart.direction)
    size = f'width="{_n(made.width)}" height="{_n(made.height)}" viewBox="0 0 {_n(made.width)} {_n(made.height)}"'
    tip = '<marker id="weft-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    tip += '<path class="tip" d="M0 0 8 4 0 8z"/></marker>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="weft-chart" role="img" {size}>'
    named = f"<title>{escape(_title(chart))}</title><style>{STYLE}</style><defs>{tip}</defs>"
    return "\n".join([head, named, *made.elements, "</svg>"]) + "\n"


def _title(chart: Chart) -> str:
    results = [node.label[0] for node in flat(chart.parts) if isinstance(node, Node) and node.kind == "result"]
    groups = [part.title for part in chart.parts if isinstance(part, Group)]
    return "Plan: " + ", ".join(groups or results)


def _draw(parts: Sequence[Part], direction: str) -> Drawing:
    """Frames one below the other, then what stands in none."""
    drawings = [_frame(part, direction) for part in parts if isinstance(part, Group)]
    loose = [part for part in parts if not isinstance(part, Group)]
    if loose:
        drawings.append(_boxes(loose, direction))
    elements: list[str] = []
    top = 0.0
    for made in drawings:
        elements += [f'<g transform="translate(0 {_n(top)})">', *made.elements, "</g>"]
        top += made.height
    return Drawing(tuple(elements), max((made.width for made in drawings), default=0.0), top)


def _frame(group: Group, direction: str) -> Drawing:
    inside = _draw(group.parts, direction)
    width, height = max(inside.width, LETTER * len(group.title) + 4 * MARGIN), inside.height + FRAME
    title = f'<text class="head" x="{_n(2 * MARGIN)}" y="{_n(FRAME - 4)}">{escape(group.title)}</text>'
    border = f'<rect class="frame" x="2" y="2" width="{_n(width - 4)}" height="{_n(height - 4)}" rx="6"/>'
    moved = (f'<g transform="translate(0 {_n(FRAME)})">', *inside.elements, "</g>")
    return Drawing((border, title, *moved), width, height)


def _boxes(parts: Iterable[Part], direction: str) -> Drawing:
    drawn = list(flat(parts))
    nodes, links = [p for p in drawn if isinstance(p, Node)], [p for p in drawn if isinstance(p, Link)]
    sheet = _places(nodes, links, sideways=direction == "LR")
    lines = [element for number, link in enumerate(links) for element in _line(link, sheet.way(number, link), sheet)]
    shown = [element for box in sheet.boxes.values() for element in _box(box)]
    labels = [element for number, link in enumerate(links) for element in _label(link, sheet.way(number, link))]
    return Drawing((*lines, *shown, *labels), sheet.width, sheet.height)


Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Sheet:
    """Boxes with their places, and the way of every line between them."""

    boxes: Mapping[str, Box]
    layout: Layout
    spans: Sequence[tuple[float, float]]
    """Where each layer begins and ends."""
    sideways: bool
    width: float
    height: float

    def way(self, number: int, link: Link) -> list[Point]:
        """The points that a line goes through: straight past a layer, bent between two."""
        start, end = _ends(self.boxes[link.start], self.boxes[link.end], sideways=self.sideways)
        places = [(along, at + MARGIN) for rank, at in self.layout.ways.get(number, ()) for along in self.spans[rank]]
        return [start, *(places if self.sideways else [(across, along) for along, across in places]), end]


def _places(nodes: Sequence[Node], links: Sequence[Link], *, sideways: bool) -> Sheet:
    """Every box with its place, and the room for all."""
    sizes = {node.id: _size(node) for node in nodes}
    lay = lay_out({name: size[1 if sideways else 0] for name, size in sizes.items()}, links, BESIDE)
    by_id = {node.id: node for node in nodes}
    boxes: dict[str, Box] = {}
    spans: list[tuple[float, float]] = []
    at = MARGIN
    for rank, layer in enumerate(lay.layers):
        depth = max((sizes[name][0 if sideways else 1] for name in layer), default=0.0)
        for name in layer:
            along, across = at + depth / 2, lay.across[name] + MARGIN
            x, y = (along, across) if sideways else (across, along)
            boxes[name] = Box(by_id[name], x, y, sizes[name][0] / 2, sizes[name][1] / 2)
        spans.append((at, at + depth))
        leaving = [link for link in links if lay.ranks[link.start] == rank]
        at += depth + BETWEEN + (_widest(leaving) if sideways else 0.0)
    along, across = (spans[-1][1] if spans else 0.0) + MARGIN, lay.extent + 2 * MARGIN
    width, height = (along, across) if sideways else (across, along)
    return Sheet({name: boxes[name] for name in by_id}, lay, spans, sideways, width, height)


def _widest(links: Iterable[Link]) -> float:
    """Room for the longest label."""
    shown = (line for link in links if link.line != "-.->" for line in link.label)
    return max((min(len(line), LONGEST) * LETTER for line in shown), default=0.0)


def _size(node: Node) -> tuple[float, float]:
    longest = max((min(len(line), LONGEST) for line in node.label), default=1)
    return longest * LETTER + 2 * MARGIN, max(1, len(node.label)) * LINE + MARGIN


def _box(box: Box) -> Iterator[str]:
    node = box.node
    round_ = {"input": box.half_height, "alias": 8.0, "probe": 8.0, "store": 3.0}.get(node.kind, 2.0)
    yield f"<g><title>{escape(chr(10).join(node.label))}</title>"
    yield (
        f'<rect class="box {node.kind}" x="{_n(box.x - box.half_width)}" y="{_n(box.y - box.half_height)}" '
        f'width="{_n(2 * box.half_width)}" height="{_n(2 * box.half_height)}" rx="{_n(round_)}"/>'
    )
    top = box.y - (len(node.label) - 1) * LINE / 2 + 4
    for number, line in enumerate(node.label):
        first = ' class="head"' if number == 0 else ""
        yield f'<text{first} x="{_n(box.x)}" y="{_n(top + number * LINE)}" text-anchor="middle">{_short(line)}</text>'
    yield "</g>"


def _line(link: Link, way: Sequence[Point], sheet: Sheet) -> Iterator[str]:
    path = f"M{_p(*way[0])}" + "".join(_bend(a, b, sheet.sideways) for a, b in pairwise(way))
    tip = "" if link.line == "---" else ' marker-end="url(#weft-tip)"'
    look = " look" if link.line == "-.->" else ""
    yield f'<path class="line{look}" d="{path}"{tip}/>'


def _bend(a: Point, b: Point, sideways: bool) -> str:
    """A curve that leaves and arrives along the layers."""
    half = ((b[0] - a[0]) if sideways else (b[1] - a[1])) / 2
    c, d = ((a[0] + half, a[1]), (b[0] - half, b[1])) if sideways else ((a[0], a[1] + half), (b[0], b[1] - half))
    return f"C{_p(*c)} {_p(*d)} {_p(*b)}"


def _ends(a: Box, b: Box, *, sideways: bool) -> tuple[tuple[float, float], tuple[float, float]]:
    """Where a line leaves one box and reaches the other."""
    if not sideways:
        down = 1 if b.y >= a.y else -1
        return (a.x, a.y + down * a.half_height), (b.x, b.y - down * b.half_height)
    if abs(a.x - b.x) < a.half_width + b.half_width:  # the same layer
        down = 1 if b.y >= a.y else -1
        return (a.x, a.y + down * a.half_height), (b.x, b.y - down * b.half_height)
    right = 1 if b.x >= a.x else -1
    return (a.x + right * a.half_width, a.y), (b.x - right * b.half_width, b.y)


def _label(link: Link, way: Sequence[Point]) -> Iterator[str]:
    """The label stands in the gap after the box where a line begins, so that it covers no other box."""
    if not link.label or link.line == "-.->":  # a dashed line says "look" by itself
        return
    (x1, y1), (x2, y2) = way[0], way[1]
    x, y = (x1 + x2) / 2, (y1 + y2) / 2 - (len(link.label) - 1) * LINE / 2
    for number, line in enumerate(link.label):
        yield f'<text class="label" x="{_n(x)}" y="{_n(y + number * LINE)}" text-anchor="middle">{_short(line)}</text>'


def _short(line: str) -> str:
    return escape(line if len(line) <= LONGEST else line[: LONGEST - 1] + "…")


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _p(x: float, y: float) -> str:
    return f"{_n(x)} {_n(y)}"
