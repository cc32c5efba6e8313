"""How Weft's cost grows: with state, size of batches, workers, relations; and what small and idle batches cost.

    python -m bench.scale [--curves state,batch,workers,relations,latency,idle] [--share 1]

Weft alone, on Spark with two workers unless stated otherwise.  Every curve is a table, a picture and a part of the
JSON.  `--share` shrinks all sizes.  Points are medians of several batches; the largest is shown too.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench import scalelive
from bench.chains import Chain, even_keys
from bench.machine import machine_line, versions
from bench.runs import OnSpark, Setting
from bench.scaledata import SQL, STREAMS, Arrival, growing, sized, write_arrivals
from bench.scalepicture import Line, chart
from bench.scalesim import simulate
from bench.streams import CACHE, SEED, cache_streams
from bench.tpch import tpch
from bench.workload import Workload

RESULTS = Path(__file__).parent / "results"
CORES = 2
WITHIN = 0.25
"""How far cost per row may move while state grows."""
SMALL, IDLE = 0.350, 0.060
"""Seconds that a batch of a thousand rows and a look that finds nothing may take."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One measured curve."""

    name: str
    across: str
    unit: str
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()
    logarithmic: bool = True


Spark = Any
Measure = Callable[[Spark, float], Iterator[Curve]]


def state(spark: Spark, share: float) -> Iterator[Curve]:
    """Equal deltas at growing state."""
    sizes = [int(size * share) for size in (1_000_000, 5_000_000, 10_000_000, 20_000_000, 50_000_000)]
    arrivals = growing(sizes, delta=int(200_000 * share), times=7, load=int(2_500_000 * share))
    found = _batches_by_label(spark, "state", arrivals)
    costs = {int(label): [d.seconds / (d.rows + d.results) * 1e6 for d in done[1:]] for label, done in found.items()}
    medians = {size: statistics.median(cost) for size, cost in costs.items()}
    first, *_, last = medians.values()
    note = f"at the largest state {last / first:.2f} times the cost at the smallest"
    yield Curve(
        "state", "rows of state", "microseconds per input and result row",
        (Line("median", tuple(medians.items())), Line("largest", tuple((s, max(c)) for s, c in costs.items()))),
        (note + ("" if abs(last / first - 1) <= WITHIN else f": MISSED, at most {WITHIN:.0%} off"),),
    )  # fmt: skip


def batch(spark: Spark, share: float) -> Iterator[Curve]:
    """Batches of many sizes over the same state."""
    plan = ((1_000, 9), (10_000, 9), (100_000, 7), (500_000, 5), (2_000_000, 3))
    sizes = [(max(100, int(size * share)), times) for size, times in plan]
    arrivals = sized(sizes, state=int(2_000_000 * share), load=int(1_000_000 * share))
    found = _batches_by_label(spark, "batch", arrivals)
    seconds = {int(label): statistics.median(d.seconds for d in done[1:]) for label, done in found.items()}
    yield Curve("batch", "rows of a batch", "seconds a batch", (Line("median", tuple(seconds.items())),))
    speeds = tuple((size, size / spent) for size, spent in seconds.items())
    yield Curve("batch-speed", "rows of a batch", "input rows per second", (Line("median", speeds),))


def workers(_: Spark, share: float) -> Iterator[Curve]:
    """Q3 by one and two workers on Spark, and by more in simulation."""
    workload = tpch("q3", share, 10)
    truth, real = workload.truth(), []
    for count in (1, 2):
        host = OnSpark(count)
        try:
            host(workload, Setting("warm", "auto", count), truth)
            real.append((count, host(workload, Setting("auto", "auto", count), truth).speed))
        finally:
            host.stop()
    yield Curve(
        "workers", "workers", "input rows per second", (Line("on Spark", tuple(real)),),
        (f"two workers are {real[1][1] / real[0][1]:.2f} times one",),
    )  # fmt: skip
    small = tpch("q3", share / 2, 10)
    rows = sum(small.rows.values()) * 0.8
    runs = [simulate(small, count, skip=2) for count in (1, 2, 4, 8, 16)]
    yield Curve(
        "workers-simulated", "workers", "input rows per second of the slowest worker of every wave",
        (Line("simulated", tuple((run.workers, rows / run.slowest) for run in runs)),),
        tuple(f"{run.workers} workers: balance {run.balance:.2f}" for run in runs),
    )  # fmt: skip


