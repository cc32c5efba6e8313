"""Where the processor time of a batch goes: who works how long, batch by batch, for one aggregate of `bench.views`.

    python -m bench.parts [--workload q3] [--scale 1]

    workers    Weft's Python processes: they read, route, store, probe and add up
    tasks      threads of the JVM that run tasks: they move payloads between processes and through the shuffle
    compiler   threads of the JVM that compile what has just become hot
    planning   threads of the JVM that answer the driver: the plan of each job is made there
    rest       all other threads of the JVM
    driver     this program

Processor time is the same, or nearly, when other programs run; `seconds` is not.  Linux only: threads are read from
/proc.  What must hold: a thread that ends during a batch is not counted in it, so the sums are lower bounds.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil

import weft
from bench.machine import machine_line
from bench.streams import SEED
from bench.viewloads import LOADS
from weft.launch import ahead
from weft.launch.spark import local_session

WORKERS = 2
PARTS = ("workers", "tasks", "compiler", "planning", "rest", "driver")
THREADS = {"Executor task": "tasks", "C1 Compiler": "compiler", "C2 Compiler": "compiler", "Thread-": "planning"}
"""How the names of the JVM's threads begin -> which part they are."""
TICK = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Run the workload and print a line for each batch."""
    parser = argparse.ArgumentParser(description="Processor time of batches, by part.")
    parser.add_argument("--workload", default="q3", choices=list(LOADS))
    parser.add_argument("--scale", type=float, default=1.0, help="rows of every stream, by those of scale 1")
    asked = parser.parse_args()
    print(f"{asked.workload}, scale {asked.scale:g}, {WORKERS} workers, seed {SEED}; {machine_line()}")
    print("  ".join([f"{'batch':>5}", f"{'seconds':>8}", *(f"{part:>8}" for part in PARTS), f"{'all':>8}"]))
    for number, (seconds, spent) in enumerate(_batches(asked.workload, asked.scale)):
        figures = [seconds, *(spent[part] for part in PARTS), sum(spent.values())]
        print("  ".join([f"{number:>5}", *(f"{figure:>8.2f}" for figure in figures)]), flush=True)


def _batches(name: str, scale: float) -> Iterator[tuple[float, Mapping[str, float]]]:
    """Seconds of each batch, and processor time by part."""
    load = LOADS[name](scale)
    ahead.begin()
    spark = local_session(WORKERS)
    with tempfile.TemporaryDirectory(prefix="weft-parts-") as folder:
        with weft.Session(checkpoint=Path(folder, "state"), workers=WORKERS, spark=spark, progress=False) as session:
            for stream in load.join.streams:
                session.stream(stream, weft.read.parquet(load.folder / stream, max_files=1))
            session.query("joined", load.join.sql()).to_parquet(Path(folder, "rows"))
            began, before = time.perf_counter(), _spent()
            handle = session.start(every=0.001)
            for number in range(load.batches):
                while handle.report().count <= number and handle.active:
                    time.sleep(0.003)
                now, after = time.perf_counter(), _spent()
                yield now - began, _between(before, after)
                began, before = now, after
            handle.stop()
        spark.stop()


Spent = Mapping[int, tuple[str, float]]
"""Thread -> its part, and its processor time so far in seconds."""


def _between(before: Spent, after: Spent) -> dict[str, float]:
    """Processor time by part, of the threads that are there now."""
    found = dict.fromkeys(PARTS, 0.0)
    for thread, (part, seconds) in after.items():
        found[part] += seconds - before.get(thread, (part, 0.0))[1]
    return found


def _spent() -> Spent:
    me = psutil.Process()
    found: dict[int, tuple[str, float]] = {}
    for process in (me, *me.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            program = "driver" if process.pid == me.pid else "rest" if "java" in process.name() else "workers"
            for thread, name, seconds in _threads(process.pid):
                known = next((part for begin, part in THREADS.items() if name.startswith(begin)), "rest")
                found[thread] = (known if program == "rest" else program, seconds)
    return found


def _threads(process: int) -> Iterator[tuple[int, str, float]]:
    """Number, name and processor time of the threads of a process; those that end meanwhile are left out."""
    for folder in Path(f"/proc/{process}/task").glob("*"):
        with contextlib.suppress(OSError):
            head, _, rest = (folder / "stat").read_text().rpartition(")")
            user, system = rest.split()[11:13]
            yield int(folder.name), head.partition("(")[2], (int(user) + int(system)) / TICK


if __name__ == "__main__":
    main()
