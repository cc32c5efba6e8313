"""Weft compared with its peers: named workloads through named systems, in one run on one machine, taking turns.

    python -m bench.peers [--workloads q3/4,star] [--systems weft,flink] [--scale 1] [--repeat 1] [--limit 45]
    python -m bench.peers --setup-only

Prints one table and writes numbers and a picture.  Every system runs in its own process and environment, reads the
same rows and must give the same results, counted and summed by one DuckDB query; otherwise its row says WRONG.
Of several repeats the quickest right one counts.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench import peertable
from bench.machine import machine_line, versions
from bench.peerloads import LOADS, loader
from bench.peerpicture import picture
from bench.peerrun import RIGHT, WORKERS, WRONG, Row, measure
from bench.peersetup import SYSTEMS, set_up
from bench.streams import SEED

RESULTS = Path(__file__).parent / "results"
LIMIT = 45.0
ONCE = frozenset({"spark-v4", "spark-rocksdb", "spark-rocksdb-v4"})
"""Variants of Spark that are asked on the first workload only: slower ones, and one its documentation does not know."""
FEW = frozenset({"flink", "flink-multi", "pathway", "duckdb", "polars"})
"""Asked once where a workload comes in several numbers of batches: they have none."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is asked for."""
    asked = _asked(arguments)
    if asked.setup_only:
        sys.exit(not set_up(asked.systems))
    print(f"peers, scale {asked.scale:g}, {WORKERS} workers, seed {SEED}; {machine_line()}", flush=True)
    began = time.perf_counter()
    rows: list[Row] = []
    for workload in asked.workloads:
        rows += _workload(workload, asked, rows)
    print()
    for line in peertable.table(rows):
        print(line)
    for line in peertable.verdicts(rows):
        print(line)
    seconds = time.perf_counter() - began
    name = asked.name or f"peers-{asked.scale:g}"
    written = save(rows, asked, seconds, name, "Input rows per second")
    print(f"\n{seconds:.0f} seconds in all; written: {', '.join(map(str, written))}")
    if any(row.verdict.startswith(WRONG) for row in rows):
        sys.exit("some answers are WRONG")


def _asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Weft beside its peers.")
    parser.add_argument("--workloads", default=",".join(LOADS), help="names, with commas")
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="names, with commas")
    parser.add_argument("--scale", type=float, default=1.0, help="rows of every stream, by those of scale 1")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each, taking turns")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds for one system on one workload")
    parser.add_argument("--here", action="store_true", help="no environments of their own: what is here will do")
    parser.add_argument("--setup-only", action="store_true", help="make the environments and measure nothing")
    parser.add_argument("--name", help="of the files; peers and the scale, if there is none")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for numbers and picture")
    asked = parser.parse_args(arguments)
    for name, known, maker in (("workloads", LOADS, loader), ("systems", SYSTEMS, SYSTEMS.get)):
        chosen = [part for part in getattr(asked, name).split(",") if part]
        if strangers := [part for part in chosen if maker(part) is None]:
            parser.error(f"no {name[:-1]} {', '.join(strangers)}; there are {', '.join(known)}")
        setattr(asked, name, chosen)
    return asked


def _workload(name: str, asked: argparse.Namespace, before: Sequence[Row]) -> list[Row]:
    make = loader(name)
    assert make is not None
    load = make(asked.scale)
    print(f"{name}, {load.total:,} rows, {load.batches} batches", flush=True)
    chosen = [*_chosen(name, asked, before)]
    best: dict[str, Row] = {}
    for _ in range(asked.repeat):
        for system in chosen:
            row = measure(load, SYSTEMS[system], asked.limit, here=asked.here)
            best[system] = better(best.get(system, row), row)
            print(f"  {peertable.brief(row)}", flush=True)
    return [*best.values()]


def _chosen(name: str, asked: argparse.Namespace, before: Sequence[Row]) -> Iterator[str]:
    shape, _, batches = name.partition("/")
    repeated = batches and any(row.workload.startswith(f"{shape}/") for row in before)
    tried = {row.system for row in before}
    for system in asked.systems:
        if not (system in ONCE and system in tried) and not (system in FEW and repeated):
            yield system


def better(one: Row, other: Row) -> Row:
    """The quicker one; a wrong answer stays."""
    for row in (one, other):
        if row.verdict.startswith(WRONG):
            return row
    if RIGHT not in (one.verdict, other.verdict):
        return one
    return min((row for row in (one, other) if row.verdict == RIGHT), key=lambda row: row.seconds or 0.0)


def save(rows: Sequence[Row], asked: argparse.Namespace, seconds: float, name: str, title: str) -> tuple[Path, Path]:
    """Write the numbers and the picture."""
    asked.out.mkdir(parents=True, exist_ok=True)
    numbers, drawing = (asked.out / f"{name}.{kind}" for kind in ("json", "svg"))
    content: dict[str, Any] = {
        "machine": machine_line(),
        "versions": {**versions(), **{key: value for row in rows for key, value in row.versions}},
        "seed": SEED,
        "workers": WORKERS,
        "scale": asked.scale,
        "repeat": asked.repeat,
        "limit": asked.limit,
        "seconds": seconds,
        "rows": [asdict(row) for row in rows],
    }
    numbers.write_text(json.dumps(content, indent=1))
    drawing.write_text(picture(rows, f"{title}, scale {asked.scale:g}, {machine_line()}"))
    return numbers, drawing


if __name__ == "__main__":
    main()
