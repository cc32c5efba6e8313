"""Spark's Python daemon with Weft already loaded, so that the workers it forks start at once.

Spark puts its own zip first on the path of its Python processes, and a zip has no compiled files: every process
would compile PySpark anew.  The installed package is the same code, so the zip is taken off the path.  Then kernels
are loaded and everything loaded so far is frozen: Spark's daemon collects garbage after every task, and would walk
through all of it each time.

What must hold: nothing here starts a thread, since the daemon forks.  Arrow's pools start with their first use, and
linear algebra is told to stay single-threaded.
"""

from __future__ import annotations

import gc
import importlib
import importlib.machinery
import os
import sys


def prepare() -> None:
    """Load what workers need."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    kept = [entry for entry in sys.path if not entry.endswith(".zip")]
    if all(importlib.machinery.PathFinder.find_spec(name, kept) for name in ("pyspark", "py4j")):
        sys.path[:] = kept
    if sys.argv[1:2] == ["pyspark.worker"]:
        for name in ("pyspark.worker", "weft.host.spark.exchange", "weft.host.spark.reader", "pyarrow.parquet"):
            importlib.import_module(name)
    gc.freeze()


if __name__ == "__main__":
    prepare()
    from pyspark.daemon import manager

    manager()
