"""A cluster with two executors: the same answer, also if one of them is lost or tasks run twice, with a checkpoint that
is a URL."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.objectstore import Store
from tests.spark._cluster import cluster, executors_of
from tests.spark._kill import HERE
from tests.spark._kit import expected, found, make_input

pytestmark = pytest.mark.spark


def test_a_lost_executor_costs_time_and_no_row(tmp_path: Path) -> None:
    """Executors have no folder in common but the input: state is in an object store, copies are their own."""
    with Store().running() as store, cluster(tmp_path) as spark:
        said = run_and_lose_one(tmp_path, spark.master, store.url("c"), lambda _job: spark.executors())
    assert "weft.zip" in said, "executors use the package that was sent to them"
    events = [log.read_text() for log in tmp_path.glob("eventlog*/events*")]
    assert any('"Speculative":true' in text for text in events), "no task was started a second time"


def test_a_lost_executor_of_a_local_cluster_costs_time_and_no_row(tmp_path: Path) -> None:
    """Master and workers are in the driver's JVM, executors are processes of their own; state is in a folder."""
    run_and_lose_one(tmp_path, "local-cluster[2,1,700]", str(tmp_path / "state"), executors_of)


def run_and_lose_one(
    root: Path, master: str, checkpoint: str, executors: Callable[[psutil.Process], list[psutil.Process]]
) -> str:
    """Kill an executor in the middle of a job, and compare what the job gives in the end; what the job says."""
    make_input(root, 4, seed=8)
    mark = root / "reached"
    with open(root / "log", "w+") as log:
        command = [sys.executable, "-m", "tests.spark._cluster_job", str(root), master, checkpoint, str(root)]
        environ = {**os.environ, "PYTHONPATH": str(HERE), "PYSPARK_PYTHON": sys.executable}
        environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        job = subprocess.Popen(command, cwd=HERE, env=environ, stdin=subprocess.PIPE, stdout=log, stderr=log)
        try:
            while not mark.exists() and job.poll() is None:
                pass_time(job)
            assert job.poll() is None, (root / "log").read_text()
            before = executors(psutil.Process(job.pid))
            assert len(before) == 2
            before[0].kill()
            assert job.stdin is not None
            job.stdin.write(b"go on\n")
            job.stdin.flush()
            assert job.wait(240) == 0, (root / "log").read_text()
        finally:
            job.kill()
            job.communicate()
    assert found(root) == expected(root)
    return (root / "log").read_text()


def pass_time(job: subprocess.Popen[bytes]) -> None:
    """Wait a moment, or until the job ends."""
    try:
        job.wait(0.1)
    except subprocess.TimeoutExpired:
        return
