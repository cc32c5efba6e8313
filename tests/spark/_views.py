"""The session of aggregate queries that tests run, crash and kill: `python -m tests.spark._views ROOT ... `.

Its arguments are those of `tests.spark._job`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import weft
from tests.spark._kit import STATISTICS, STREAMS, Answer, hang_at, oracle

SUMS = """
    SELECT r.k AS k, COUNT(*) AS n, SUM(t.id) AS ids, MIN(s.m) AS least, COUNT(DISTINCT t.m) AS kinds
    FROM r JOIN s ON s.k = r.k JOIN t ON t.m = s.m
    GROUP BY r.k HAVING COUNT(*) % 3 <> 0
"""
WINDOWS = """
    SELECT window.start AS start, COUNT(*) AS n, MAX(r.id) AS most
    FROM r GROUP BY window(r.ts, '20 seconds', '10 seconds')
"""
KINDS = "SELECT DISTINCT r.k % 10 AS a, t.m % 10 AS b FROM r JOIN t ON r.k = t.k"
LATENESS = 30


def make_session(
    root: Path, function: Callable[[Any, int], None] | None = None, workers: int = 2, **options: Any
) -> weft.Session:
    """The session over the files of `make_input`; `function` gets the changes of one view."""
    session = weft.Session(root / "checkpoint", workers=workers, **options)
    session.options(statistics=STATISTICS)
    for stream in STREAMS:
        source = weft.read.parquet(root / "in" / stream, max_files=1)
        session.stream(stream, source, event_time="ts", lateness=f"{LATENESS} seconds")
    sums = session.query("sums", SUMS).to_memory()
    sums.to_parquet(root / "out" / "snapshot", mode="snapshot").to_parquet(root / "out" / "changes")
    if function is not None:
        sums.foreach_batch(function)
    session.query("windows", WINDOWS).to_parquet(root / "out" / "final", mode="final")
    session.query("kinds", KINDS).to_parquet(root / "out" / "kinds")
    return session


def views(root: Path, batches: int | None = None) -> dict[str, Answer]:
    """What the folders must show after some batches, one file of each stream in a batch."""
    inputs = {stream: _rows(root, stream, batches) for stream in STREAMS}
    # A run ends with a batch without rows if that closes windows; no row is late for any of them.
    final = f"""
        WITH starts AS (SELECT id, time_bucket(INTERVAL 10 SECOND, ts) AS b FROM r),
        windows AS (SELECT id, b - INTERVAL (x) SECOND AS start FROM starts, (VALUES (0), (10)) v(x))
        SELECT start, count(*), max(id) FROM windows GROUP BY start
        HAVING start + INTERVAL 20 SECOND <= (SELECT max(ts) - INTERVAL {LATENESS} SECOND FROM r)
    """
    return {
        "sums": oracle(SUMS, **inputs),
        "kinds": oracle(KINDS, **inputs),
        "final": oracle(final, r=inputs["r"]),
    }


def _rows(root: Path, stream: str, batches: int | None) -> pa.Table:
    files = sorted((root / "in" / stream).glob("*.parquet"))
    tables = [pq.read_table(file) for file in files[:batches]]
    return pa.concat_tables([pq.read_schema(files[0]).empty_table(), *tables])


def main() -> None:
    root, workers, _plans, _changes, *crash = sys.argv[1:]
    session = make_session(Path(root), workers=int(workers), progress=True)
    hang_at(session, crash)
    print(session.run(), flush=True)


if __name__ == "__main__":
    main()
