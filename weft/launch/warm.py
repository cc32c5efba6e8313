"""Starts Python workers while Spark is still starting, or planning.

The first job of a session waits for Python processes.  These depend neither on the query nor on Spark SQL, so a job
that does nothing starts them as soon as there is a Spark context.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator

from pyspark import SparkContext

from weft.launch.daemon import load
from weft.launch.plain import is_plain

_warmed: set[str] = set()
"""Spark applications for which it was done."""
_ADDED = "SPARK_SIMPLIFIED_TRACEBACK"


def warm(context: SparkContext, workers: int) -> None:
    """Start the job in the background, unless it was done before."""
    application = context.applicationId
    if application not in _warmed and not is_plain():
        _warmed.add(application)
        threading.Thread(target=_work, args=(context, workers), name="weft-warm", daemon=True).start()


def _work(context: SparkContext, workers: int) -> None:
    try:
        with _as_in_sql(context):
            rows = context.parallelize(range(workers), workers).mapPartitions(_read_all)
            rows.collect()
    except Exception:  # noqa: BLE001 - whatever is wrong, the real job will report it
        pass


@contextlib.contextmanager
def _as_in_sql(context: SparkContext) -> Iterator[None]:
    """Spark has a Python process for each environment; this is what it adds to that of jobs of Spark SQL.

    The environment is replaced and never changed: another thread may be sending it to the JVM.
    """
    context.environment = {**context.environment, _ADDED: "1"}
    try:
        yield
    finally:
        context.environment = {name: value for name, value in context.environment.items() if name != _ADDED}


def _read_all(rows: Iterable[int]) -> Iterator[int]:
    """Read the rows and return none; in a session that was not started by Weft, load what the daemon would have."""
    load()
    for _ in rows:
        yield from ()
