"""What a change of plan costs: rows moved a second, the pause between two batches, a query that comes later.

    python -m bench.migrate [--rows 10000000] [--batch 100000]

    taken     a query is dropped and all stores of the others stay: seconds of the change
    moved     two streams change the key they are placed by, between two runs: rows a second on two workers
    pause     the same while batches go on: the longest time without a batch, beside the median batch
    eleventh  ten queries run; one more is added: seconds to its first result, longest gap between results of the others

Every answer is counted with DuckDB.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import weft
from bench.saying import block, say

BY_A = weft.Plan(placement={"x": "x.a", "y": "y.a"})
BY_B = weft.Plan(placement={"x": "x.b", "y": "y.b"})
PAIR = "SELECT x.id AS x, y.id AS y FROM x JOIN y ON x.a = y.a AND x.b = y.b"


class Feed:
    """Two streams of files that grow by a batch at a time."""

    def __init__(self, root: Path, domain: int, seed: int = 1) -> None:
        self.root, self.domain, self.rng, self.count = root, domain, np.random.default_rng(seed), 0
        for name in ("x", "y"):
            (root / name).mkdir(parents=True)

    def put(self, rows: int) -> None:
        """One more file in each stream."""
        for name in ("x", "y"):
            keys = {c: self.rng.integers(0, self.domain, rows // 2) for c in ("a", "b", "c")}
            table = pa.table({"id": np.arange(rows // 2) + self.count * rows, **keys})
            aside = self.root / name / f".{self.count:06d}"
            pq.write_table(table, aside)
            aside.rename(self.root / name / f"{self.count:06d}.parquet")
        self.count += 1

    def session(self, checkpoint: str, **options: Any) -> weft.Session:
        s = weft.Session(self.root / checkpoint, workers=2, progress=False)
        for name in ("x", "y"):
            s.stream(name, weft.read.parquet(self.root / name, max_files=options.get("max_files")))
        return s

    def answer(self, where: str = "x.a = y.a AND x.b = y.b") -> int:
        """The number of results by DuckDB."""
        sql = f"SELECT count(*) FROM '{self.root}/x/*.parquet' x JOIN '{self.root}/y/*.parquet' y ON {where}"
        return int(duckdb.connect().sql(sql).fetchall()[0][0])


def wait(handle: Any, done: Callable[[], bool], seconds: float = 600) -> None:
    """Until something is true of a run."""
    limit = time.monotonic() + seconds
    while not done():
        if not handle.active or time.monotonic() > limit:
            handle.stop()
            raise SystemExit("the run ended, or took too long")
        time.sleep(0.005)


def measure_moves(root: Path, rows: int) -> list[str]:
    """Rows a second where all rows must move, and the price of a change that moves none."""
    feed = Feed(root / "moved", 1 << 30)
    for _ in range(10):
        feed.put(rows // 10)
    found = []
    s = feed.session("ck", max_files=1)
    s.query("q", PAIR, strategy=BY_A).to_memory()
    s.query("p", PAIR, strategy=BY_A).to_memory()
    s.run()
    s.drop("p")
    with s:
        turn = run_once(s)
    found.append(f"taken: {turn.taken} stores as they are, {turn.seconds:.3f} s")
    s = feed.session("ck", max_files=1)
    s.query("q", PAIR, strategy=BY_B).to_memory()
    with s:
        turn = run_once(s)
    found.append(f"moved: {turn.moved:,} rows in {turn.seconds:.2f} s, {turn.moved / turn.seconds:,.0f} rows/s")
    return found


def run_once(s: weft.Session) -> Any:
    """The change that a run begins with."""
    handle = s.start(every="1 second")
    handle.stop()
    return handle.changes()[-1]


def measure_pause(root: Path, rows: int, batch: int) -> list[str]:
    """The longest time without a batch while state moves, beside the median batch before."""
    feed = Feed(root / "pause", max(1_000, rows // 100))
    for _ in range(10):
        feed.put(rows // 10)
    s = feed.session("ck", max_files=1)
    s.options(strategy=BY_A)
    q = s.query("q", PAIR).to_memory()
    s.run()
    ends: list[float] = []
    with s:
        handle = s.start(every=0.001)
        stop = threading.Event()
        feeder = threading.Thread(target=_keep_up, args=(feed, batch, handle, stop))
        feeder.start()
        began = handle.report().count
        wait(handle, lambda: handle.report().count >= began + 15)
        quiet = [p.seconds for p in handle.history(10)]
        asked = time.perf_counter()
        watcher = threading.Thread(target=_note_ends, args=(handle, ends, stop))
        watcher.start()
        s.options(strategy=BY_B)
        wait(handle, lambda: bool(handle.changes()))
        turned = time.perf_counter() - asked
        wait(handle, lambda: len(ends) > 5)
        stop.set()
        feeder.join()
        wait(handle, lambda: handle.report().rows_in.get("x", 0) * 2 >= (feed.count - 10) * batch)
        watcher.join()
    gaps = [b - a for a, b in pairwise(ends)]
    turn = handle.changes()[-1]
    made, wanted = q.table().num_rows, feed.answer()
    if made != wanted:
        raise SystemExit(f"{made:,} results instead of {wanted:,}")
    median = statistics.median(quiet)
    longest = f"longest time from batch to batch {max(gaps):.2f} s ({max(gaps) / median:.1f} times)"
    return [
        f"pause: {turn.moved:,} rows moved while batches of {batch:,} rows went on, ready after {turned:.1f} s",
        f"  median batch before {median:.2f} s; {longest}, last step {turn.seconds:.2f} s",
    ]


def _keep_up(feed: Feed, batch: int, handle: Any, stop: threading.Event) -> None:
    """Always one file more than was read."""
    while not stop.is_set():
        read = handle.report().rows_in.get("x", 0)
        if (feed.count - 10) * batch // 2 <= read + batch:
            feed.put(batch)
        time.sleep(0.005)


def _note_ends(handle: Any, ends: list[float], stop: threading.Event) -> None:
    seen = handle.report().count
    ends.append(time.perf_counter())
    while not stop.is_set():
        if handle.report().count > seen:
            seen = handle.report().count
            ends.append(time.perf_counter())
        time.sleep(0.002)


def measure_eleventh(root: Path, rows: int, batch: int) -> list[str]:
    """One query more for ten that run."""
    feed = Feed(root / "eleventh", max(1_000, rows // 2))
    for _ in range(10):
        feed.put(rows // 10)
    s = feed.session("ck", max_files=1)
    for number in range(10):
        s.query(f"q{number}", f"SELECT x.id AS x, y.id AS y FROM x JOIN y ON x.a = y.a AND x.c >= {number}").to_memory()
    s.run()
    results: dict[str, list[float]] = {"others": [], "new": []}
    with s:
        handle = s.start(every=0.001)
        stop = threading.Event()
        feeder = threading.Thread(target=_keep_up, args=(feed, batch, handle, stop))
        feeder.start()
        wait(handle, lambda: handle.report().count >= 5)
        seen, asked = handle.report().count, time.perf_counter()
        s.query("eleventh", "SELECT x.id AS x, y.id AS y FROM x JOIN y ON x.b = y.b AND x.a < y.a").to_memory()
        planned = time.perf_counter() - asked
        results["others"].append(asked)
        while len(results["new"]) < 3:
            for progress in handle.history(handle.report().count - seen):
                seen += 1
                now = time.perf_counter()
                if any(count for name, count in progress.rows_out.items() if name != "eleventh"):
                    results["others"].append(now)
                if progress.rows_out.get("eleventh"):
                    results["new"].append(now)
            wait(handle, lambda known=seen: handle.report().count > known)  # type: ignore[misc]
        stop.set()
        feeder.join()
    turn = handle.changes()[-1]
    gaps = [b - a for a, b in pairwise(results["others"])]
    first = f"first result {results['new'][0] - asked:.2f} s after it was added"
    return [
        f"eleventh: planned in {planned:.2f} s, {first}; {turn.taken} stores taken, {turn.moved:,} rows moved",
        f"  longest gap between results of the other ten {max(gaps):.2f} s, median {statistics.median(gaps):.2f} s",
    ]


def main() -> None:
    """Measure all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--batch", type=int, default=100_000)
    parser.add_argument("--only", default="moves,pause,eleventh")
    asked = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="weft-migrate-"))
    lines: list[str] = []
    try:
        if "moves" in asked.only:
            say(f"a change of {asked.rows:,} rows between two runs")
            lines += measure_moves(root, asked.rows)
        if "pause" in asked.only:
            say(f"a change of {asked.rows:,} rows while batches go on")
            lines += measure_pause(root, asked.rows, asked.batch)
        if "eleventh" in asked.only:
            say(f"one query more, {asked.rows // 2:,} rows of state")
            lines += measure_eleventh(root, asked.rows // 2, asked.batch)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    block("Changes of plan, two workers", lines)


if __name__ == "__main__":
    main()
