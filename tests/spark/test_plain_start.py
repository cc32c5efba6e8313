"""WEFT_PLAIN_START: answers are the same if Spark is started without any of our ways to start it sooner."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weft.launch.settings import BATCHES_NEED, BATCHES_QUICKLY, NEEDED, QUICKLY, batch_settings

pytestmark = pytest.mark.spark

OF_SPARK = {"spark.driver.host", "spark.ui.showConsoleProgress"}
"""What Spark always sets, to values of its own."""

PROGRAM = """
import json, os, sys
import psutil
import weft
from weft.launch.spark import local_session

root = sys.argv[1]
answers = {}

def session(kind, spark, source):
    s = weft.Session(f"{root}/{kind}", spark, workers=2, progress=False)
    s.stream("a", weft.read.parquet(f"{root}/a"))
    s.stream("b", source)
    q = s.query("q", "SELECT a.k, b.m FROM a JOIN b ON a.k = b.k").to_memory()
    s.run()
    answers[kind] = sorted(map(list, zip(*q.table().to_pydict().values())))

session("files", None, weft.read.parquet(f"{root}/b"))
spark = local_session(2)  # the same one
session("frame", spark, spark.readStream.schema("k LONG, m LONG").parquet(f"{root}/b"))
java = next(p for p in psutil.Process().children(recursive=True) if p.name() == "java")

def command(process):
    try:
        return process.cmdline()
    except psutil.NoSuchProcess:  # it has just ended, and nobody has asked for its exit code yet
        return []

daemons = [words for words in map(command, java.children()) if words]
conf = dict(spark.sparkContext.getConf().getAll())
zone, python = spark.conf.get("spark.sql.session.timeZone"), os.environ["PYSPARK_PYTHON"]
print(json.dumps(dict(answers=answers, conf=conf, java=java.cmdline(), daemons=daemons, zone=zone, python=python)))
"""


def run(root: Path, **environment: str) -> dict[str, Any]:
    """What the program tells of itself."""
    (root / "a").mkdir(parents=True)
    (root / "b").mkdir()
    pq.write_table(pa.table({"k": [1, 2, 3]}), root / "a" / "0.parquet")
    pq.write_table(pa.table({"k": [2, 3, 4], "m": [20, 30, 40]}), root / "b" / "0.parquet")
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK_", "SPARK_"))}
    ours |= {"WEFT_CACHE": str(root / "cache"), "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    command = [sys.executable, "-c", PROGRAM, str(root)]
    ended = subprocess.run(command, env=ours, cwd=root, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    told: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return told


def test_a_plain_start_gives_the_same_answers_with_none_of_our_ways(tmp_path: Path) -> None:
    told = run(tmp_path, WEFT_PLAIN_START="1")
    assert told["answers"] == {"files": [[2, 20], [3, 30]], "frame": [[2, 20], [3, 30]]}
    assert {name for name in QUICKLY if name in told["conf"]} <= OF_SPARK
    assert not [value for value in told["conf"].values() if "weft." in value]
    assert not [word for word in told["java"] if "SharedArchiveFile" in word or "TieredStopAtLevel" in word]
    assert any("pyspark.daemon" in command for command in told["daemons"])
    assert told["python"] == sys.executable
    assert told["zone"] == NEEDED["spark.sql.session.timeZone"]
    written = [path.name for path in (tmp_path / "cache").glob("*")]
    assert not [name for name in written if not name.startswith("java-")]  # one brought along, if there is no other


def test_batches_of_a_plain_start_have_only_what_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    assert batch_settings() == BATCHES_NEED | BATCHES_QUICKLY
    monkeypatch.setenv("WEFT_PLAIN_START", "1")
    assert batch_settings() == BATCHES_NEED
