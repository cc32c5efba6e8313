"""Spark's Python daemon with Weft already loaded, so that the workers it forks start at once.

Kernels are loaded, and everything loaded so far is frozen: Spark's daemon collects garbage after every task, and
would walk through all of it each time.

What must hold: nothing here starts a thread, since the daemon forks.  Arrow's pools start with their first use, and
linear algebra is told to stay single-threaded.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys


def prepare() -> None:
    """Load what workers need."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if sys.argv[1:2] == ["pyspark.worker"]:
        for name in ("pyspark.worker", "weft.host.spark.exchange", "weft.host.spark.reader", "pyarrow.parquet"):
            importlib.import_module(name)
    gc.freeze()


if __name__ == "__main__":
    prepare()
    from pyspark.daemon import manager

    manager()
