"""Plans compared with each other: flat, left-deep, tree and the automatic choice, over TPC-H joins and custom chains.

    python -m bench.plans [--scale 1] [--rows 200000] [--repeats 2]

Prints what every plan stores and sends and how long it takes, the same numbers of the papers and their cost model, and
how close the automatic choice is to the best plan.  Every answer is compared with DuckDB's; a different one is marked
WRONG.  Writes the numbers as JSON and a picture as SVG to bench/results.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bench import papers, tables
from bench.chains import LLLL, LLLL_LARGE, LLLL_MEDIUM, MHL, MLM, MMM
from bench.machine import machine_line, versions
from bench.papers import Counting
from bench.picture import picture
from bench.runs import STRATEGIES, Figures, Host, OnSpark, Setting, alternate, on_cluster
from bench.saying import block, say
from bench.streams import SEED
from bench.tpch import tpch
from bench.workload import Workload
from weft.optimizer.cost.prices import Prices

RESULTS = Path(__file__).parent / "results"
TPCH = {"q2": 1.0, "q3": 1.0, "q5": 1.0, "q5six": 0.1}
"""Query -> share of the scale factor."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is run."""

    scale: float = 1.0
    """Scale factor of TPC-H."""
    rows: int = 200_000
    """Rows of a chain's relation where time is taken."""
    counted: tuple[Counting, ...] = (
        Counting(LLLL, 20_000, (0.1, 0.2, 0.5, 1.0)),
        Counting(LLLL_MEDIUM, 20_000, (0.1, 0.2, 0.5, 1.0)),
        Counting(LLLL_LARGE, 100, (1.0,)),
    )
    """Where tuples are counted.  With f = 1e-5 the largest store is a thousand relations, so a task holds a whole one:
    all stores shrink alike, and the ratio stays."""
    shapes: int = 10_000
    """Rows of a relation of custom-MLM where tuples are counted."""
    batches: int = 10
    counted_batches: int = 20
    repeats: int = 2
    tasks: tuple[int, ...] = (1, 2, 4)
    """Tasks per store, Q2."""
    shape_tasks: tuple[int, ...] = (1, 2)
    """Tasks per store, custom-MLM."""


@dataclass(frozen=True, slots=True)
class Found:
    """All figures of a run."""

    timed: Mapping[str, Mapping[str, Figures]]
    counted: Sequence[Figures]
    scaled: Sequence[Figures]
    alone: Sequence[Figures]
    """Q2 with k tasks per store on a simulated cluster: of each wave the slowest worker counts."""
    beside: Sequence[papers.Beside]

    @property
    def all(self) -> list[Figures]:
        """Every run."""
        return [*(f for found in self.timed.values() for f in found.values()), *self.counted, *self.scaled, *self.alone]


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser()
    usual = Size()
    parser.add_argument("--scale", type=float, default=usual.scale)
    parser.add_argument("--rows", type=int, default=usual.rows)
    parser.add_argument("--repeats", type=int, default=usual.repeats)
    asked = parser.parse_args()
    size = replace(usual, scale=asked.scale, rows=asked.rows, repeats=asked.repeats)
    print(f"plans, SF{size.scale:g}, chains of {size.rows:,} rows, {size.batches} batches; {machine_line()}")
    workloads = [tpch(name, size.scale * share, size.batches) for name, share in TPCH.items()]
    workloads += [chain.scaled(size.rows).workload(size.batches) for chain in (LLLL, MLM, MHL, MMM)]
    host = OnSpark(cores=2)
    began = time.perf_counter()
    try:
        warm(host, workloads[0])
        found = measure(host, workloads, size)
    finally:
        host.stop()
    show(found)
    seconds = time.perf_counter() - began
    print(f"\n{seconds:.0f} seconds in all; written: {', '.join(map(str, save(found, size, seconds, RESULTS)))}")
    if not all(f.right for f in found.all):
        sys.exit("some answers are WRONG")


def warm(host: Host, workload: Workload) -> None:
    """A first run that starts all processes and compiles all kernels."""
    host(workload, Setting("warm", "flat"), (0, 0))


def measure(host: Host, workloads: Sequence[Workload], size: Size, **cache: Any) -> Found:
    """All runs; `host` is where time is taken."""
    settings = [Setting(name, name) for name in STRATEGIES]
    timed: dict[str, Mapping[str, Figures]] = {}
    for workload in workloads:
        say(f"{workload.name}, {sum(workload.rows.values()):,} rows: {', '.join(STRATEGIES)}")
        timed[workload.name] = alternate(host, workload, settings, size.repeats, workload.truth())
    say("chains with many tasks")
    counted = papers.count_chains(size.counted, size.counted_batches, **cache)
    shapes = papers.count_shapes(size.shapes, size.counted_batches, **cache)
    say("q2 and MLM with k tasks per store")
    by_name = {workload.name: workload for workload in workloads}
    q2 = papers.time_tasks(host, by_name["q2"], ("flat", "left_deep", "tree"), size.tasks, repeats=1)
    mlm = papers.time_tasks(host, by_name["MLM"], tuple(papers.KEPT), size.shape_tasks, repeats=1)
    say("q2 with k tasks per store, each on a machine that is not there")
    alone = papers.time_tasks(on_cluster, by_name["q2"], ("flat", "left_deep", "tree"), size.tasks, size.repeats)
    rows = [
        *papers.storage(timed),
        *papers.sending(counted, size.counted),
        *papers.scaling(q2),
        *papers.scaling(alone, "q2 on a simulated cluster"),
        *papers.shapes(shapes, mlm, q2),
    ]
    return Found(timed, [*counted, *shapes], [*q2.values(), *mlm.values()], [*alone.values()], rows)


def show(found: Found) -> None:
    """Print everything."""
    block(
        "plans: rows/s, stored rows, tuples sent, each count with its distance from the model",
        tables.plans(found.timed),
    )
    block("scattered stores, N = ceil(size / capacity) tasks, in this process", tables.counts(found.counted))
    block("q2, k tasks per store, simulated cluster: each worker alone on a core", tables.tasks_lines(found.alone))
    block("beside the papers", tables.beside(found.beside))
    far = [*tables.outliers(found.all)]
    block(f"more than {tables.TOLERANCE:.0%} from the model", far or ["  none"])
    block("verdicts", tables.verdicts(found.timed))


def save(found: Found, size: Size, seconds: float, folder: Path) -> tuple[Path, Path]:
    """Write the numbers and the picture."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"plans-sf{size.scale:g}-{size.rows}"
    numbers, drawing = folder / f"{stem}.json", folder / f"{stem}.svg"
    content = {
        "machine": machine_line(),
        "versions": versions(),
        "seed": SEED,
        "prices": Prices.load().plain(),
        "seconds": seconds,
        "size": asdict(size),
        "timed": [asdict(f) for each in found.timed.values() for f in each.values()],
        "counted": [asdict(f) for f in found.counted],
        "scaled": [asdict(f) for f in found.scaled],
        "simulated": [asdict(f) for f in found.alone],
        "beside": [asdict(row) for row in found.beside],
        "verdicts": [line.strip() for line in tables.verdicts(found.timed)],
    }
    numbers.write_text(json.dumps(content, indent=1))
    drawing.write_text(picture(found.timed, found.counted, f"Plans, TPC-H SF{size.scale:g}, {machine_line()}"))
    return numbers, drawing


if __name__ == "__main__":
    main()
