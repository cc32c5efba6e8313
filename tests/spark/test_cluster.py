"""A cluster with two executors: the same answer, also if one of them is lost, with a checkpoint that is a URL."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.objectstore import Store
from tests.spark._cluster import cluster
from tests.spark._kill import HERE
from tests.spark._kit import expected, found, make_input

pytestmark = pytest.mark.spark


def test_a_lost_executor_costs_time_and_no_row(tmp_path: Path) -> None:
    """Executors have no folder in common but the input: state is in an object store, copies are their own."""
    make_input(tmp_path, 4, seed=8)
    mark = tmp_path / "reached"
    with Store().running() as store, cluster(tmp_path) as spark, open(tmp_path / "log", "w+") as log:
        command = [sys.executable, "-m", "tests.spark._cluster_job", str(tmp_path), spark.master]
        environ = {**os.environ, "PYTHONPATH": str(HERE), "PYSPARK_PYTHON": sys.executable}
        job = subprocess.Popen(
            [*command, store.url("c"), str(tmp_path)],
            cwd=HERE, env=environ, stdin=subprocess.PIPE, stdout=log, stderr=log,
        )  # fmt: skip
        try:
            while not mark.exists() and job.poll() is None:
                pass_time(job)
            assert job.poll() is None, (tmp_path / "log").read_text()
            before = spark.executors()
            assert len(before) == 2
            before[0].kill()
            assert job.stdin is not None
            job.stdin.write(b"go on\n")
            job.stdin.flush()
            assert job.wait(240) == 0, (tmp_path / "log").read_text()
        finally:
            job.kill()
            job.wait()
    said = (tmp_path / "log").read_text()
    assert "weft.zip" in said, "executors use the package that was sent to them"
    assert found(tmp_path) == expected(tmp_path)


def pass_time(job: subprocess.Popen[bytes]) -> None:
    """Wait a moment, or until the job ends."""
    try:
        job.wait(0.1)
    except subprocess.TimeoutExpired:
        return
