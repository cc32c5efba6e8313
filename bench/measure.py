"""A process and everything it starts, watched from outside: memory, first output, time limit, what it printed.

Memory is the sum over the process tree of proportional set sizes, so that a page shared by n processes counts once and
not n times.  Where the system does not give these it is the sum of resident set sizes, and `Seen.kind` says so.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

EVERY, OFTEN, SOON = 0.2, 0.02, 1.0
"""Seconds between two looks at the processes: usually, and in the first second, which may be the only one."""
SHARE = 20
"""The pause after a look is at least so many times as long as it: processes wait while their pages are counted."""
STATE = 1.0


@dataclass(slots=True)
class Seen:
    """What was seen of a process tree."""

    peak: int = 0
    """Bytes."""
    kind: str = "PSS"
    state: int = 0
    """The most bytes seen in the folder of state, once a second; some systems remove it when they end."""
    first_output: float | None = None
    """Wall clock of the first bytes in the folder of results, as seen from outside."""
    busy: float = 0.0
    """Processor seconds of all processes that were alive together, the most that was seen."""
    over: bool = False
    """Whether it was ended because its time was up."""
    code: int | None = None
    told: list[dict[str, Any]] = field(default_factory=list)
    """The JSON objects it printed, one per line."""
    noise: str = ""
    """The end of what it wrote to its error stream."""


def watch_process(command: Sequence[str], out: Path, limit: float, environment: Mapping[str, str], cwd: Path) -> Seen:
    """Run a command to its end or to the limit."""
    out.mkdir(parents=True, exist_ok=True)
    said, noise = out / "said", out / "noise"
    seen, looked, until, took = Seen(), time.monotonic(), time.monotonic() + limit, 0.0
    with said.open("w") as stdout, noise.open("w") as stderr:
        process = psutil.Popen(list(command), stdout=stdout, stderr=stderr, env={**os.environ, **environment}, cwd=cwd)
        try:
            while (code := _await_end(process, max(_pause(until - limit), SHARE * took))) is None:
                began = time.monotonic()
                _look(seen, process, out / "rows")
                took = time.monotonic() - began
                if time.monotonic() > looked + STATE:
                    looked, seen.state = time.monotonic(), max(seen.state, size_of(out / "state"))
                if time.monotonic() > until:
                    break
        finally:
            _end(process)
    seen.over, seen.code = code is None, code
    seen.told = [*_read_lines(said)]
    seen.noise = noise.read_text(errors="replace")[-4000:]
    return seen


def size_of(folder: Path) -> int:
    """Bytes in a folder; a file with two names counts once, and what is removed meanwhile is not there."""
    found: dict[tuple[int, int], int] = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                stat = os.lstat(os.path.join(parent, name))
                found[stat.st_dev, stat.st_ino] = stat.st_size
    return sum(found.values())


def _pause(began: float) -> float:
    return OFTEN if began + SOON > time.monotonic() else EVERY


def _await_end(process: psutil.Popen, pause: float) -> int | None:
    try:
        code: int | None = process.wait(timeout=pause)
    except (psutil.TimeoutExpired, subprocess.TimeoutExpired):
        return None
    return code


def _look(seen: Seen, process: psutil.Popen, results: Path) -> None:
    now = time.time()
    total, busy = 0, 0.0
    for member in _family(process):
        with contextlib.suppress(psutil.Error):
            spent = member.cpu_times()
            busy += spent.user + spent.system
            try:
                total += member.memory_full_info().pss
            except (AttributeError, psutil.AccessDenied):
                seen.kind = "RSS"
                total += member.memory_info().rss
    seen.peak, seen.busy = max(seen.peak, total), max(seen.busy, busy)
    if seen.first_output is None and _any_bytes(results):
        seen.first_output = now


def _family(process: psutil.Popen) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        return [process, *process.children(recursive=True)]
    return []


def _any_bytes(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        return any(p.is_file() and p.stat().st_size for p in folder.rglob("*") if not p.name.startswith("_"))
    return False


def _end(process: psutil.Popen) -> None:
    """End the process and what it started, each by its own id."""
    for member in reversed(_family(process)):
        with contextlib.suppress(psutil.Error):
            member.kill()
    process.wait()


def _read_lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text(errors="replace").splitlines():
        if line.startswith("{"):
            with contextlib.suppress(json.JSONDecodeError):
                yield json.loads(line)
