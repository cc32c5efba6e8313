"""`weft bench`."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from pathlib import Path

from weft.cli.command import OK, Command
from weft.errors import HostError


def bench() -> int:
    """Measure throughput on the TPC-H Q3 join; runs inside a clone of the repository."""
    sys.path.insert(0, str(Path.cwd()))
    if importlib.util.find_spec("bench") is None or importlib.util.find_spec("bench.q3") is None:
        hint = "run it at the top of a clone of Weft's repository, or use make bench there"
        raise HostError("the benchmarks are not here", detail=f"no bench/q3.py in {Path.cwd()}", hint=hint)
    sys.argv[1:] = []  # the workload reads arguments of its own
    runpy.run_module("bench.q3", run_name="__main__", alter_sys=True)
    return OK


COMMAND = Command(bench)
