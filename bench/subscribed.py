"""Subscriptions through whole systems: the workload of the paper (E14) in files, the same for all, answers compared.

    python -m bench.subscribed [--subscriptions 100000] [--tuples 200000] [--few 8000] [--results 4] [--limit 400]

Stream w is there from the beginning: `results` rows for each key.  Rows of t arrive in batches, each with a key of its
own, so each makes as many join results.  A subscription has an interval for each attribute of both streams, placed at
random, so that a join result is for `selectivity` of all.

    weft      all of it on Spark, two workers; in many tuples for its speed, and in few beside the others
    weft-naive  the same, every join result looked up in all dimensions
    spark     Spark's stream-stream join, then a broadcast join with the table of parameters
    flink     Flink SQL: the same three tables, two joins; the second in parts, so that it has more than one task
    duckdb    DuckDB, a statement for each batch: no state, no recovery

A rate is that of the batches after the first two; of a system without batches, of the whole input.  What a system has
not answered at the limit is not compared: its rate is that of the batches it has done, and without batches it is said
to be less than all tuples by the limit.  With many tuples, systems must find what the first of them has found.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.machine import machine_line
from bench.measure import Seen, watch_process
from bench.peersetup import FOLDER, PARQUET, SYSTEMS, environment, ready
from bench.peersystems.subscribing import Job
from bench.streams import SEED
from bench.subscriptions import DOMAIN
from bench.workload import answer_in, sum_answer

ROOT = Path(__file__).parents[1]
PEERS = ("weft", "weft-naive", "spark", "flink", "duckdb")
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Row:
    """The outcome of one system."""

    system: str
    tuples: int
    verdict: str
    rate: float | None
    peak: int
    busy: float = 0.0
    """Processor seconds of all its processes, from its start on."""
    found: tuple[int, int] | None = None
    """How many results, and a sum over them."""


def make(folder: Path, job: Job, selectivity: float) -> None:
    """Write the workload: w in one file, t in batches, subscriptions in one file."""
    rng = np.random.default_rng(SEED)
    wide = round(DOMAIN * selectivity ** (1 / (2 * job.attributes)))
    keys = rng.permutation(job.tuples)
    _write(folder / "w" / "0000.parquet", _rows(rng, np.repeat(np.arange(job.tuples), job.results), "b", job))
    for number, some in enumerate(np.array_split(keys, job.batches)):
        _write(folder / "t" / f"{number:04d}.parquet", _rows(rng, some, "a", job, int(some[0]) if len(some) else 0))
    low = rng.integers(0, DOMAIN - wide, (job.subscriptions, 2 * job.attributes)).astype(np.int32)
    ends = {f"{side}{d}": low[:, d] + (wide if side == "h" else 0) for d in range(low.shape[1]) for side in "lh"}
    _write(folder / "s" / "0000.parquet", pa.table({"subscriber": np.arange(job.subscriptions), **ends}))


def _rows(rng: np.random.Generator, keys: np.ndarray, prefix: str, job: Job, first: int = 0) -> pa.Table:
    values = {f"{prefix}{d}": rng.integers(0, DOMAIN, len(keys)).astype(np.int32) for d in range(job.attributes)}
    return pa.table({f"{prefix}id": keys * 64 + first % 64, f"{prefix}k": keys, **values})


def _write(path: Path, rows: pa.Table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path)


def truth(folder: Path, job: Job) -> tuple[int, int]:
    """The answer, by one statement."""
    with duckdb.connect() as duck:
        for name in ("t", "w", "s"):
            duck.execute(f"CREATE VIEW {name} AS FROM read_parquet('{folder / name}/*.parquet')")
        return sum_answer(duck, job.sql("s"))


def measure(system: str, folder: Path, job: Job, wanted: tuple[int, int] | None, limit: float) -> Row:
    """Run one system in a process of its own."""
    peer = SYSTEMS[system.partition("-")[0]]
    python = ready(peer)
    if system == "flink" and not list(FOLDER.glob(PARQUET)):
        python = "it has no Parquet here"
    if isinstance(python, str):
        return Row(system, job.tuples, f"skipped: {python}", None, 0)
    out = Path(tempfile.mkdtemp(prefix="weft-subscribed-"))
    try:
        mine = replace(job, system=system, data=str(folder), out=str(out))
        (out / "job.json").write_text(json.dumps(asdict(mine)))
        command = [str(python), "-m", "bench.peersystems.subscribing", str(out / "job.json")]
        path = str(ROOT) if peer.requirement else ":".join([str(ROOT), *filter(None, sys.path)])
        seen = watch_process(command, out, limit, environment(peer) | {"PYTHONPATH": path}, ROOT)
        return _row(system, job, seen, out, wanted, limit)
    finally:
        shutil.rmtree(out, ignore_errors=True)


def _row(system: str, job: Job, seen: Seen, out: Path, wanted: tuple[int, int] | None, limit: float) -> Row:
    told = {key: value for line in seen.told for key, value in line.items() if key != "batch"}
    batches = [line["batch"] for line in seen.told if "batch" in line]
    if "done" not in told:
        said = told.get("error") or (seen.noise.strip().splitlines() or ["no message"])[-1][:160]
        why = f"over the limit of {limit:g} s after {len(batches)} batches" if seen.over else f"failed: {said}"
        if seen.over and not batches:
            why = f"over the limit of {limit:g} s: less than {job.tuples / limit:,.0f} tuples/s"
        return Row(system, job.tuples, why, _rate(batches), seen.peak, seen.busy)
    rate = _rate(batches) or job.tuples / (told["done"] - told["began"])
    found = answer_in(out / "rows")
    verdict = "compared with others" if wanted is None else "right" if found == wanted else "WRONG"
    return Row(system, job.tuples, verdict, rate, seen.peak, seen.busy, found)


def _rate(batches: Sequence[tuple[float, int]]) -> float | None:
    """Tuples a second after the second batch; a batch says when it was done and how many tuples it had."""
    if len(batches) < 3:
        return None
    return sum(count for _, count in batches[2:]) / (batches[-1][0] - batches[1][0])


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description="Subscriptions through whole systems.")
    parser.add_argument("--subscriptions", type=int, default=100_000)
    parser.add_argument("--attributes", type=int, default=5, help="of each stream")
    parser.add_argument("--results", type=int, default=4, help="join results a tuple")
    parser.add_argument("--selectivity", type=float, default=1e-4)
    parser.add_argument("--tuples", type=int, default=200_000, help="for Weft alone; 0 leaves this out")
    parser.add_argument("--few", type=int, default=8_000, help="for all systems")
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--systems", default=",".join(PEERS))
    parser.add_argument("--limit", type=float, default=400.0, help="seconds for one system")
    parser.add_argument("--out", type=Path, default=RESULTS)
    asked = parser.parse_args(arguments)
    job = Job("", asked.subscriptions, asked.tuples, asked.results, asked.attributes, asked.batches)
    print(f"subscriptions through systems: {job.subscriptions:,}, {job.attributes} attributes a stream, "
          f"{job.results} join results a tuple, selectivity {asked.selectivity:g}, 2 workers, seed {SEED}; "
          f"{machine_line()}")  # fmt: skip
    began, rows = time.perf_counter(), list(_measure(job, asked))
    asked.out.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine_line(), "asked": {k: str(v) for k, v in vars(asked).items()}}
    (asked.out / "subscribed.json").write_text(json.dumps({**content, "rows": [asdict(row) for row in rows]}, indent=1))
    print(f"{time.perf_counter() - began:.0f} seconds in all")
    if any(row.verdict == "WRONG" for row in rows):
        sys.exit("some answers are WRONG")


def _measure(job: Job, asked: argparse.Namespace) -> Iterator[Row]:
    systems = asked.systems.split(",")
    for tuples, chosen in ((asked.few, systems), (asked.tuples, [s for s in systems if s.startswith("weft")])):
        folder = Path(tempfile.mkdtemp(prefix="weft-subscribed-"))
        try:
            mine = replace(job, tuples=tuples)
            if tuples:
                make(folder, mine, asked.selectivity)
            wanted = truth(folder, mine) if tuples == asked.few and tuples else None
            for system in chosen if tuples else ():
                row = measure(system, folder, mine, wanted, asked.limit)
                wanted = wanted or row.found
                rate = "" if row.rate is None else f"{row.rate:,.0f}"
                print(f"  {row.system:<11} {row.tuples:>9,} tuples {rate:>10} tuples/s  {row.peak / 2**20:>7,.0f} MiB  "
                      f"{row.busy:>5,.0f} s of processors  {row.verdict}", flush=True)  # fmt: skip
                yield row
        finally:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
