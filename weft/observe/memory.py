"""Resident memory of a run on the machine of its driver: the driver, Spark's JVM, and the Python workers.

Read from /proc, at most every few seconds; where there is none, nothing is said.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from weft.observe.counters import Counts, bump

PAUSE = 5.0
"""Seconds between two looks."""
PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class MemoryUse:
    """What this process and those it has started hold."""

    def __init__(self) -> None:
        self._next = 0.0
        self._known: Counts = {}

    def read(self, now: float) -> Counts:
        """Kind of process -> bytes."""
        if now >= self._next:
            self._next, self._known = now + PAUSE, read_memory(os.getpid())
        return self._known


def read_memory(root: int) -> Counts:
    """Kind of process -> resident bytes, of a process and all that came from it."""
    parents, names, sizes = _processes()
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    found: Counts = {}
    ahead = [root]
    while ahead:
        pid = ahead.pop()
        ahead += children.get(pid, ())
        if pid in sizes:
            bump(found, "driver" if pid == root else "java" if names[pid] == "java" else "workers", sizes[pid])
    return found


def _processes() -> tuple[dict[int, int], dict[int, str], dict[int, int]]:
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    sizes: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):  # it has ended meanwhile
            head, _, rest = path.read_text().rpartition(")")
            pid, fields = int(path.parent.name), rest.split()
            parents[pid], names[pid], sizes[pid] = int(fields[1]), head.partition("(")[2], int(fields[21]) * PAGE
    return parents, names, sizes
