"""One join for many subscriptions, as each system can say it; run by `bench.subscribed` in a process of its own.

Standard library and the system alone: each system runs this in its own environment.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.peersystems.job import message, tell, unescaped_uri

WORKERS = 2
PARTS = 16
"""Parts into which Flink's table of parameters is divided, so that both workers have some."""


@dataclass(frozen=True, slots=True)
class Job:
    """The workload, where it lies and where results go."""

    system: str
    subscriptions: int
    tuples: int
    results: int
    attributes: int
    batches: int
    data: str = ""
    out: str = ""

    def conditions(self, low: str, high: str) -> list[str]:
        """An interval for each attribute; `low` and `high` come before the number of the dimension."""
        values = [f"a{d}" for d in range(self.attributes)] + [f"b{d}" for d in range(self.attributes)]
        return [f"{value} BETWEEN {low}{d} AND {high}{d}" for d, value in enumerate(values)]

    def sql(self, table: str) -> str:
        """The query of systems that join with the table of parameters."""
        where = " AND ".join(self.conditions("l", "h"))
        return f"SELECT subscriber, aid, bid FROM t JOIN w ON ak = bk JOIN {table} ON {where}"

    @property
    def rows(self) -> Path:
        """Where results go."""
        return Path(self.out) / "rows"

    def folder(self, name: str) -> Path:
        """Where a table lies."""
        return Path(self.data) / name


def with_weft(job: Job) -> None:
    """Weft: w and the subscriptions come with the first batch of t."""
    import weft
    from weft.launch.spark import local_session

    spark = local_session(WORKERS)
    session = weft.Session(checkpoint=Path(job.out) / "state", workers=WORKERS, spark=spark, progress=False)
    for name in ("t", "w"):
        session.stream(name, weft.read.parquet(job.folder(name), max_files=1))
    where = " AND ".join(job.conditions(":l", ":h"))
    session.subscriptions(
        "alerts", f"SELECT aid, bid FROM t JOIN w ON ak = bk WHERE {where}", key="subscriber",
        parameters=weft.read.parquet(job.folder("s")), strategy="naive" if job.system == "weft-naive" else "auto",
    ).to_parquet(job.rows)  # fmt: skip
    tell(began=time.time())
    handle, seen, done = session.start(every=0.001), 0, 0
    while done < job.tuples and handle.active:
        time.sleep(0.005)
        for batch in handle.history(handle.report().count - seen):
            count = batch.counters.rows_in.get("t", 0)
            tell(batch=(time.time(), count))
            seen, done = seen + 1, done + count
    handle.stop()
    tell(done=time.time())
    spark.stop()


def with_spark(job: Job) -> None:
    """Spark: a stream-stream join, then a broadcast join with a static table."""
    from pyspark.sql import SparkSession
    from pyspark.sql.functions import broadcast, expr

    settings = {
        "spark.driver.memory": "8g", "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": str(WORKERS), "spark.log.level": "ERROR",
    }  # fmt: skip
    builder = SparkSession.builder.master(f"local[{WORKERS}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    frames = {}
    for name in ("t", "w"):
        schema = spark.read.parquet(str(job.folder(name))).schema
        frames[name] = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(job.folder(name)))
    joined = frames["t"].join(frames["w"], expr("ak = bk"))
    parameters = broadcast(spark.read.parquet(str(job.folder("s"))))
    found = joined.join(parameters, expr(" AND ".join(job.conditions("l", "h")))).select("subscriber", "aid", "bid")
    tell(began=time.time())
    writer = found.writeStream.format("parquet").option("path", str(job.rows))
    query = writer.option("checkpointLocation", f"{job.out}/state").trigger(availableNow=True).start()
    known, over = 0, False
    while not over:
        over = query.awaitTermination(0.2)
        for progress in query.recentProgress[known:]:
            count = sum(s["numInputRows"] for s in progress["sources"] if s["description"].rstrip("]").endswith("/t"))
            tell(batch=(time.time(), count))
            known += 1
    tell(done=time.time())
    spark.stop()


