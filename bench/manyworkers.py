"""What the driver has to do for many workers: `python -m bench.manyworkers [--workers 2,8,64] [--batches 12]`.

The same small join with more and more workers on the cores of this machine.  The work on rows is small and the same, so
what grows is the driver's part: tasks, envelopes between workers, segments, and the manifest that names them.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import weft

SQL = "SELECT a.id AS a, b.id AS b, c.id AS c FROM a JOIN b ON a.k = b.k JOIN c ON b.m = c.m"
ROWS = 20_000


def main() -> None:
    """Print a line for each number of workers."""
    reader = argparse.ArgumentParser(description=__doc__)
    reader.add_argument("--workers", default="2,8,16,32,64")
    reader.add_argument("--batches", type=int, default=12)
    given = reader.parse_args()
    print("workers  plan ms  batch s (median)  messages a batch  segments  manifest kB")
    for workers in map(int, given.workers.split(",")):
        root = Path(tempfile.mkdtemp(prefix="weft-workers-"))
        try:
            print(measure(root, workers, given.batches))
        finally:
            shutil.rmtree(root, ignore_errors=True)


def measure(root: Path, workers: int, batches: int) -> str:
    """Run the join once."""
    dice = np.random.default_rng(7)
    session = weft.Session(root / "state", workers=workers, progress=False)
    for name in "abc":
        folder = root / name
        folder.mkdir()
        for number in range(batches):
            values = {column: dice.integers(0, 10 * ROWS, ROWS) for column in "km"}
            rows = pa.table({"id": np.arange(ROWS) + number * ROWS, **values})
            pq.write_table(rows, folder / f"{number:04d}.parquet")
        session.stream(name, weft.read.parquet(folder, max_files=1))
    session.query("q", SQL).to_parquet(root / "out")
    began = time.perf_counter()
    _ = session.topology
    planned = 1000 * (time.perf_counter() - began)
    report = session.run()
    seconds = statistics.median(batch.seconds for batch in report.batches[2:])
    messages = statistics.median(sum(batch.counters.messages.values()) for batch in report.batches[2:])
    manifest = max((root / "state" / "manifests").iterdir()).stat().st_size / 1000
    segments = report.batches[-1].segments
    return f"{workers:7d}  {planned:7.0f}  {seconds:16.2f}  {messages:16.0f}  {segments:8d}  {manifest:11.0f}"


if __name__ == "__main__":
    main()
