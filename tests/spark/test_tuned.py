"""weft.spark: the session that Weft would start, with the user's settings; and sessions whose workers lack Weft."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JNetworkError

from weft.host.spark.lost import explain_lost
from weft.host.spark.missing import explain_missing

pytestmark = pytest.mark.spark

TUNED = """
import json, sys
import pyarrow as pa
import weft

spark = weft.spark({"spark.driver.memory": "1g"}, master="local[1,3]", spark_sql_shuffle_partitions=3)
s = weft.Session(sys.argv[1] + "/state", spark, workers=2, progress=False)
s.stream("a", weft.read.batches([pa.table({"k": [1, 2]})]))
q = s.query("q", "SELECT a.k FROM a WHERE a.k > 1").to_memory()
s.run()
conf = spark.sparkContext.getConf()
print(json.dumps([q.table().to_pylist(), conf.get("spark.driver.memory"), conf.get("spark.sql.shuffle.partitions"),
                  conf.get("spark.sql.session.timeZone"), spark.sparkContext.master]))
"""
ORPHANED = """
import sys, threading
from pathlib import Path
import pyarrow as pa
import pyarrow.parquet as pq
import weft
from pyspark import SparkContext
from weft.host.crash import CrashPoint

root, mark = Path(sys.argv[1]), Path(sys.argv[1], "mark")

def drop(number):
    pq.write_table(pa.table({"k": [number]}), root / "in" / f"{number}.parquet")

def kill():
    SparkContext._gateway.proc.kill()

def make(spark=None):
    s = weft.Session(root / "state", spark, workers=1, progress=False)
    s.stream("a", weft.read.parquet(root / "in", max_files=1))
    s.query("q", "SELECT a.k FROM a").to_parquet(root / "out")
    return s

def inside_a_batch():
    s = make()
    s.queries["q"].foreach_batch(lambda _df, batch: kill() if batch == 1 else None)
    s.run()

def without_anything_to_do():
    with make() as s:
        handle = s.start(every=0.01)
        while s.checkpoint.last < 2:
            handle.wait(0.05)
        kill()
        handle.wait(60)

def while_results_are_published():
    drop(3), drop(4)
    s = make()
    s.crash_point = CrashPoint("publish", 3, "hang", str(mark))
    def watch():
        while not mark.exists():
            threading.Event().wait(0.01)
        kill()
        mark.unlink()
    threading.Thread(target=watch, daemon=True).start()
    s.run()

def before_it_begins():
    s = make(weft.spark(workers=1))
    kill()
    SparkContext._gateway.proc.wait()
    s.run()

for moment in (inside_a_batch, without_anything_to_do, while_results_are_published, before_it_begins):
    try:
        moment()
    except weft.HostError as error:
        print(error.message)
make().run()
"""
LACKING = """
import sys
import pyarrow as pa
import weft
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
s = weft.Session(sys.argv[1] + "/state", spark, workers=1, progress=False)
s.stream("a", weft.read.batches([pa.table({"k": [1, 2]})]))
s.query("q", "SELECT a.k FROM a").to_memory()
try:
    s.run()
except weft.HostError as error:
    print(error)
"""
BLOCK = """
import sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "weft":
            raise ModuleNotFoundError("No module named 'weft'", name="weft")

sys.meta_path.insert(0, Block())
"""


def run(program: str, root: Path, **more: str) -> str:
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    ours |= {"PYTHONPATH": os.pathsep.join(sys.path), **more}
    command = [sys.executable, "-c", program, str(root)]
    ended = subprocess.run(command, env=ours, cwd=root, capture_output=True, text=True, timeout=500, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_a_tuned_session_has_the_settings_of_both(tmp_path: Path) -> None:
    told = json.loads(run(TUNED, tmp_path).splitlines()[-1])
    assert told == [[{"k": 2}], "1g", "3", "UTC", "local[1,3]"]


def test_workers_that_cannot_import_weft_are_told_so_with_the_cure(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(BLOCK)
    python = tmp_path / "python"
    path = os.pathsep.join([str(tmp_path), *sys.path])
    python.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(path)} exec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    said = run(LACKING, tmp_path, PYSPARK_PYTHON=str(python), PYSPARK_DRIVER_PYTHON=sys.executable)
    assert said.splitlines()[0] == "Spark's workers cannot import weft"
    assert "PYSPARK_PYTHON=" in said


def test_other_errors_are_not_about_missing_packages() -> None:
    assert explain_missing("ModuleNotFoundError: No module named 'mine'") is None
    found = explain_missing("... ModuleNotFoundError: No module named 'confluent_kafka' ...")
    assert found is not None
    assert "confluent_kafka" in found.message


def test_a_process_of_spark_that_is_gone_is_said_in_one_line() -> None:
    said = "Lost task 0.0 in stage 27.0: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)."
    found = explain_lost(RuntimeError(said))
    assert found is not None
    assert found.message == "a Python worker of Spark has ended"
    assert "nothing is lost" in str(found.hint)
    gone = explain_lost(Py4JNetworkError("Answer from Java side is empty"))
    assert gone is not None
    assert gone.message == "Spark's JVM has ended"
    assert explain_lost(ConnectionRefusedError("of a server of the user's")) is None
    assert explain_lost(ValueError("something else")) is None


def test_a_program_whose_jvm_was_killed_is_told_so_at_once_and_starts_another_one(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(3):
        pq.write_table(pa.table({"k": [number]}), tmp_path / "in" / f"{number}.parquet")
    said = subprocess.run([sys.executable, "-c", ORPHANED, str(tmp_path)], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == ["Spark's JVM has ended"] * 4, said
    assert "Traceback" not in said.stderr, said.stderr
    assert sorted(ds.dataset(tmp_path / "out").to_table()["k"].to_pylist()) == [0, 1, 2, 3, 4]
