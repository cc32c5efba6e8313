"""Starts Python workers while Spark is still planning.

The first job of a session waits for Python processes and for classes of the JVM.  Neither depends on the query, so a
job that does nothing loads them while the real job is being prepared.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from weft.launch.daemon import load
from weft.launch.plain import is_plain

SCHEMA = "dest INT"

_warmed: set[str] = set()
"""Spark applications for which it was done."""


def warm(spark: SparkSession, workers: int) -> None:
    """Start the job in the background, unless it was done before."""
    application = spark.sparkContext.applicationId
    if application not in _warmed and not is_plain():
        _warmed.add(application)
        threading.Thread(target=_work, args=(spark, workers), name="weft-warm", daemon=True).start()


def _work(spark: SparkSession, workers: int) -> None:
    try:
        rows = spark.range(0, workers, 1, workers).selectExpr("CAST(id AS INT) AS dest")
        rows.repartitionById(workers, "dest").mapInArrow(_read_all, SCHEMA).collect()
    except Exception:  # noqa: BLE001 - whatever is wrong, the real job will report it
        pass


def _read_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read the rows and return none; in a session that was not started by Weft, load what the daemon would have."""
    load()
    for batch in batches:
        yield batch.slice(0, 0)
