"""Memory is bounded by the size of chunks, time by the number of results."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa

import weft
from weft.testing import Trial

FIFTY_MILLION = """
import json, resource
import pyarrow as pa
import weft, weft.host.inprocess.run as run
from weft.testing import Trial

class Counting:
    rows = 0
    def __init__(self, into): pass
    def write(self, query, rows): Counting.rows += rows.num_rows
    def close(self): return []

run.MemoryResults = Counting
schema = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("s", pa.string())])
def rows(n): return pa.table({"k": [1] * n, "n": list(range(n)), "s": ["abcdefgh"] * n}, schema)
session = weft.Session("unused", workers=WORKERS)
for name in "ab":
    session.stream(name, weft.read.batches([schema.empty_table()]))
session.query("q", "SELECT a.n AS x, b.n AS y, a.s AS s FROM a, b WHERE a.k = b.k")
trial = Trial(session)
trial.feed({"a": rows(10), "b": rows(10)})
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
trial.feed({"a": rows(7100)})
trial.feed({"b": rows(7100)})
print(json.dumps([Counting.rows, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024]))
"""


def test_fifty_million_results_of_one_hot_key_need_little_memory() -> None:
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", FIFTY_MILLION.replace("WORKERS", "2")],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    rows, megabytes = json.loads(done.stdout.splitlines()[-1])
    assert rows == 7110 * 7110
    assert megabytes < 600
    assert time.perf_counter() - began < 120


def test_a_million_equal_keys_joined_in_a_window_cost_what_comes_out() -> None:
    """Each row has four partners in its window.  A scan of the key would compare a trillion pairs."""
    n = 500_000
    schema = pa.schema([("k", pa.int64()), ("t", pa.int64())])
    session = weft.Session("unused", workers=1)
    for name in "ab":
        session.stream(name, weft.read.batches([schema.empty_table()]), event_time="t", unit="us", lateness=10_000)
    session.query("q", "SELECT a.t AS x, b.t AS y FROM a, b WHERE a.k = b.k WITHIN INTERVAL '2' MICROSECOND")
    trial = Trial(session)
    rows = pa.table({"k": np.zeros(n, dtype=np.int64), "t": np.arange(n)}, schema)
    trial.feed({"a": rows.slice(0, 10), "b": rows.slice(0, 10)})
    began = time.perf_counter()
    report = trial.feed({"a": rows.slice(10)})
    found = trial.feed({"b": rows.slice(10)}).results["q"] + report.results.get("q", 0)
    assert found + 28 == 3 * n - 2  # |x - y| < 2, and the first ten of each gave 28
    assert time.perf_counter() - began < 30
