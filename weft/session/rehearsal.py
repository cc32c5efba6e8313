"""A small session that does what sessions do, so that the classes it loads can be saved for later sessions.

`python -m weft.session.rehearsal` makes the file of :mod:`weft.launch.classes`.  It is started after a first run, by
`weft doctor`, and by `make setup`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from weft import read
from weft.launch.prepare import make
from weft.session.session import Session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rehearse(spark: SparkSession, folder: Path) -> None:
    """Run one session over tables, and one with a streaming DataFrame."""
    for framed in (False, True):
        _run(spark, folder, framed=framed)


def _run(spark: SparkSession, folder: Path, *, framed: bool) -> None:
    rows = pa.table({"k": [1, 2], "m": [1, 1]})
    s = Session(folder / f"state-{framed}", workers=2, spark=spark, progress=False)
    for name in "abc":
        s.stream(name, read.batches([rows, rows]))
    if framed:
        (folder / "in").mkdir()
        pq.write_table(rows, folder / "in" / "0.parquet")
        s.stream("d", spark.readStream.schema("k LONG, m LONG").parquet(str(folder / "in")))
    last = "d" if framed else "c"
    q = s.query("q", f"SELECT a.k FROM a JOIN b ON a.k = b.k JOIN {last} AS z ON b.m = z.m", strategy="left_deep")
    q.to_parquet(folder / f"out-{framed}").foreach_batch(lambda frame, _: frame.count())
    s.run()


if __name__ == "__main__":
    os.nice(19)
    sys.exit(make(rehearse) is None)
