"""Makes sessions start sooner: `python -m weft.prepare`, by itself after a first run, or through `weft doctor`.

A small session does all that sessions do, in a JVM that writes down the classes it has loaded when it ends.
What must hold: one process at a time, and the file is renamed into place when it is whole.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from weft import read
from weft.host.spark.archive import Archive
from weft.host.spark.session import local_session
from weft.java import ensure_java
from weft.session import Session

STALE = 600.0
"""Seconds after which somebody who was at it is not believed to be at it any more."""
SECONDS = 180.0
"""How long the JVM may take to write the file."""


def make() -> Path | None:
    """Make the file unless it is there; None if that does not work, or if somebody else is at it."""
    archive = Archive(ensure_java().home)
    with _alone(archive.stem) as alone:
        if alone and archive.file is None:
            archive.give_up()  # until it is there
            aside = archive.stem.with_suffix(".aside")
            aside.unlink(missing_ok=True)
            _record(aside)
            if aside.exists():
                archive.keep(aside)
                archive.failed.unlink()
    return archive.file


@contextlib.contextmanager
def _alone(stem: Path) -> Iterator[bool]:
    mark = stem.with_suffix(".making")
    stem.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        if time.time() - mark.stat().st_mtime > STALE:
            mark.unlink()
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        yield False
        return
    try:
        yield True
    finally:
        mark.unlink(missing_ok=True)


def _record(aside: Path) -> None:
    spark = local_session(2, f'"-XX:ArchiveClassesAtExit={aside}" -Xlog:disable')
    with tempfile.TemporaryDirectory(prefix="weft-prepare-", ignore_cleanup_errors=True) as folder:
        for framed in (False, True):
            _rehearse(spark, Path(folder), framed=framed)
    gateway = spark.sparkContext._gateway  # PySpark gives no other hold of its JVM
    spark.stop()
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