def relations(spark: Spark, share: float) -> Iterator[Curve]:
    """Chains and stars of two to eight relations, every row with one partner in each."""
    rows, found = int(100_000 * share), {"chain": [], "star": []}  # type: ignore[var-annotated]
    for count in range(2, 9):
        chain = Chain(f"chain{count}", (rows,) * count, (1 / rows,) * (count - 1)).workload(8)
        for shape, workload in (("chain", chain), ("star", _star(count, rows))):
            with scalelive.run_session(spark, workload.folder, [*workload.rows], workload.sql, CORES) as handle:
                later = scalelive.batches(handle, 8)[2:]
            found[shape].append((count, sum(d.rows for d in later) / sum(d.seconds for d in later)))
    lines = tuple(Line(shape, tuple(points)) for shape, points in found.items())
    yield Curve("relations", "relations", "input rows per second", lines, logarithmic=False)


def latency(spark: Spark, share: float) -> Iterator[Curve]:
    """Drops of 1,000 rows into a warm four-way query: from the drop to the commit."""
    times = max(20, int(60 * share))
    waiting = Chain("small", (250 * (times + 10),) * 4, (1 / 2_500,) * 3).workload(times + 10)
    landing = Path(tempfile.mkdtemp(prefix="weft-landing-"))
    try:
        spent = _drops(spark, waiting, landing)[10:]
    finally:
        shutil.rmtree(landing, ignore_errors=True)
    lines = []
    for name, values in (("drop to commit", [s for s, _ in spent]), ("Weft's part", [s for _, s in spent])):
        lines.append(
            Line(name, tuple((q, float(np.quantile(values, q / 100)) * 1000) for q in (1, 25, 50, 75, 90, 99)))
        )
    median = lines[0].points[2][1] / 1000
    verdict = "" if median <= SMALL else f": MISSED, at most {SMALL * 1000:.0f} ms"
    yield Curve(
        "latency", "percentile", "milliseconds for 1,000 rows, four streams", tuple(lines),
        (f"median {median * 1000:.0f} ms from drop to commit{verdict}",), logarithmic=False,
    )  # fmt: skip


def idle(spark: Spark, share: float) -> Iterator[Curve]:
    """Looks that find nothing."""
    workload = Chain("small", (250 * 4,) * 4, (1 / 2_500,) * 3).workload(4)
    streams, looks = [*workload.rows], scalelive.Looks()
    with scalelive.run_session(spark, workload.folder, streams, workload.sql, CORES, 0.2, looks) as handle:
        scalelive.batches(handle, 4)
        seconds, spent = scalelive.time_looks(handle, looks, max(5.0, 20.0 * share))
    points = tuple((q, float(np.quantile(seconds, q / 100)) * 1000) for q in (1, 25, 50, 75, 90, 99))
    median = statistics.median(seconds)
    verdict = "" if median <= IDLE else f": MISSED, at most {IDLE * 1000:.0f} ms"
    notes = (
        f"median {median * 1000:.2g} ms of {len(seconds)} looks{verdict}",
        f"{spent * 1000:.0f} ms of processor time for each",
    )
    yield Curve("idle", "percentile", "milliseconds a look that finds nothing", (Line("look", points),), notes, False)


