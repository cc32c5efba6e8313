"""Makes sessions start sooner: `python -m weft.launch.prepare`, by itself after a first run, or through `weft doctor`.

A small session does all that sessions do, in a JVM that writes down the classes it has loaded when it ends.
What must hold: one process at a time, and the file is renamed into place when it is whole.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from weft import read
from weft.launch.classes import Archive
from weft.launch.java import ensure_java
from weft.launch.spark import local_session
from weft.session import Session

SECONDS = 180.0
"""How long the JVM may take to write the file."""


def make() -> Path | None:
    """Make the file unless it is there; None if that does not work.  Waits for somebody else who is at it."""
    archive = Archive(ensure_java().home)
    with _alone(archive.stem):
        if archive.file is None:
            aside = archive.stem.with_suffix(".aside")
            aside.unlink(missing_ok=True)
            try:
                _record(aside)
                archive.keep(aside)
                archive.failed.unlink(missing_ok=True)
            except Exception:  # noqa: BLE001 - whatever it is, sessions go on without
                archive.give_up()
            finally:
                aside.unlink(missing_ok=True)
    return archive.file


@contextlib.contextmanager
def _alone(stem: Path) -> Iterator[None]:
    """One at a time; a lock goes with its process."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    with open(stem.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _record(aside: Path) -> None:
    spark = local_session(2, f'"-XX:ArchiveClassesAtExit={aside}" -Xlog:disable')
    gateway = spark.sparkContext._gateway  # PySpark gives no other hold of its JVM
    try:
        with tempfile.TemporaryDirectory(prefix="weft.launch.prepare-", ignore_cleanup_errors=True) as folder:
            for framed in (False, True):
                _rehearse(spark, Path(folder), framed=framed)
        spark.stop()
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(SECONDS)


def _rehearse(spark: Any, folder: Path, *, framed: bool) -> None:
    """All that sessions do; `framed` with a stream of Spark's."""
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
    sys.exit(make() is None)
