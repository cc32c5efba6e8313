"""The Spark session Weft starts when it is given none, and the settings its batches run under."""

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

# What Weft cannot do without, however Spark is started: a Java that Spark can run on (`ensure_java`); workers that run
# this Python, since the `python3` on PATH may know nothing of Weft (PYSPARK_PYTHON); one zone for all machines, since
# times without a zone reach functions of the user through Spark's (NEEDED); and what BATCHES_NEED says.
NEEDED = {"spark.sql.session.timeZone": "UTC"}
BATCHES_NEED = {
    # Payloads are megabytes: ten thousand of them, which is Spark's own limit, do not fit into one batch of Arrow's.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(4 << 20),
    # The plan of a batch is fixed: partition p of every wave is worker p.  And each adapted stage costs a round trip.
    "spark.sql.adaptive.enabled": "false",
}
BATCHES_QUICKLY = {
    # A batch has some dozens of rows, so generated code would never pay for its compilation.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
QUICKLY = {
    # Payloads are few and already dense: compressing them costs more than it saves.
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
    # The checkpoint is a folder; Hadoop's other way of renaming a file in it starts a process for each look at it.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    **BATCHES_NEED,
    **BATCHES_QUICKLY,
}
JVM = "-XX:TieredStopAtLevel=1 -Xms64m"
"""The JVM only moves bytes and schedules: quick compilation and large arrays matter, peak speed of code does not."""
YOUNG = 64
"""Megabytes of young objects a core: what is allocated are payloads, which die young."""


def batch_settings() -> Mapping[str, str]:
    """What a batch runs under, in any session."""
    return BATCHES_NEED if is_plain() else BATCHES_NEED | BATCHES_QUICKLY


def local_session(workers: int) -> SparkSession:
    """A local Spark session with one core a worker, up to what the machine has."""
    cores = max(1, min(workers, os.cpu_count() or 1))
    java = ensure_java()
    return _start_plainly(cores) if is_plain() else _start_with(Archive(java.home), cores)


def _start_plainly(cores: int) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return _start(cores, NEEDED)


def _start_with(archive: Archive, cores: int) -> SparkSession:
    """With the file of classes if it is there, and without it if Spark does not start with it."""
    options = archive.options()
    try:
        spark = start_quickly(cores, options)
        archive.trust()
    except HostError:
        if not options:
            raise
        _forget_jvm()
        spark = start_quickly(cores, "")
        archive.doubt()
    return spark


def start_quickly(cores: int, java_options: str) -> SparkSession:
    """A session with all that makes it start sooner, but for the file of classes, which is up to `java_options`."""
    os.environ.setdefault("PYSPARK_PYTHON", worker_python())
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    log = f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"
    collector = "-XX:+UseSerialGC" if cores <= 2 else "-XX:+UseParallelGC"  # the other one costs 100 MB more
    flags = f"{log} {JVM} {collector} -XX:MaxNewSize={YOUNG * max(2, cores)}m {java_options}"
    spark = _start(cores, {"spark.driver.extraJavaOptions": flags, **NEEDED, **QUICKLY})
    spark.sparkContext.setLogLevel("OFF")
    warm(spark, cores)
    return spark


def _forget_jvm() -> None:
    """PySpark keeps hold of a JVM that it could not use."""
    if SparkContext._gateway is not None:
        with contextlib.suppress(Exception):  # most likely it is gone
            SparkContext._gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None


def _start(cores: int, settings: Mapping[str, str]) -> SparkSession:
    builder = SparkSession.builder.appName("weft").master(f"local[{cores}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except Exception as error:  # py4j wraps whatever the JVM says
        raise HostError("Spark did not start", detail=str(error).splitlines()[0], hint="run: weft doctor") from error