def with_duckdb(job: Job) -> None:
    """DuckDB: one statement for each batch."""
    import duckdb

    job.rows.mkdir(parents=True, exist_ok=True)
    with duckdb.connect() as db:
        db.execute(f"SET threads = {WORKERS}")
        tell(began=time.time())
        for name in ("w", "s"):
            db.execute(f"CREATE TABLE {name} AS FROM read_parquet('{job.folder(name)}/*.parquet')")
        for number, file in enumerate(sorted(job.folder("t").glob("*.parquet"))):
            db.execute(f"CREATE OR REPLACE TABLE t AS FROM read_parquet('{file}')")
            (count,) = db.execute("SELECT count(*) FROM t").fetchone() or (0,)
            db.execute(f"COPY ({job.sql('s')}) TO '{job.rows}/{number}.parquet' (FORMAT parquet)")
            tell(batch=(time.time(), count))
        tell(done=time.time())


def flink_sql(job: Job) -> str:
    """A join by ranges alone runs in one task: so subscriptions have a part, and each joined row goes to all parts."""
    where, parts = " AND ".join(job.conditions("l", "h")), ", ".join(map(str, range(PARTS)))
    return (
        "SELECT subscriber, aid, bid FROM t JOIN w ON ak = bk "
        f"CROSS JOIN UNNEST(ARRAY[{parts}]) AS p (part) "
        f"JOIN (SELECT *, CAST(MOD(subscriber, {PARTS}) AS INT) AS mine FROM s) AS s ON part = mine AND {where}"
    )


def with_flink(job: Job) -> None:
    """Flink SQL: two joins in its local cluster."""
    import os

    os.environ.setdefault("JVM_ARGS", "-Xmx8g -XX:+UseParallelGC")
    from pyflink.table import EnvironmentSettings, TableEnvironment

    table = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    for name, value in {"parallelism.default": str(WORKERS), "pipeline.object-reuse": "true",
                        "restart-strategy.type": "none", "state.backend.type": "hashmap",
                        "execution.checkpointing.interval": "10 s", "execution.checkpointing.storage": "filesystem",
                        "execution.checkpointing.dir": unescaped_uri(Path(job.out) / "state")}.items():  # fmt: skip
        table.get_config().set(name, value)
    ends = [f"{side}{d} INT" for d in range(2 * job.attributes) for side in "lh"]
    columns = {"s": ["subscriber BIGINT", *ends]}
    for name, prefix in (("t", "a"), ("w", "b")):
        columns[name] = [
            f"{prefix}id BIGINT",
            f"{prefix}k BIGINT",
            *(f"{prefix}{d} INT" for d in range(job.attributes)),
        ]
    for name, found in columns.items():
        table.execute_sql(f"CREATE TABLE {name} ({', '.join(found)}) WITH ({_files(job.folder(name))})")
    table.execute_sql(f"CREATE TABLE results (subscriber BIGINT, aid BIGINT, bid BIGINT) WITH ({_files(job.rows)})")
    tell(began=time.time())
    table.execute_sql(f"INSERT INTO results {flink_sql(job)}").wait()
    tell(done=time.time())
    for file in job.rows.glob("part-*"):  # it gives files no ending
        file.rename(f"{file}.parquet")


def _files(folder: Path) -> str:
    return f"'connector' = 'filesystem', 'path' = '{unescaped_uri(folder)}', 'format' = 'parquet'"


RUNS: dict[str, Any] = {
    "weft": with_weft, "weft-naive": with_weft, "spark": with_spark, "flink": with_flink, "duckdb": with_duckdb,
}  # fmt: skip


if __name__ == "__main__":
    asked = Job(**json.loads(Path(sys.argv[1]).read_text()))
    try:
        RUNS[asked.system](asked)
    except Exception as error:  # noqa: BLE001 - a peer may raise anything; its message is the finding
        tell(error=f"{type(error).__name__}: {message(error)}")
        sys.exit(1)
