"""Who can be killed: the processes of a job, by what they do."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import psutil

JOB = "tests.chaos.job"
HERE = Path(__file__).resolve().parents[2]


class Running:
    """One process of the job in a process group of its own, and everything it starts."""

    def __init__(
        self, root: Path, life: int, servers: str, point: str, environ: Mapping[str, str], module: str = JOB
    ) -> None:
        self.life, self.log, self.mark = life, root / f"log{life}", root / f"mark{life}"
        command = [sys.executable, "-m", module, str(root), str(life), servers, point]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command, cwd=HERE, env={**os.environ, "PYTHONPATH": str(HERE), **environ},
                stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip

    def let_go(self) -> None:
        """Wait for the driver, which has ended or will."""
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()

    def is_alive(self) -> bool:
        """Whether the driver runs."""
        return self.process.poll() is None

    def family(self) -> list[psutil.Process]:
        """All processes of the job, the driver first; workers whose daemon was killed are still of its session."""
        mine = [pid for pid in psutil.pids() if _session(pid) == self.process.pid]
        return [*_found(sorted(mine, key=lambda pid: (pid != self.process.pid, pid)))]

    def victims(self, kind: str) -> list[psutil.Process]:
        """The processes of a kind, always in the same order."""
        return sorted((one for one in self.family() if kind_of(one) == kind), key=lambda one: one.pid)

    def end(self) -> None:
        """Kill all of it, and wait until nothing is left."""
        family = self.family()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.let_go()
        survivors(family)


def _session(pid: int) -> int:
    with contextlib.suppress(OSError):
        return os.getsid(pid)
    return -1


def _found(pids: Iterable[int]) -> Iterator[psutil.Process]:
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            yield psutil.Process(pid)


def survivors(processes: Iterable[psutil.Process], seconds: float = 30) -> list[psutil.Process]:
    """Those that are still alive after a while.  Their numbers may belong to others by then, even to threads."""
    limit, alive = time.monotonic() + seconds, list(processes)
    while alive := [one for one in alive if _lives(one)]:
        if time.monotonic() > limit:
            return alive
        time.sleep(0.02)
    return []


def _lives(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error, OSError):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def kind_of(process: psutil.Process) -> str:
    """What a process of a job does.  One that was forked has the words of its parent until it becomes another one."""
    with contextlib.suppress(psutil.Error):
        said, parent = process.cmdline(), process.parent()
        is_forked = parent is not None and parent.cmdline() == said
        if {"weft.launch.daemon", "pyspark.daemon"} & set(said):
            return "daemon" if parent is not None and "java" in parent.name() else "worker"
        if {JOB, "tests.chaos.big"} & set(said) and not is_forked:
            return "driver"
        if any("CoarseGrainedExecutorBackend" in word for word in said) and not is_forked:
            return "executor"
        if "pyspark-shell" in said and "org.apache.spark.deploy.SparkSubmit" in said and not is_forked:
            return "other" if "org.apache.spark.launcher.Main" in said else "jvm"
    return "other"
