"""Spark's own cascade of stream-stream joins, in the order of the query's text.

    spark             its defaults: HDFS-backed store (a map on the heap), state format 2
    spark-rocksdb     RocksDB store, state format 2, changelog checkpoints
    spark-rocksdb-v4  RocksDB store, the newest state format
    spark-v4          the newest state format with the default store

A stream may carry one column of event time: of a windowed join each step keeps that of its newest stream, whose
distance to the next one bounds state; distances to earlier streams are plain conditions.

An aggregate follows the cascade in update mode: every trigger gives the groups that changed.

Two shuffle partitions, one file of each stream a trigger, no user interface, no logging below errors, a heap of 10 GB.
"""

from __future__ import annotations

import datetime
import time
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import expr, lit

from bench.peersystems.job import Job, main, tell

ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}
NEWEST = {"spark.sql.streaming.join.stateFormatVersion": "4"}
VARIANTS = {"spark": {}, "spark-rocksdb": ROCKSDB, "spark-rocksdb-v4": {**ROCKSDB, **NEWEST}, "spark-v4": NEWEST}
TYPES = {"int": "INT", "bigint": "BIGINT", "double": "DOUBLE", "string": "STRING"}


def run(job: Job) -> None:
    session = _session(job)
    tell(up=True)
    for name in job.join.streams:
        _stream(session, job, name).createOrReplaceTempView(name)
    joined = session.sql(job.join.sql()) if job.join.within is None else _join_windows(session, job)
    clock = time.time()
    query = _sink(joined, job).option("checkpointLocation", str(job.state)).trigger(availableNow=True).start()
    tell(began=clock)
    known, over = 0, False
    while not over:
        over = query.awaitTermination(0.2)
        known = _tell_new(query.recentProgress, known)
    tell(done=time.time(), versions={"pyspark": session.version})
    session.stop()


def _sink(joined: DataFrame, job: Job) -> Any:
    """Files; those of an aggregate say which trigger wrote them."""

    def write(changed: DataFrame, batch: int) -> None:
        changed.withColumn("#batch", lit(batch)).write.mode("append").parquet(str(job.results))

    if job.join.measures:
        return joined.writeStream.outputMode("update").foreachBatch(write)
    return joined.writeStream.format("parquet").option("path", str(job.results))


def _session(job: Job) -> SparkSession:
    settings = {
        "spark.driver.memory": "10g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": str(job.workers),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
        "spark.log.level": "ERROR",
        **VARIANTS[job.system],
    }
    builder = SparkSession.builder.master(f"local[{job.workers}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _stream(session: SparkSession, job: Job, name: str) -> DataFrame:
    schema = ", ".join(f"{column} {TYPES[kind]}" for column, kind in job.schemas[name].items())
    found = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(job.folder(name)))
    column = dict(job.join.times).get(name)
    if column is None:
        return found
    stamped = found.selectExpr("*", f"timestamp_millis({column}) AS {column}_at")
    return stamped.withWatermark(f"{column}_at", "0 seconds")  # batches come in order


def _join_windows(session: SparkSession, job: Job) -> DataFrame:
    """The cascade step by step, each with one column of event time."""
    joined, before = session.table(job.join.first), job.join.first
    times = dict(job.join.times)
    width = f"INTERVAL {(job.join.within or 0) / 1000:g} SECONDS"
    for step in job.join.steps:
        old, new = f"{times[before]}_at", f"{times[step.stream]}_at"
        plain = [c.sql for c in job.join.window(step.stream) if c.right != times[before]]
        on = [*step.conditions, f"{new} > {old} - {width}", f"{new} < {old} + {width}", *plain]
        joined = joined.join(session.table(step.stream), expr(" AND ".join(on))).drop(old)
        before = step.stream
    return joined.select(*job.join.select)


def _tell_new(progress: list[Any], known: int) -> int:
    for p in progress[known:]:
        if p["numInputRows"]:
            end, rows = batch_end(p)
            tell(batch={"seconds": p["durationMs"]["triggerExecution"] / 1000, "end": end, "in": rows})
    return len(progress)


def batch_end(progress: Any) -> tuple[float, int]:
    """When a trigger ended, and its input rows."""
    began = datetime.datetime.fromisoformat(progress["timestamp"]).timestamp()
    return began + progress["durationMs"]["triggerExecution"] / 1000, progress["numInputRows"]


if __name__ == "__main__":
    main(run)
