"""The settings of Spark and of its JVM, as plain data: known before PySpark is loaded."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from weft.launch.plain import is_plain

# What Weft always needs, however Spark is started: a Java that Spark can run on (`ensure_java`); workers that run this
# Python, since Weft may not be installed for the `python3` on PATH (PYSPARK_PYTHON); the same time zone everywhere,
# since Spark gives the user's functions times in its session's zone (NEEDED); and the settings of BATCHES_NEED.
NEEDED = {"spark.sql.session.timeZone": "UTC"}
ON_CLUSTERS = {
    # A task prefers the executor that has its segments.  If that one is busy, another is better than to wait.
    "spark.locality.wait": "0s",
}
BATCHES_NEED = {
    # A payload has megabytes, a row of a stream that Spark brings a hundred bytes.  Many of the one must not come at a
    # time, and few of the other cost much: so bytes are limited, and rows hardly are.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(4 << 20),
    # The plan of a batch is fixed: partition p of every wave is worker p.  And each adaptive stage costs a round trip.
    "spark.sql.adaptive.enabled": "false",
}
BATCHES_QUICKLY = {
    # To Spark a batch has a few dozen rows, so generated code never pays for its compilation.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
QUICKLY = {
    # Payloads are few and already compact: compressing them costs more than it saves.
    "spark.shuffle.compress": "false",
    "spark.broadcast.compress": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.daemon.module": "weft.launch.daemon",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.numRecentProgressUpdates": "2",
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.pollingDelay": "10ms",
    # The checkpoint is a folder.  Spark's default class for it starts a process for each look at a file.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    **BATCHES_NEED,
    **BATCHES_QUICKLY,
}
JVM = "-XX:TieredStopAtLevel=1 -Xms64m"
"""The JVM only schedules tasks and moves bytes: it should compile quickly; the peak speed of code matters little."""
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
YOUNG = 64
"""Megabytes of young objects per core: most of what is allocated are payloads, which live for a short time."""


def batch_settings() -> Mapping[str, str]:
    """The settings of a batch, in any session."""
    return BATCHES_NEED if is_plain() else BATCHES_NEED | BATCHES_QUICKLY


def quick_settings(cores: int, java_options: str, mine: Mapping[str, str] | None = None) -> dict[str, str]:
    """The settings of a session that starts sooner; the file of classes comes with `java_options`, the user's win."""
    log = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
    collector = "-XX:+UseSerialGC" if cores <= 2 else "-XX:+UseParallelGC"  # Java's default costs 100 MB more
    flags = f"{log} {JVM} {collector} -XX:MaxNewSize={YOUNG * max(2, cores)}m {java_options}"
    ours, own = {JAVA_OPTIONS: flags, **NEEDED, **QUICKLY}, dict(mine or {})
    if (more := own.pop(JAVA_OPTIONS, None)) is not None:
        ours[JAVA_OPTIONS] += f" {more}"  # the JVM takes the last of two flags that differ
    return {**ours, **own}


def count_cores(workers: int) -> int:
    """One core per worker, up to the number of cores of the machine."""
    return max(1, min(workers, os.cpu_count() or 1))
