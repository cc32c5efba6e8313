"""One story of its own: a batch of several gigabytes, with texts of 10 KB, whose job is killed in the middle.

    python -m tests.chaos.big --gigabytes 4 --kills 4 --seed 1

Both streams arrive as a few large files that are read as one batch; every row has one partner, and the text goes
through state and results.  What the folder holds is compared with DuckDB by number and digest of the text.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import weft
from tests.chaos.job import end_with_parent
from tests.chaos.victims import Running

TEXT = 10_000
A_FILE = 12_500
"""Rows of a file, 125 MB."""
SQL = "SELECT a.id AS aid, b.id AS bid, b.s AS s FROM a JOIN b ON b.k = a.k"
CHECKED = "SELECT aid, bid, md5(s) AS digest FROM ({}) ORDER BY ALL"


def make(root: Path, gigabytes: float, seed: int) -> int:
    """Write both streams; how many rows each has."""
    dice, rows = np.random.default_rng(seed), int(gigabytes * 1e9 / TEXT)
    keys = dice.permutation(rows)
    for name in ("a", "b"):
        (root / "in" / name).mkdir(parents=True)
    pq.write_table(pa.table({"id": np.arange(rows), "k": keys}), root / "in" / "a" / "0000.parquet")
    for first in range(0, rows, A_FILE):
        count = min(A_FILE, rows - first)
        letters = dice.integers(97, 123, count * TEXT, dtype=np.uint8)
        ends = pa.py_buffer(np.arange(count + 1, dtype=np.int32) * TEXT)
        texts = pa.StringArray.from_buffers(count, ends, pa.py_buffer(letters))
        ids = np.arange(first, first + count)
        file = root / "in" / "b" / f"{first // A_FILE:04d}.parquet"
        pq.write_table(pa.table({"id": ids, "k": ids, "s": texts}), file, compression="none", use_dictionary=False)
    return rows


def run(root: Path) -> None:
    """The job."""
    session = weft.Session(root / "state", workers=2)
    for name in ("a", "b"):
        session.stream(name, weft.read.parquet(root / "in" / name))
    session.query("q", SQL).to_parquet(root / "out")
    print(session.run(), flush=True)


def kill(root: Path, dice: random.Random, life: int) -> str:
    """Start the job, and kill something of it after a while; what was killed."""
    job = Running(root, life, "", "", {}, "tests.chaos.big")
    delay, kind = dice.uniform(4, 25), dice.choice(("driver", "jvm", "worker", "group"))
    limit = time.monotonic() + delay
    while time.monotonic() < limit and job.is_alive():
        time.sleep(0.05)
    victims = job.victims("driver" if kind == "group" else kind)
    if victims and kind != "group":
        dice.choice(victims).kill()
    job.end()
    return f"{kind if victims else 'nothing'} after {delay:.0f} s"


def compare(root: Path, rows: int) -> None:
    """The result, row by row."""
    with duckdb.connect(config={"threads": 2}) as database:
        for name in ("a", "b"):
            database.execute(f"CREATE VIEW {name} AS FROM read_parquet('{root}/in/{name}/*.parquet')")
        wanted = database.execute(CHECKED.format(SQL)).fetchall()
        files = f"SELECT aid, bid, s FROM read_parquet('{root}/out/*.parquet')"
        found = database.execute(CHECKED.format(files)).fetchall()
    assert len(wanted) == rows
    assert found == wanted, f"{len(found)} rows instead of {len(wanted)}"


def main() -> int:
    if len(sys.argv) == 5 and not sys.argv[1].startswith("-"):
        threading.Thread(target=end_with_parent, daemon=True).start()
        run(Path(sys.argv[1]))
        return 0
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.big", description="a batch of gigabytes, killed")
    parser.add_argument("--gigabytes", type=float, default=4.0)
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    began, dice, root = time.monotonic(), random.Random(args.seed), Path(tempfile.mkdtemp(prefix="weft-big-"))
    rows = make(root, args.gigabytes, args.seed)
    print(f"{rows:,} rows with texts of {TEXT:,} bytes, after {time.monotonic() - began:.0f} s", flush=True)
    for life in range(args.kills):
        print(f"{kill(root, dice, life)}; {time.monotonic() - began:.0f} s", flush=True)
    last = Running(root, args.kills, "", "", {}, "tests.chaos.big")
    assert last.process.wait() == 0, last.log.read_text()[-3000:]
    last.end()
    compare(root, rows)
    print(f"{rows:,} rows as they should be, after {args.kills} kills, {time.monotonic() - began:.0f} s")
    shutil.rmtree(root)
    return 0


if __name__ == "__main__":
    sys.exit(main())
