"""The Spark session that Weft starts if it is given none, and the settings of its batches."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from weft.errors import HostError
from weft.launch.classes import Archive
from weft.launch.interpreter import worker_python
from weft.launch.java import ensure_java
from weft.launch.plain import is_plain
from weft.launch.warm import warm

# What Weft always needs, however Spark is started: a Java that Spark can run on (`ensure_java`); workers that run this
# Python, since Weft may not be installed for the `python3` on PATH (PYSPARK_PYTHON); the same time zone everywhere,
# since Spark gives the user's functions times in its session's zone (NEEDED); and the settings of BATCHES_NEED.
NEEDED = {"spark.sql.session.timeZone": "UTC"}
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


def tuned_session(
    settings: Mapping[str, object] | None = None,
    *,
    master: str | None = None,
    workers: int | None = None,
    **more: object,
) -> SparkSession:
    """The Spark session that Weft would start, with your own settings on top.

    Settings have Spark's names: `weft.spark({"spark.driver.memory": "8g"})`, or `weft.spark(spark_driver_memory="8g")`.
    `workers` is the number of cores of a local session; None is all of the machine.  With a `master` the session runs
    there, with the settings that Weft's batches need and none of those for a quick start on this machine.
    """
    named = {name.replace("_", "."): value for name, value in more.items()}
    mine = {name: _text(value) for name, value in {**(settings or {}), **named}.items()}
    if master is not None and not master.startswith("local["):
        ensure_java()
        return _start(master, {**NEEDED, **batch_settings(), **mine})
    cores = int(master[6:-1]) if master is not None and master[6:-1].isdigit() else workers or os.cpu_count() or 1
    return local_session(cores, mine)


def local_session(workers: int, mine: Mapping[str, str] | None = None) -> SparkSession:
    """A local Spark session with one core per worker, up to the number of cores of the machine."""
    cores = max(1, min(workers, os.cpu_count() or 1))
    java, mine = ensure_java(), mine or {}
    return _start_plainly(cores, mine) if is_plain() else _start_with(Archive(java.home), cores, mine)


def _start_plainly(cores: int, mine: Mapping[str, str]) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return _start(f"local[{cores}]", {**NEEDED, **mine})


def _start_with(archive: Archive, cores: int, mine: Mapping[str, str]) -> SparkSession:
    """Start with the file of classes if it exists, and without it if that fails."""
    options = archive.options()
    try:
        spark = start_quickly(cores, options, mine)
        archive.trust()
    except HostError:
        if not options:
            raise
        _forget_jvm()
        spark = start_quickly(cores, "", mine)
        archive.doubt()
    return spark


def start_quickly(cores: int, java_options: str, mine: Mapping[str, str] | None = None) -> SparkSession:
    """A session with everything that makes it start sooner; the file of classes comes with `java_options`."""
    os.environ.setdefault("PYSPARK_PYTHON", worker_python())
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    log = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
    collector = "-XX:+UseSerialGC" if cores <= 2 else "-XX:+UseParallelGC"  # Java's default costs 100 MB more
    flags = f"{log} {JVM} {collector} -XX:MaxNewSize={YOUNG * max(2, cores)}m {java_options}"
    ours, mine = {JAVA_OPTIONS: flags, **NEEDED, **QUICKLY}, dict(mine or {})
    if (own := mine.pop(JAVA_OPTIONS, None)) is not None:
        ours[JAVA_OPTIONS] += f" {own}"  # the JVM takes the last of two flags that differ
    spark = _start(f"local[{cores}]", {**ours, **mine})
    spark.sparkContext.setLogLevel("OFF")
    warm(spark, cores)
    return spark


def _forget_jvm() -> None:
    """Make PySpark drop a JVM that it could not use."""
    if SparkContext._gateway is not None:
        with contextlib.suppress(Exception):  # most likely the JVM is gone
            SparkContext._gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None


def _text(value: object) -> str:
    """A setting as Spark reads it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _start(master: str, settings: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.builder.appName("weft").master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except Exception as error:  # py4j wraps whatever the JVM says
        raise HostError("Spark did not start", detail=str(error).splitlines()[0], hint="run: weft doctor") from error
