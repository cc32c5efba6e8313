"""The command line, called as a user calls it: arguments in; exit code, stdout and stderr out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weft import cli

JOB = """
SET checkpoint = 'state';
CREATE STREAM a FROM PARQUET 'in/a' WITH (event_time = 't', unit = 's');
CREATE STREAM b FROM PARQUET 'in/b' WITH (event_time = 'u', unit = 's');
CREATE QUERY pairs INTO PARQUET 'out/pairs' AS
  SELECT a.k, a.t, b.u FROM a JOIN b WITHIN INTERVAL '10' SECOND ON a.k = b.k;
"""


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        cli.main(arguments)
    return int(end.value.code or 0)


@pytest.fixture
def job(tmp_path: Path) -> Path:
    folder = tmp_path / "a job"
    for name, table in {"a": {"k": [1, 2, 3], "t": [100, 100, 100]}, "b": {"k": [1, 2, 2], "u": [95, 100, 85]}}.items():
        (folder / "in" / name).mkdir(parents=True)
        pq.write_table(pa.table(table), folder / "in" / name / "0.parquet")
    (folder / "job.sql").write_text(JOB)
    return folder / "job.sql"


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--help") == 0
    said = capsys.readouterr().out
    assert [name for name in ("demo", "run", "explain", "queries", "status", "doctor") if name not in said] == []


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("demo", ["--orders", "--seed", "--keep", "--workers"]),
        ("run", ["SCRIPT", "--every", "--workers"]),
        ("explain", ["SCRIPT", "--stage", "--format", "--analyze", "--no-analyze", "--workers"]),
        ("queries", ["CHECKPOINT"]),
        ("status", ["CHECKPOINT"]),
        ("doctor", ["--checkpoint", "--spark", "--no-spark", "--prepare"]),
        ("calibrate", ["--quick", "--no-quick", "--dry-run", "--no-dry-run"]),
        ("bench", []),
    ],
)
def test_help_of_a_command_names_its_options(
    command: str, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(command, "--help") == 0
    said = capsys.readouterr().out
    assert [option for option in options if option not in said] == []


def test_without_a_command_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert call() == 0
    assert capsys.readouterr().out.startswith("usage: weft ")


def test_options_reach_their_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given: list[dict[str, object]] = []
    monkeypatch.setattr("weft.demo.run_demo", lambda **options: given.append(options) or True)
    assert call("demo") == 0
    assert call("demo", "--orders", "7", "--seed=2", "--keep", str(tmp_path), "--workers", "3") == 0
    assert given == [
        {"orders": 30_000, "seed": 1, "keep": None, "workers": None},
        {"orders": 7, "seed": 2, "keep": tmp_path, "workers": 3},
    ]


@pytest.mark.parametrize("arguments", [["run"], ["run", "a", "b"], ["demo", "--orders", "x"], ["demo", "--ord", "1"]])
def test_wrong_arguments_are_refused_with_the_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert call(*arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith("usage: weft ")
    assert ": error: " in said


def test_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--version") == 0
    assert capsys.readouterr().out.strip() == "0.1.0"


def test_unknown_command_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("weave") != 0
    assert "weave" in capsys.readouterr().err


def test_error_of_ours_has_three_layers_and_no_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "job.sql"
    script.write_text("SET colour = 'red';")
    assert call("run", str(script)) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        'error: unknown setting "colour"\n'
        "detail: line 1, column 5\n"
        "  SET colour = 'red';\n"
        "      ^^^^^^\n"
        "hint: settings are: checkpoint, workers, watermark, sharing, strategy, budget, placement, capacity, arrival, "
        "statistics.\n"
    )


def test_missing_script_is_one_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("explain", str(tmp_path / "gone.sql")) == 2
    assert capsys.readouterr().err.startswith("error: script ")


def test_bench_outside_a_clone_says_where_to_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if not (Path(entry or ".") / "bench").exists()])
    for name in [name for name in sys.modules if name.split(".")[0] == "bench"]:
        monkeypatch.delitem(sys.modules, name)
    assert call("bench") == 2
    assert "hint: run it at the top of a clone" in capsys.readouterr().err


def test_bench_hands_no_arguments_of_ours_on(tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "__init__.py").touch()  # or the bench of this repository would be found, and run
    (tmp_path / "bench" / "q3.py").write_text("import sys; assert sys.argv[1:] == [], sys.argv")
    done = subprocess.run(
        [sys.executable, "-m", "weft.cli", "bench"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr


def test_reader_that_has_seen_enough_is_no_error(job: Path) -> None:
    command = [sys.executable, "-m", "weft.cli", "explain", str(job)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0


def test_doctor_prints_a_line_per_finding(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("doctor", "--no-spark") == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "hint:" not in line]
    assert [line.split()[1] for line in lines] == ["Python", "Java", "PySpark", "memory", "temp", "numba", "DuckDB"]


def test_doctor_fails_when_a_check_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert call("doctor", "--no-spark", "--checkpoint", str(tmp_path / "file")) == 1
    said = capsys.readouterr().out
    assert "fail  checkpoint" in said
    assert "hint: choose a folder you may write to\n" in said


@pytest.mark.parametrize("module", ["weft", "weft.cli", "weft.script", "weft.doctor", "weft.calibrate"])
def test_import_is_light(module: str) -> None:
    code = f"import sys, {module}; print(*sorted({{'pyspark', 'duckdb', 'rich', 'starlette'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_the_planning_process_of_spark_does_not_wait_for_kernels() -> None:
    code = "import sys, weft.host.spark.reader; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_explain_prints_a_plan_and_writes_nothing(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("explain", str(job)) == 0
    assert "pairs" in capsys.readouterr().out
    assert sorted(path.name for path in job.parent.iterdir()) == ["in", "job.sql"]


def test_explain_takes_a_stage_and_a_format(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("explain", str(job), "--stage", "resolved", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["stage"] == "resolved"
    assert call("explain", str(job), "--stage", "physical") == 2
    assert "hint: use one of: parsed, resolved, candidates, chosen, topology." in capsys.readouterr().err


def test_explain_before_the_first_run_has_nothing_measured(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("explain", str(job), "--analyze") == 0
    assert "notice nothing-measured" in capsys.readouterr().out
    assert sorted(path.name for path in job.parent.iterdir()) == ["in", "job.sql"]


@pytest.mark.spark
def test_run_twice_writes_each_result_once(job: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "weft.cli", "run", str(job)]
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=dict(os.environ))
        assert done.returncode == 0, done.stderr
        found = pq.read_table(job.parent / "out" / "pairs").to_pylist()
        assert sorted(found, key=lambda row: row["k"]) == [{"k": 1, "t": 100, "u": 95}, {"k": 2, "t": 100, "u": 100}]
    explained = [sys.executable, "-m", "weft.cli", "explain", str(job), "--analyze"]
    told = subprocess.run(explained, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    assert "measured in 1 batch" in told
    assert "(~3 rows, 3 measured, x1)" in told
