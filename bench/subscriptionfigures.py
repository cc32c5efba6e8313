"""The paper's figures 8 to 13 with our kernel: microseconds of one core for each arriving tuple.

    python -m bench.subscriptionfigures [--tuples 500] [--share 1.0] [--figures 8,11] [--selectivity 1e-4]

narrow  what the arriving tuple leaves is narrowed by each further stream, each step once for all results that share it
naive   every join result is looked up in all dimensions, in the same sets
tree    the same in a tree, as the paper's naive does (figure 11 alone)

All else is as in the paper (E14): 100,000 subscriptions, two streams with five attributes each, selectivity 0.01 %, one
join result a tuple unless the figure varies it.  `--share` makes all numbers of subscriptions smaller.
With `--selectivity 1e-5` there are few matches: what is left of a time then is looking, and not giving matches out.
Written are a picture for each figure, and all tables with these pictures as a page.
The paper's own times are of a machine of 2002 and are not repeated; what it says of each figure stands beside it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bench.machine import machine_line
from bench.scalepicture import Line, chart
from bench.streams import SEED
from bench.subscriptions import DOMAIN, Work, seconds, tree
from weft.kernels.bitsets import BitSets
from weft.kernels.codes import Ints

RESULTS = Path(__file__).parent / "results"
TREE = 11
"""The figure that a tree is measured for."""
VARIED = 10
"""The figure that varies selectivity."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One point of a figure."""

    at: float
    boxes: int = 100_000
    dimensions: tuple[int, ...] = (5, 5)
    """Attributes of the arriving tuple's stream and of each further one."""
    fans: tuple[int, ...] = (1,)
    """Partners in each further stream, for each combination so far."""
    selectivity: float = 1e-4


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of the paper."""

    number: int
    across: str
    paper: str
    shapes: tuple[Shape, ...]
    logarithmic: bool = False


FIGURES = (
    Figure(8, "subscriptions", "all scale; PDFA beats naive", tuple(
        Shape(n, boxes=n) for n in (50_000, 100_000, 200_000, 300_000, 400_000, 500_000))),
    Figure(9, "attributes a stream", "grows with dimensions; a grid file less than an R-tree", tuple(
        Shape(d, dimensions=(d, d)) for d in (3, 5, 9, 13, 17))),
    Figure(10, "selectivity in %", "falls with selectivity", tuple(
        Shape(s * 100, selectivity=s) for s in (1e-5, 3e-5, 1e-4, 3e-4, 1e-3)), logarithmic=True),
    Figure(11, "join results a tuple", "naive is linear; PDFA is constant beyond 5", tuple(
        Shape(r, fans=(r,)) for r in (1, 2, 4, 5, 8, 16, 32, 64))),
    Figure(12, "streams (4 to 64 join results)", "a smaller gain: later steps have more dimensions", tuple(
        Shape(n, dimensions=(5,) * n, fans=(4, *[2] * (n - 2))) for n in range(2, 7))),
    Figure(13, "attributes of the arriving stream, of 12", "best at an equal split", tuple(
        Shape(d, dimensions=(d, 12 - d), fans=(4,)) for d in (2, 4, 6, 8, 10))),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Point:
    """What was measured."""

    at: float
    narrow: float
    naive: float
    matches: float
    """Per join result."""
    tree: float | None = None


def make(shape: Shape, tuples: int, share: float) -> tuple[Ints, Ints, Ints, Ints]:
    """Boxes by their ends, points, and for each point the first stream in which it differs from the one before."""
    rng, width = np.random.default_rng(SEED), sum(shape.dimensions)
    wide = round(DOMAIN * shape.selectivity ** (1 / width))
    low = rng.integers(0, DOMAIN - wide, (max(64, round(shape.boxes * share)), width))
    counts = np.cumprod([tuples, *shape.fans])
    parts, levels = [], np.zeros(counts[-1], dtype=np.int64)
    for level, (count, size) in enumerate(zip(counts, shape.dimensions, strict=True)):
        times = counts[-1] // count
        parts.append(np.repeat(rng.integers(0, DOMAIN, (count, size)), times, axis=0))
        levels[np.arange(counts[-1]) % times != 0] = level + 1
    return low, low + wide, np.concatenate(parts, axis=1), levels


def measure(shape: Shape, tuples: int, share: float, *, with_tree: bool = False) -> Point:
    """One point of a figure, both ways; they must find the same."""
    low, high, points, levels = make(shape, tuples, share)
    sets = BitSets(low, high)
    ends = np.cumsum(shape.dimensions)
    parts = [[*range(end - size, end)] for end, size in zip(ends, shape.dimensions, strict=True)]
    whole, zeros = [[*range(int(ends[-1]))]], np.zeros(len(points), dtype=np.int64)

    def ask(parts: list[list[int]], levels: Ints) -> int:
        return sum(len(owners) for owners, _ in sets.find(parts, points, levels))

    if (found := ask(parts, levels)) != ask(whole, zeros):
        raise SystemExit("narrow and naive find different pairs")
    narrow, naive = seconds(lambda: ask(parts, levels)), seconds(lambda: ask(whole, zeros))
    work = Work(low, high, shape.dimensions[0], points, np.repeat(np.arange(tuples), len(points) // tuples))
    other = tree(work)[1] * len(points) / tuples * 1e6 if with_tree else None
    return Point(shape.at, narrow / tuples * 1e6, naive / tuples * 1e6, found / len(points), other)


def lines(figure: Figure, points: Sequence[Point]) -> Iterator[str]:
    """A figure as text."""
    yield f"figure {figure.number}: {figure.across}; the paper: {figure.paper}"
    yield f"  {'':>10} {'narrow, us':>11} {'naive, us':>11} {'ratio':>6} {'matches a result':>17}" + (
        f" {'tree, us':>11}" if figure.number == TREE else ""
    )
    for p in points:
        yield f"  {p.at:>10,g} {p.narrow:>11.1f} {p.naive:>11.1f} {p.naive / p.narrow:>6.1f} {p.matches:>17.1f}" + (
            "" if p.tree is None else f" {p.tree:>11.1f}"
        )
    if figure.number == 8 and len(points) > 2:
        first, last = points[1], points[-1]
        whole, steps = last.naive / first.naive, last.narrow / first.narrow
        yield f"  {last.at:,g} cost {whole:.1f} times as much as {first.at:,g}; {steps:.1f} times stream by stream"
    if figure.number == TREE:
        base, last = next(p for p in points if p.at == 5), points[-1]
        more, naive = last.narrow - base.narrow, last.naive - base.naive
        trees = (last.tree or 0.0) - (base.tree or 0.0)
        yield f"  from 5 to {last.at:g} results narrow adds {more / naive:.0%} of what naive adds"
        yield f"  and {more / trees:.0%} of what a tree adds"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all figures."""
    parser = argparse.ArgumentParser(description="The paper's figures 8 to 13.")
    parser.add_argument("--tuples", type=int, default=500)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--figures", default=",".join(str(figure.number) for figure in FIGURES))
    parser.add_argument("--selectivity", type=float, default=1e-4, help="where the figure does not vary it")
    parser.add_argument("--out", type=Path, default=RESULTS)
    asked = parser.parse_args(arguments)
    asked.out.mkdir(parents=True, exist_ok=True)
    print(f"subscriptions, figures of the paper, one core, seed {SEED}; {machine_line()}", flush=True)
    chosen, kept, page = (
        {int(part) for part in asked.figures.split(",")},
        {},
        [f"# Subscriptions\n\n{machine_line()}\n"],
    )
    for figure in (figure for figure in FIGURES if figure.number in chosen):
        shapes = [s if figure.number == VARIED else replace(s, selectivity=asked.selectivity) for s in figure.shapes]
        points = [measure(shape, asked.tuples, asked.share, with_tree=figure.number == TREE) for shape in shapes]
        table = "\n".join(lines(figure, points))
        print(table, flush=True)
        kept[figure.number] = [(p.at, p.narrow, p.naive, p.matches, p.tree) for p in points]
        name = f"subscriptions-figure-{figure.number}.svg"
        (asked.out / name).write_text(picture(figure, points))
        page.append(f"```text\n{table}\n```\n\n![Figure {figure.number}]({name})\n")
    (asked.out / "subscriptions-figures.json").write_text(json.dumps(kept, indent=1))
    (asked.out / "subscriptions-figures.md").write_text("\n".join(page))


def picture(figure: Figure, points: Sequence[Point]) -> str:
    """A figure as a picture."""
    drawn = [Line("narrow", tuple((p.at, p.narrow) for p in points)),
             Line("naive", tuple((p.at, p.naive) for p in points))]  # fmt: skip
    title = f"Figure {figure.number} of the paper, with bit sets; {machine_line()}"
    return chart(drawn, figure.across, "microseconds a tuple", title, figure.logarithmic)


if __name__ == "__main__":
    main()
