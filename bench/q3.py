"""Workload Q3: customer JOIN orders JOIN lineitem of TPC-H, full history, beside Spark's own cascade.

    python -m bench.q3 [--scale 1] [--batches 20] [--systems weft,spark]

Prints input rows per second, the ratio, and how the cost of a row grows with state.  Every system's rows are
counted and summed up; a system with another result is marked WRONG.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import duckdb

from bench.tpch import q3_streams

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    """Run the workload."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--systems", default="weft,spark")
    asked = parser.parse_args()
    data = q3_streams(asked.scale, asked.batches)
    truth = _truth(data)
    print(f"Q3, SF{asked.scale:g}, {asked.batches} batches, 2 workers, {os.cpu_count()} cores, {platform.machine()}")
    found = {name: _measure(name, data, truth) for name in asked.systems.split(",")}
    _table(found)
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"q3-sf{asked.scale:g}-{asked.batches}.json"
    path.write_text(
        json.dumps({"python": platform.python_version(), "cores": os.cpu_count(), "systems": found}, indent=1)
    )


def _measure(name: str, data: Path, truth: tuple[Any, ...]) -> dict[str, Any]:
    print(f"  running {name} ...", flush=True)
    with tempfile.TemporaryDirectory() as out:
        command = [sys.executable, "-m", "bench.systems", name, str(data), out]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        figures["right"] = _checksum(f"read_parquet('{out}/rows/*.parquet')") == truth
    return figures


def _table(found: dict[str, dict[str, Any]]) -> None:
    print(f"\n  {'system':<8} {'rows/s':>10} {'seconds':>8} {'results':>10}  {'last/fifth':>10}  answer")
    for name, f in found.items():
        speed = f["rows"] / f["seconds"]
        right = "right" if f["right"] else "WRONG"
        print(f"  {name:<8} {speed:>10,.0f} {f['seconds']:>8.1f} {f['results']:>10,}  {_growth(f):>10}  {right}")
    if len(found) == 2:
        ours, theirs = (found[n]["rows"] / found[n]["seconds"] for n in ("weft", "spark"))
        print(f"\n  Weft is {ours / theirs:.1f} times Spark's cascade")


def _growth(figures: dict[str, Any]) -> str:
    """Time per (input + result row) of the last batch over that of the fifth."""
    batches = figures["batches"]
    if len(batches) < 6 or "out" not in batches[0]:
        return ""
    cost = [b["seconds"] / (b["in"] + b["out"]) for b in batches]
    return f"{cost[-1] / cost[4]:.2f}"


def _truth(data: Path) -> tuple[Any, ...]:
    c, o, line = (f"read_parquet('{data / name}/*.parquet')" for name in ("customer", "orders", "lineitem"))
    joined = f"(FROM {c} c JOIN {o} o ON o_custkey = c_custkey JOIN {line} l ON l_orderkey = o_orderkey SELECT *)"
    return _checksum(joined)


def _checksum(relation: str) -> tuple[Any, ...]:
    sql = f"""SELECT count(*), sum(hash(c_custkey, c_nationkey, c_acctbal, o_orderkey, o_totalprice,
              l_partkey, l_suppkey, l_quantity, l_extendedprice)::HUGEINT) FROM {relation}"""
    row: tuple[Any, ...] = duckdb.connect().execute(sql).fetchall()[0]
    return row


if __name__ == "__main__":
    main()
