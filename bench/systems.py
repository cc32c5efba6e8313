"""The systems that are measured.  Each runs in a process of its own: `python -m bench.systems NAME DATA OUT`.

The clock starts when the streaming query starts and stops when it has read everything; the JVM is up by then.
Both systems read the same Parquet files, one of each stream a micro-batch, and write the same nine columns as
Parquet.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SQL = """
SELECT c.c_custkey, c.c_nationkey, c.c_acctbal, o.o_orderkey, o.o_totalprice,
       l.l_partkey, l.l_suppkey, l.l_quantity, l.l_extendedprice
FROM customer c
JOIN orders o ON o.o_custkey = c.c_custkey
JOIN lineitem l ON l.l_orderkey = o.o_orderkey
"""
WORKERS = 2


def weft(data: Path, out: Path) -> dict[str, Any]:
    """Weft, two workers."""
    import weft as w
    from weft.host.spark.session import local_session

    spark = local_session(WORKERS)
    s = w.Session(checkpoint=out / "state", workers=WORKERS, spark=spark)
    for name in ("customer", "orders", "lineitem"):
        s.stream(name, w.read.parquet(data / name, max_files=1))
    s.query("q3", SQL).to_parquet(out / "rows")
    began = time.perf_counter()
    report = s.run()
    seconds = time.perf_counter() - began
    return {
        "seconds": seconds,
        "rows": sum(report.rows_in.values()),
        "results": report.rows_out["q3"],
        "batches": [{"seconds": b.seconds, "in": b.total_in, "out": b.total_out} for b in report.batches],
        "waves": [dict(b.wave_seconds) for b in report.batches],
    }


def spark(data: Path, out: Path) -> dict[str, Any]:
    """Spark's own cascade of stream-stream joins, default state store."""
    from pyspark.sql import SparkSession

    from weft.java import ensure_java

    ensure_java()
    session = (
        SparkSession.builder.master(f"local[{WORKERS}]")
        .config("spark.driver.memory", "10g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", str(WORKERS))
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    streams = {}
    for name in ("customer", "orders", "lineitem"):
        schema = session.read.parquet(str(data / name)).schema
        streams[name] = session.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(data / name))
    c, o, line = streams["customer"], streams["orders"], streams["lineitem"]
    joined = c.join(o, c.c_custkey == o.o_custkey).join(line, o.o_orderkey == line.l_orderkey)
    joined = joined.drop("o_custkey", "l_orderkey")
    began = time.perf_counter()
    query = (
        joined.writeStream.format("parquet")
        .option("path", str(out / "rows"))
        .option("checkpointLocation", str(out / "state"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    seconds = time.perf_counter() - began
    progress = [p for p in query.recentProgress if p["numInputRows"]]
    rows = session.read.parquet(str(out / "rows"))
    return {
        "seconds": seconds,
        "rows": sum(p["numInputRows"] for p in progress),
        "results": rows.count(),
        "batches": [{"seconds": p["durationMs"]["triggerExecution"] / 1000, "in": p["numInputRows"]} for p in progress],
    }


SYSTEMS: dict[str, Callable[[Path, Path], dict[str, Any]]] = {"weft": weft, "spark": spark}


def main() -> None:
    """Run one system and print its figures as the last line."""
    name, data, out = sys.argv[1:4]
    print(json.dumps(SYSTEMS[name](Path(data), Path(out))))


if __name__ == "__main__":
    main()
