"""Ctrl-C and SIGTERM, sent to real processes: at start-up and between batches."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROOT = Path(__file__).parents[2]
JOB = """
SET checkpoint = 'state';
SET workers = 1;
CREATE STREAM a FROM PARQUET 'in/a' WITH (event_time = 't', max_files = 1);
CREATE STREAM b FROM PARQUET 'in/b' WITH (event_time = 't', max_files = 1);
CREATE QUERY pairs INTO PARQUET 'out' AS SELECT a.k FROM a JOIN b ON a.k = b.k;
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    for name in "ab":
        (tmp_path / "in" / name).mkdir(parents=True)
        put(tmp_path, name, 0)
    (tmp_path / "job.sql").write_text(JOB)
    return tmp_path / "job.sql"


def put(root: Path, name: str, number: int) -> None:
    pq.write_table(pa.table({"k": [number], "t": [number]}), root / "in" / name / f"{number}.parquet")


def begin(job: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "weft.cli", "run", str(job), *options]
    return subprocess.Popen(
        command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )


def until(done: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    limit = time.monotonic() + 120
    while not done():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < limit
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.05)


def committed(job: Path) -> int:
    return len(list((job.parent / "state" / "manifests").glob("*.json")))


@pytest.mark.spark
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_job_that_runs_for_ever_stops_after_its_batch(job: Path, name: str, code: int) -> None:
    process = begin(job, "--every", "50 milliseconds")
    until(lambda: committed(job) > 0, process)
    for stream in "ab":
        put(job.parent, stream, 1)
    until(lambda: committed(job) > 1, process)
    os.kill(process.pid, getattr(signal, name))
    said, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    assert "stopped after" in said
    assert "Traceback" not in errors
    assert pq.read_table(job.parent / "out")["k"].to_pylist() == [0, 1]


@pytest.mark.spark
@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
@pytest.mark.parametrize("after", [0.7, 2.0])
def test_a_job_that_is_starting_ends_at_once_without_a_traceback(job: Path, name: str, code: int, after: float) -> None:
    process = begin(job, "--every", "50 milliseconds")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(after)  # it is starting
    os.killpg(process.pid, getattr(signal, name))  # as a terminal does: to all of the group
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    assert "Traceback" not in errors
