"""Makes the file of Spark's classes: a JVM runs a rehearsal, and writes the classes it has loaded when it ends.

The rehearsal is an argument: it does what sessions do.  What must hold: one process at a time, and the file is renamed
into place when it is complete.
"""

from __future__ import annotations

import contextlib
import fcntl
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from weft.launch.classes import Archive
from weft.launch.java import ensure_java
from weft.launch.plain import is_plain
from weft.launch.spark import start_quickly

SECONDS = 180.0
"""How long the JVM may take to write the file."""

Rehearse = Callable[[SparkSession, Path], None]
"""Does what sessions do, with a folder for its files."""


def make(rehearse: Rehearse) -> Path | None:
    """Make the file unless it exists; return None if that fails.  Waits if another process is making it."""
    if is_plain():
        return None
    archive = Archive(ensure_java().home)
    with lock(archive.stem):
        if archive.file is None:
            aside = archive.stem.with_suffix(".aside")
            aside.unlink(missing_ok=True)
            try:
                _record(aside, rehearse)
                archive.keep(aside)
                archive.failed.unlink(missing_ok=True)
            except Exception:  # noqa: BLE001 - whatever it is, sessions work without the file
                archive.give_up()
            finally:
                aside.unlink(missing_ok=True)
    return archive.file


@contextlib.contextmanager
def lock(stem: Path) -> Iterator[None]:
    """Let in one process at a time; the lock ends with its process."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    with open(stem.with_suffix(".lock"), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _record(aside: Path, rehearse: Rehearse) -> None:
    spark = start_quickly(2, f'"-XX:ArchiveClassesAtExit={aside}" -Xlog:disable')
    gateway = spark.sparkContext._gateway  # PySpark has no public access to its JVM
    try:
        with tempfile.TemporaryDirectory(prefix="weft-rehearsal-", ignore_cleanup_errors=True) as folder:
            rehearse(spark, Path(folder))
        spark.stop()
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(SECONDS)
