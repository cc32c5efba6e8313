"""Where tasks really run, by Spark's own log: at home, where their segments are; a loss moves only its share.

A task whose home is busy runs elsewhere at once, and how often that happens depends on the machine.  So two thirds of
them are asked for: without a preference a third would be at home, and half of them after one of three hosts is lost.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.objectstore import BUCKET, Store
from tests.spark._cluster import cluster
from tests.spark._homes_job import HALF, WORKERS
from tests.spark._kill import HERE
from tests.spark._kit import expected, found, make_input
from tests.spark.test_cluster import pass_time
from weft.host.homes import assign

pytestmark = pytest.mark.spark
HOSTS, BATCHES = 3, 10


def test_tasks_run_where_their_segments_are_and_a_loss_moves_only_its_share(tmp_path: Path) -> None:
    make_input(tmp_path, BATCHES, seed=8)
    marks = tmp_path / "marks"
    marks.mkdir()
    with Store().running() as store, cluster(tmp_path, HOSTS, cores=2) as spark:
        command = ["tests.spark._homes_job", str(tmp_path), spark.master, store.url("homes"), str(marks), str(HOSTS)]
        environ = {**os.environ, "PYTHONPATH": str(HERE), "PYSPARK_PYTHON": sys.executable}
        with open(tmp_path / "log", "w+") as log:
            job = subprocess.Popen(
                [sys.executable, "-m", *command], cwd=HERE, env={**environ, "SPARK_LOCAL_IP": "127.0.0.1"},
                stdin=subprocess.PIPE, stdout=log, stderr=log,
            )  # fmt: skip
            try:
                while not (marks / "reached").exists() and job.poll() is None:
                    pass_time(job)
                assert job.poll() is None, (tmp_path / "log").read_text()
                before = gets(store)
                spark.lose(0)
                job.communicate(b"go on\n", timeout=400)
                assert job.returncode == 0, (tmp_path / "log").read_text()
            finally:
                job.kill()
                job.communicate()
        after = gets(store)[len(before) :]
    assert found(tmp_path) == expected(tmp_path)
    ran = [place for place in placed(marks) if place[0] >= 2]
    executors = sorted({executor for batch, _, executor in ran if batch < HALF})
    assert len(executors) == HOSTS
    homes = assign((), executors, WORKERS)
    early = [homes[worker] == executor for batch, worker, executor in ran if batch <= HALF]
    assert 3 * sum(early) >= 2 * len(early), f"{sum(early)} of {len(early)} tasks ran at home"
    (gone,) = {*executors} - {executor for batch, _, executor in ran if batch > HALF + 1}
    later = assign(homes, sorted({*executors} - {gone}), WORKERS)
    assert {worker for worker in range(WORKERS) if homes[worker] != later[worker]} == {
        worker for worker in range(WORKERS) if homes[worker] == gone
    }
    late = [later[worker] == executor for batch, worker, executor in ran if batch > HALF + 1]
    assert 3 * sum(late) >= 2 * len(late), f"{sum(late)} of {len(late)} tasks ran at home"
    # What is read is there: a segment is got from the store by a task that is not at home, and by those that moved.
    fetched = {int(batch): counts for batch, counts in json.loads((marks / "fetched.json").read_text()).items()}
    assert sum(sum(counts.values()) for counts in fetched.values()) == len(before) + len(after)
    strays = {(batch, worker) for batch, worker, executor in ran if batch <= HALF and homes[worker] != executor}
    quiet = [counts for batch, counts in fetched.items() if 2 <= batch <= HALF]
    assert sum(sum(counts.values()) for counts in quiet) == 0 or strays
    moved = {str(worker) for worker in range(WORKERS) if homes[worker] == gone}
    first = {worker for batch, counts in fetched.items() if batch > HALF for worker in counts}
    strays |= {(batch, worker) for batch, worker, executor in ran if batch > HALF and later[worker] != executor}
    assert moved <= first <= moved | {str(worker) for _, worker in strays}


def gets(store: Store) -> list[str]:
    """The segments that were got from the store."""
    return [path for path in list(store.read) if path.startswith(f"/{BUCKET}/homes/segments/")]


def placed(marks: Path) -> Iterator[tuple[int, int, str]]:
    """Batch, worker and executor of each task of a wave that did its work, by Spark's log of events."""
    stages: dict[int, int] = {}
    for path in sorted(marks.glob("eventlog*/events*")):
        for line in path.read_text().splitlines():
            event = json.loads(line)
            if event["Event"] == "SparkListenerJobStart":
                name = event["Properties"].get("spark.job.description", "")
                if name.startswith("Weft, batch "):
                    batch, first = int(name.split()[-1]), min(event["Stage IDs"])  # the first one reads
                    stages |= {stage: batch for stage in event["Stage IDs"] if stage != first}
            elif event["Event"] == "SparkListenerTaskEnd" and event["Stage ID"] in stages:
                task, batch = event["Task Info"], stages[event["Stage ID"]]
                if not task["Failed"] and not task["Killed"]:
                    yield batch, task["Index"], task["Executor ID"]