CURVES: Mapping[str, Measure] = {
    "state": state,
    "batch": batch,
    "relations": relations,
    "latency": latency,
    "idle": idle,
    "workers": workers,
}
"""`workers` comes last: it starts Spark again for every number of them."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description="How Weft's cost grows.")
    parser.add_argument("--curves", default=",".join(CURVES), help=f"of {', '.join(CURVES)}")
    parser.add_argument("--share", type=float, default=1.0, help="of the usual sizes")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for numbers and pictures")
    asked = parser.parse_args(arguments)
    chosen = asked.curves.split(",")
    if strangers := set(chosen) - {*CURVES}:
        parser.error(f"no curve {', '.join(sorted(strangers))}")
    print(f"scale, share {asked.share:g}, seed {SEED}; {machine_line()}", flush=True)
    host, found, began = OnSpark(CORES), [], time.perf_counter()
    try:
        for name in sorted(chosen, key=[*CURVES].index):
            if name == "workers":
                host.stop()
            for curve in CURVES[name](host.spark, asked.share):
                found.append(curve)
                show(curve)
    finally:
        host.stop()
    files = save(found, asked.share, time.perf_counter() - began, asked.out)
    print(f"\nwritten: {', '.join(map(str, files))}")


def show(curve: Curve) -> None:
    """Print a curve."""
    print(f"\n{curve.name}: {curve.unit}")
    print(f"  {curve.across:>14} " + " ".join(f"{line.name:>14}" for line in curve.lines))
    for row in zip(*(line.points for line in curve.lines), strict=True):
        print(
            f"  {row[0][0]:>14,} "
            + " ".join(f"{value:>14,.4g}" if value < 1e4 else f"{value:>14,.0f}" for _, value in row)
        )
    for note in curve.notes:
        print(f"  {note}", flush=True)


def save(curves: Sequence[Curve], share: float, seconds: float, folder: Path) -> list[Path]:
    """Write numbers, and one picture a curve."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = folder / f"scale-{share:g}.json"
    content = {
        "machine": machine_line(),
        "versions": versions(),
        "seed": SEED,
        "share": share,
        "seconds": seconds,
        "curves": [asdict(curve) for curve in curves],
    }
    numbers.write_text(json.dumps(content, indent=1))
    files = [numbers]
    for curve in curves:
        files.append(folder / f"scale-{curve.name}-{share:g}.svg")
        files[-1].write_text(chart(curve.lines, curve.across, curve.unit, machine_line(), curve.logarithmic))
    return files


def _batches_by_label(spark: Spark, name: str, arrivals: Sequence[Arrival]) -> dict[str, list[scalelive.Batch]]:
    """Label -> its batches, in a run over all arrivals."""
    folder = write_arrivals(name, arrivals)
    with scalelive.run_session(spark, folder, STREAMS, SQL, CORES) as handle:
        batches = scalelive.batches(handle, len(arrivals))
    groups = groupby(zip(arrivals, batches, strict=True), key=lambda pair: pair[0].label)
    return {label: [one for _, one in group] for label, group in groups if label}


def _drops(spark: Spark, waiting: Workload, landing: Path) -> list[tuple[float, float]]:
    names = [*waiting.rows]
    files = [sorted((waiting.folder / name).glob("*.parquet")) for name in names]
    for name, found in zip(names, files, strict=True):
        (landing / name).mkdir(parents=True)
        shutil.copy(found[0], landing / name)
    with scalelive.run_session(spark, landing, names, waiting.sql, CORES) as handle:
        scalelive.batches(handle, 1)
        return [scalelive.time_drop(handle, drop, landing, 1_000) for drop in zip(*(f[1:] for f in files), strict=True)]


def _star(count: int, rows: int) -> Workload:
    """`count` relations that meet in one key."""

    def tables() -> dict[str, pa.Table]:
        rng = np.random.default_rng(SEED)
        return {
            f"r{i}": pa.table({f"id{i}": np.arange(rows), f"k{i}": even_keys(rng, rows, rows)})
            for i in range(1, count + 1)
        }

    folder = cache_streams(CACHE / f"scale-star-{count}-{rows}-{SEED}", tables, 8)
    joins = " ".join(f"JOIN r{i} ON k{i} = k1" for i in range(2, count + 1))
    names = [f"r{i}" for i in range(1, count + 1)]
    sql = f"SELECT {', '.join(f'id{i}' for i in range(1, count + 1))} FROM r1 {joins}"
    return Workload(f"star{count}", folder, sql, dict.fromkeys(names, rows), {})


if __name__ == "__main__":
    main()
