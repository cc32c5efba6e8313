"""The Spark session Weft starts when it is given none, and the settings its batches run under."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from weft.errors import HostError
from weft.launch.classes import Archive
from weft.launch.interpreter import worker_python
from weft.launch.java import ensure_java
from weft.launch.warm import warm

BATCH_SETTINGS = {
    # Payloads are megabytes: one of them is a batch on the way to Python, and buffers for more need not be grown.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(4 << 20),
    # The plan of a batch is fixed; there is nothing to adapt, and each adapted stage costs a round trip.
    "spark.sql.adaptive.enabled": "false",
    # A batch has some dozens of rows, so generated code would never pay for its compilation.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
JVM = "-XX:TieredStopAtLevel=1 -Xms64m"
"""The JVM only moves bytes and schedules: quick compilation and large arrays matter, peak speed of code does not."""
YOUNG = 64
"""Megabytes of young objects a core: what is allocated are payloads, which die young."""


def local_session(workers: int, java_options: str | None = None) -> SparkSession:
    """A local Spark session with one core a worker, up to what the machine has."""
    archive = Archive(ensure_java().home)
    os.environ.setdefault("PYSPARK_PYTHON", worker_python())
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    cores = max(1, min(workers, os.cpu_count() or 1))
    options = archive.options() if java_options is None else java_options
    try:
        spark = _started(cores, options)
        archive.trust()
    except HostError:
        if java_options is not None or not options:
            raise
        _forget_jvm()
        spark = _started(cores, "")
        archive.doubt()
    spark.sparkContext.setLogLevel("OFF")
    warm(spark, cores)
    return spark


def _forget_jvm() -> None:
    """PySpark keeps hold of a JVM that it could not use."""
    if SparkContext._gateway is not None:
        with contextlib.suppress(Exception):  # most likely it is gone
            SparkContext._gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None


def _started(cores: int, java_options: str) -> SparkSession:
    collector = "-XX:+UseSerialGC" if cores <= 2 else "-XX:+UseParallelGC"  # the other one costs 100 MB more
    java_options = f"{JVM} {collector} -XX:MaxNewSize={YOUNG * max(2, cores)}m {java_options}"
    builder = SparkSession.builder.appName("weft").master(f"local[{cores}]")
    for name, value in _settings(java_options).items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except Exception as error:  # py4j wraps whatever the JVM says
        raise HostError("Spark did not start", detail=str(error).splitlines()[0], hint="run: weft doctor") from error


def _settings(java_options: str) -> dict[str, Any]:
    log = Path(__file__).with_name("log4j2.properties").as_uri()
    return {
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log} {java_options}",
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
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.metricsEnabled": "false",
        "spark.sql.streaming.numRecentProgressUpdates": "2",
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.pollingDelay": "10ms",
        # The checkpoint is a folder; Hadoop's other way of renaming a file in it starts a process for each look at it.
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
        ),
        **BATCH_SETTINGS,
    }
