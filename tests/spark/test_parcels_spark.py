"""Large payloads on one machine: tasks that are started a second time change nothing, and no file stays."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark._kit import oracle

pytestmark = pytest.mark.spark

ROWS = 300_000
JOB = """
import os, sys
from pathlib import Path
import pyarrow as pa
import weft
from pyspark import SparkFiles

root = Path(sys.argv[1])

def dying(values):
    if (pa.compute.max(values).as_py() or 0) > 250_000:  # in the middle of a task, once in each of its waves
        mark = root / f"died-{len(list(root.glob('died-*')))}"
        if len(list(root.glob("died-*"))) < 3:
            mark.touch()
            os.kill(os.getpid(), 9)
    return values

s = weft.Session(root / "state", weft.spark(master="local[2,8]"), workers=2, progress=False)
s.function("dying", dying, pa.int64())
for name in ("a", "b", "c"):
    s.stream(name, weft.read.parquet(root / name, max_files=1))
s.query("q", "SELECT a.v AS x, b.v AS y, dying(c.v) AS z FROM a JOIN b ON a.k = b.k JOIN c ON dying(c.v) = b.v",
        strategy="flat").to_parquet(root / "out")
report = s.run()
print(sorted(path.name for path in Path(SparkFiles.getRootDirectory()).iterdir()))
"""


def test_killed_tasks_are_run_again_with_all_payloads(tmp_path: Path) -> None:
    dice, made = np.random.default_rng(5), {}
    for name in "abc":
        rows = {"k": dice.permutation(ROWS) + (1 << 33), "v": dice.permutation(ROWS)}
        made[name] = pa.table(rows)
        (tmp_path / name).mkdir()
        for part in (0, 1):
            pq.write_table(made[name].slice(part * ROWS // 2, ROWS // 2), tmp_path / name / f"{part}.parquet")
    done = subprocess.run([sys.executable, "-c", JOB, str(tmp_path)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == "[]"
    assert len([*tmp_path.glob("died-*")]) == 3
    sums = "SELECT count(*), sum(x), sum(y), sum(z), sum(x * y % 1009), sum(y * z % 1013), count(DISTINCT x) FROM"
    wanted = oracle(f"{sums} (SELECT a.v x, b.v y, c.v z FROM a JOIN b ON a.k = b.k JOIN c ON c.v = b.v)", **made)
    assert oracle(f"{sums} read_parquet('{tmp_path}/out/*.parquet')") == wanted
