"""Where the boxes of a chart go: layers from left to right (or top to bottom), few crossings, no overlaps.

    layer     a box stands one layer after the last box that an arrow brings it from, and after the stores it looks into
    order     boxes of a layer are sorted by the average place of their neighbours, a few times to and fro
    place     each box moves towards the average of its neighbours, as far as the boxes beside it allow
    ways      a line that passes a layer has a narrow place of its own in it, so that it crosses no box

What must hold: the same chart gives the same places, to the last digit; boxes of a layer never overlap.  Places are
given along two axes: `along` the layers and `across` them; who draws decides which of the two is horizontal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from weft.explain.chart import Link

SWEEPS = 8

Places = dict[str, float]
Neighbours = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Layout:
    """Layer and place of every box; `across` is the middle of a box."""

    layers: tuple[tuple[str, ...], ...]
    """The boxes of each layer, without the places that lines have in it."""
    ranks: Mapping[str, int]
    across: Mapping[str, float]
    extent: float
    ways: Mapping[int, tuple[tuple[int, float], ...]]
    """Number of a link -> the layers that it passes, and where."""


def lay_out(sizes: Mapping[str, float], links: Sequence[Link], gap: float) -> Layout:
    """Places for boxes of some sizes (across) that links connect."""
    boxes, sizes = list(sizes), dict(sizes)
    ranks = _ranks(boxes, links)
    passes = _passes(links, ranks)
    for names in passes.values():
        sizes.update(dict.fromkeys(names, 0.0))
    near = _neighbours(sizes, links, passes)
    layers: list[list[str]] = [[] for _ in range(max(ranks.values(), default=-1) + 1)]
    for name, rank in ranks.items():
        layers[rank].append(name)
    _order(layers, near)
    across = _place(layers, near, sizes, gap)
    low = min((across[name] - sizes[name] / 2 for name in sizes), default=0.0)
    across = {name: middle - low for name, middle in across.items()}
    extent = max((across[name] + sizes[name] / 2 for name in sizes), default=0.0)
    ways = {number: tuple((ranks[name], across[name]) for name in names) for number, names in passes.items()}
    shown = tuple(tuple(name for name in layer if name in boxes) for layer in layers)
    return Layout(shown, ranks, across, extent, ways)


def _passes(links: Sequence[Link], ranks: dict[str, int]) -> dict[int, list[str]]:
    """Number of a link -> a place in each layer that it passes; these get ranks too.  Looks go where they like."""
    made: dict[int, list[str]] = {}
    for number, link in enumerate(links):
        between = range(ranks[link.start] + 1, ranks[link.end])
        if link.line != "-.->" and between:
            made[number] = [f"{number}@{rank}" for rank in between]
            ranks.update(zip(made[number], between, strict=True))
    return made


def _ranks(names: Sequence[str], links: Sequence[Link]) -> dict[str, int]:
    """The layer of every box.  Should arrows ever run in a circle, the loop ends all the same."""
    ranks = dict.fromkeys(names, 0)
    place = {name: number for number, name in enumerate(names)}
    steps = [_step(link, place) for link in links]
    for _ in names:
        moved = False
        for start, end in steps:
            if ranks[end] < ranks[start] + 1 <= len(names):
                ranks[end], moved = ranks[start] + 1, True
        if not moved:
            break
    return ranks


def _step(link: Link, place: Mapping[str, int]) -> tuple[str, str]:
    """Which box comes before which.  Where a line has no direction, the one that was drawn first."""
    forward = place[link.start] < place[link.end] if link.line == "---" else link.line == "-->"
    return (link.start, link.end) if forward else (link.end, link.start)


def _neighbours(
    names: Mapping[str, float], links: Sequence[Link], passes: Mapping[int, Sequence[str]]
) -> dict[str, list[str]]:
    near: dict[str, list[str]] = {name: [] for name in names}
    for number, link in enumerate(links):
        for a, b in pairwise([link.start, *passes.get(number, ()), link.end]):
            near[a].append(b)
            near[b].append(a)
    return near


def _order(layers: list[list[str]], near: Neighbours) -> None:
    for sweep in range(SWEEPS):
        place = {name: (number + 0.5) / len(layer) for layer in layers for number, name in enumerate(layer)}
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            middle = {name: _mean([place[other] for other in near[name]], place[name]) for name in layer}
            layer.sort(key=middle.__getitem__)
            place.update((name, (number + 0.5) / len(layer)) for number, name in enumerate(layer))


def _place(layers: Sequence[Sequence[str]], near: Neighbours, sizes: Mapping[str, float], gap: float) -> Places:
    across: Places = {}
    for layer in layers:
        _spread(layer, dict.fromkeys(layer, 0.0), sizes, gap, across)
    for sweep in range(SWEEPS):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            wanted = {name: _mean([across[other] for other in near[name]], across[name]) for name in layer}
            _spread(layer, wanted, sizes, gap, across)
    return across


def _spread(layer: Sequence[str], wanted: Places, sizes: Mapping[str, float], gap: float, across: Places) -> None:
    """Put boxes where they want to be, in their order, as far as they do not overlap."""
    ends: list[float] = []
    at = float("-inf")
    for name in layer:
        at = max(at, wanted[name] - sizes[name] / 2)
        ends.append(at)
        at += sizes[name] + gap
    # Boxes have only been pushed one way: half of the average push is taken back.
    pushed = _mean([end + sizes[name] / 2 - wanted[name] for name, end in zip(layer, ends, strict=True)], 0.0)
    across.update((name, end + sizes[name] / 2 - pushed) for name, end in zip(layer, ends, strict=True))


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
