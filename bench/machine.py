"""What a measurement ran on: one line about the machine, and the versions that matter."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path

import psutil

PACKAGES = ("weft", "pyspark", "pyarrow", "numpy", "numba", "duckdb")


def machine_line() -> str:
    """Processor, cores, memory, Python."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB, Python {platform.python_version()}"


def versions() -> dict[str, str]:
    """Package -> version."""
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def processor_seconds() -> float:
    """Processor seconds of this process and everything it has started, also of what has ended since."""
    me = psutil.Process()
    return sum(sum(p.cpu_times()[:4]) for p in [me, *me.children(recursive=True)])


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.machine()
