"""Spark is started before it is needed: the JVM by a noted command, its Python processes once; and ended if refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weft.launch import command
from weft.launch.command import HERE, Noted, note_command, read_command
from weft.launch.settings import quick_settings

ROOT = Path(__file__).parents[2]
JOB = """
SET checkpoint = 'state';
CREATE STREAM a FROM PARQUET 'in/a';
CREATE STREAM b FROM PARQUET 'in/b';
CREATE QUERY pairs INTO PARQUET 'out' AS SELECT a.k FROM a JOIN b ON a.k = b.k;
"""
PROGRAM = """
import json, sys
import psutil
from weft.cli.entry import main
from weft.host.spark.run import SparkBatches

seen = []
publish = SparkBatches._progress
def note(self, *rest):
    processes = psutil.Process().children(recursive=True)
    java = [p for p in processes if p.name() == "java"]
    daemons = [p for p in processes if p.parent() in java and "weft.launch.daemon" in p.cmdline()]
    forks = [p for p in psutil.Process().children() if p.name() != "java" and p.children()]
    seen.append((len(java), len(daemons), len(forks)))
    return publish(self, *rest)
SparkBatches._progress = note
try:
    main(["run", sys.argv[1], "--json"])
finally:
    open(sys.argv[1] + ".seen", "w").write(json.dumps(seen))
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    for name, keys in {"a": [1, 2], "b": [2, 3]}.items():
        (tmp_path / "in" / name).mkdir(parents=True)
        pq.write_table(pa.table({"k": keys}), tmp_path / "in" / name / "0.parquet")
    (tmp_path / "job.sql").write_text(JOB)
    return tmp_path / "job.sql"


def run(job: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MARK": str(job)}
    return subprocess.run(
        [sys.executable, *command, str(job)], env=environment, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.spark
def test_a_run_starts_one_jvm_and_one_python_daemon_which_is_a_fork(job: Path) -> None:
    done = run(job, "-c", PROGRAM)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows_out"] == {"pairs": 1}
    seen = json.loads(job.with_name("job.sql.seen").read_text())  # a process that ends late may still write to stderr
    assert seen == [[1, 1, 1]]  # the warm-up and the batch share a daemon
    _wait_for_the_end(job)


@pytest.mark.spark
def test_a_job_that_is_refused_leaves_no_process(job: Path) -> None:
    job.write_text(JOB.replace("a.k = b.k", "a.k = b.nothing"))
    done = run(job, "-m", "weft.cli", "run")
    assert done.returncode == 2
    assert "nothing" in done.stderr
    assert "Traceback" not in done.stderr
    _wait_for_the_end(job)


@pytest.mark.spark
def test_a_run_that_is_killed_leaves_no_process(job: Path) -> None:
    killed = PROGRAM.replace(
        "    return publish", "    __import__('os').kill(__import__('os').getpid(), 9)\n    return publish"
    )
    assert run(job, "-c", killed).returncode == -9
    _wait_for_the_end(job)


def _wait_for_the_end(job: Path) -> None:
    """Of all processes of a run: the JVM, the fork that is Spark's daemon, and its workers."""
    _, left = psutil.wait_procs([p for p in psutil.process_iter() if _is_marked(p, str(job))], timeout=60)
    assert not left, [process.cmdline() for process in left]


def _is_marked(process: psutil.Process, mark: str) -> bool:
    try:
        return process.environ().get("MARK") == mark
    except psutil.Error:
        return False


# --------------------------------------------------------------------------------------------- the command


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    for name in ("PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "cache"


def test_a_command_is_noted_once_and_read_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_command(2) is None
    java = os.environ.get("JAVA_HOME")
    made = note_command(2)
    assert made is not None
    if java is None:
        monkeypatch.delenv("JAVA_HOME")  # finding a Java sets it
    assert read_command(2) == made
    assert "org.apache.spark.deploy.SparkSubmit" in made.words
    assert made.words[-1] == "pyspark-shell"
    settings = [f"{name}={value}" for name, value in quick_settings(2, HERE).items()]
    assert {*settings} <= {*made.words}
    assert read_command(8) is None  # more cores have another collector


def test_options_of_a_command_are_put_in_their_place() -> None:
    noted = Noted("/java", ("java", "-Da=b", HERE, "Main", f"--conf x={HERE} y"), {})
    assert noted.with_options("") == ["java", "-Da=b", "Main", "--conf x= y"]
    assert noted.with_options('"-XX:File=/my cache/a" -q')[2:4] == ["-XX:File=/my cache/a", "-q"]


def test_a_note_is_not_used_when_what_it_depends_on_has_changed(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = command._place(2)
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--verbose pyspark-shell")
    other = command._place(2)
    assert before != other
    (tmp_path / "conf").mkdir()
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    assert command._place(2) not in (None, before, other)
    (tmp_path / "conf" / "spark-env.sh").touch()
    assert command._place(2) is None  # a script of the user: PySpark starts the JVM
    assert note_command(2) is None


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"java_home": 1}', "nonsense"])
def test_a_damaged_note_is_not_used(cache: Path, text: str) -> None:
    place = command._place(2)
    assert place is not None
    place.parent.mkdir(parents=True)
    place.write_text(text)
    assert read_command(2) is None
