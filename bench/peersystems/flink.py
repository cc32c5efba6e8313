"""Flink SQL in its local cluster, heap state, asynchronous checkpoints every ten seconds.

    flink        a cascade of binary joins
    flink-multi  the multi-join operator where Flink can use it: joins on one common key

Reads and writes Parquet where the Parquet jars are among its own, CSV otherwise.  Windows become interval joins on
event time; Flink reads files in no fixed order, so a stream with a window is one file.  Objects are
reused and the heap is 10 GB.  The sources are bounded, so the job ends with its input.

An aggregate runs in mini-batches and in two phases, local and global.  Its rows change, so it is written as a log of
changes, in the only formats with which Flink's file sink takes one: JSON.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from bench.peersystems.job import Job, main, needed_columns, tell, unescaped_uri

os.environ.setdefault("JVM_ARGS", "-Xmx10g -XX:+UseParallelGC")

import pyflink
from pyflink.table import EnvironmentSettings, TableEnvironment
from pyflink.version import __version__

TYPES = {"int": "INT", "bigint": "BIGINT", "double": "DOUBLE", "string": "STRING"}
EVERY = "10 s"
MINI = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.agg-phase-strategy": "TWO_PHASE",
}


def run(job: Job) -> None:
    table = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    tell(up=True)
    for name, value in _settings(job).items():
        table.get_config().set(name, value)
    kind = "parquet" if list((Path(pyflink.__file__).parent / "lib").glob("flink-sql-parquet*")) else "csv"
    for name in job.join.streams:
        table.execute_sql(_source(job, name, kind))
    columns = ", ".join(f"{column} {TYPES[job.kind(column)]}" for column in job.join.outputs)
    written = "debezium-json" if job.join.measures else kind
    table.execute_sql(f"CREATE TABLE results ({columns}) WITH ({_files(job.results, written)})")
    clock = time.time()
    running = table.execute_sql(f"INSERT INTO results {job.join.sql(lambda stream: _bounds(job, stream))}")
    tell(began=clock, format=kind)
    tell(input=_await_running(running.get_job_client()))
    running.wait()
    tell(done=time.time(), versions={"apache-flink": __version__})


def _await_running(client: Any) -> float:
    """When all tasks were up: what comes before is start-up."""
    while client.get_job_status().result().name in ("INITIALIZING", "CREATED"):
        time.sleep(0.02)
    return time.time()


def _settings(job: Job) -> dict[str, str]:
    return {
        "parallelism.default": str(job.workers),
        "pipeline.object-reuse": "true",
        "state.backend.type": "hashmap",
        "execution.checkpointing.interval": EVERY,
        "execution.checkpointing.storage": "filesystem",
        "execution.checkpointing.dir": unescaped_uri(job.state),
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "restart-strategy.type": "none",  # else a job that cannot run is begun again for ever
        "table.local-time-zone": "UTC",
        "table.optimizer.multi-join.enabled": "true" if job.system == "flink-multi" else "false",
        **(MINI if job.join.measures else {}),
    }


def _source(job: Job, name: str, kind: str) -> str:
    wanted = job.schemas[name] if kind == "csv" else needed_columns(job.join, job.schemas)[name]
    columns = [f"{column} {TYPES[job.schemas[name][column]]}" for column in wanted]
    bare = kind == "csv"
    if time_column := dict(job.join.times).get(name):
        columns.append(f"{time_column}_at AS TO_TIMESTAMP_LTZ({time_column}, 3)")
        columns.append(f"WATERMARK FOR {time_column}_at AS {time_column}_at - {_interval(job.span if bare else 0)}")
    folder = job.folder(name, "bare" if bare else "whole" if time_column else "parquet")
    return f"CREATE TABLE {name} ({', '.join(columns)}) WITH ({_files(folder, kind)})"


def _files(folder: Path, kind: str) -> str:
    path = unescaped_uri(folder).replace("'", "''")
    return f"'connector' = 'filesystem', 'path' = '{path}', 'format' = '{kind}'"


def _bounds(job: Job, stream: str) -> tuple[str, ...]:
    """The window on event time: Flink recognises an interval join by it."""
    width = _interval(job.join.within or 0)
    pairs = job.join.apart(stream)
    return tuple(f"{b}_at > {a}_at - {width} AND {b}_at < {a}_at + {width}" for a, b in pairs)


def _interval(milliseconds: int) -> str:
    minutes, rest = divmod(milliseconds, 60_000)
    days, hours, minutes = minutes // 1440, minutes // 60 % 24, minutes % 60
    return f"INTERVAL '{days} {hours:02d}:{minutes:02d}:{rest / 1000:06.3f}' DAY TO SECOND(3)"


if __name__ == "__main__":
    main(run)
