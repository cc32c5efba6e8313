"""A standalone cluster of Spark on loopback: a master and workers, by default two with one core each, at addresses of
their own.

Spark starts a task a second time only on another host.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pyspark

from weft.launch.java import ensure_java

CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"


class Cluster:
    """The processes of a cluster."""

    def __init__(self, root: Path, hosts: int = 2, cores: int = 1) -> None:
        self.hosts, self.cores = hosts, cores
        self.root, self.processes = root, list[subprocess.Popen[str]]()
        self.master = ""

    def start(self) -> None:
        """Start the master, then the workers; ready when both have said so."""
        self.master = self._start("master.Master", 1, [], r"Starting Spark master at (spark://\S+)")
        for number in range(self.hosts):
            work = ["-c", str(self.cores), "-m", "1g", "-d", str(self.root / f"work{number}"), self.master]
            self._start("worker.Worker", number + 1, work, r"(Successfully registered) with master")

    def _start(self, what: str, host: int, arguments: list[str], sign: str) -> str:
        """Start a daemon, and wait until it says that it is there."""
        address = f"127.0.0.{host}"
        command = [str(CLASS), f"org.apache.spark.deploy.{what}", "-h", address, "-p", "0", "--webui-port", "0"]
        environ = {**os.environ, "JAVA_HOME": str(ensure_java().home), "SPARK_LOCAL_IP": address}
        environ["SPARK_DAEMON_MEMORY"] = "256m"
        process = subprocess.Popen(
            [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environ
        )
        self.processes.append(process)
        assert process.stdout is not None
        said: list[str] = []
        for line in process.stdout:
            said.append(line)
            if found := re.search(sign, line):
                threading.Thread(target=process.stdout.read, daemon=True).start()  # let it go on talking
                return found.group(1)
        raise AssertionError("".join(said))

    def executors(self) -> list[psutil.Process]:
        """The JVMs that run tasks."""
        return [one for process in self.processes for one in executors_of(psutil.Process(process.pid))]

    def lose(self, host: int) -> None:
        """Kill a worker of Spark with its executor, as if its machine were gone; nobody takes its place."""
        worker = psutil.Process(self.processes[1 + host].pid)
        for process in [worker, *worker.children(recursive=True)]:
            with suppress(psutil.Error):
                process.kill()

    def stop(self) -> None:
        """End everything."""
        for process in reversed(self.processes):
            with suppress(psutil.Error):
                for child in psutil.Process(process.pid).children(recursive=True):
                    with suppress(psutil.Error):
                        child.kill()
            process.kill()
            process.wait()


def executors_of(process: psutil.Process) -> list[psutil.Process]:
    """The JVMs that run tasks, among all that a process has started."""
    return [child for child in process.children(recursive=True) if _is_executor(child)]


def _is_executor(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return "org.apache.spark.executor.CoarseGrainedExecutorBackend" in process.cmdline()
    return False


@contextmanager
def cluster(root: Path, hosts: int = 2, cores: int = 1) -> Iterator[Cluster]:
    """A running cluster."""
    made = Cluster(root, hosts, cores)
    try:
        made.start()
        yield made
    finally:
        made.stop()
