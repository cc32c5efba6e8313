"""Spark's Python daemon with Weft already loaded, so that the workers it forks start at once.

Kernels are loaded, and everything loaded so far is excluded from garbage collection: Spark's daemon collects garbage
after every task, and would walk through all of it each time.

What must hold: nothing here starts a thread, since the daemon forks.  Arrow starts its threads at first use, and
OpenBLAS is told to use one thread.
"""

from __future__ import annotations

import functools
import gc
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

from weft.launch.spare import hand_over

LOADED = ("pyspark.worker", "weft.host.spark.reading", "pyarrow.parquet", "pandas")
"""Modules that workers will need, by name: this folder does not import them.  Arrow imports pandas when an array is
made; here it is loaded once, not once per worker."""


def load() -> None:
    """Load what workers need."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for name in LOADED:
        importlib.import_module(name)


def prepare() -> None:
    """Get ready to fork workers."""
    if sys.argv[1:2] == ["pyspark.worker"]:
        load()
    gc.freeze()


def leave_quietly(worker: Callable[..., int]) -> Callable[..., int]:
    """The worker, without a traceback when Spark closes the connection: at the end of a run that is not a failure."""

    @functools.wraps(worker)
    def run(*args: Any) -> int:
        try:
            return worker(*args)
        except BrokenPipeError:
            os._exit(0)

    return run


def run() -> None:
    """Be Spark's daemon, until it is told to end."""
    prepare()
    from pyspark import daemon

    daemon.worker = leave_quietly(daemon.worker)
    daemon.manager()


if __name__ == "__main__" and not hand_over():
    run()
