"""The command line, called as a user calls it: arguments in; exit code, stdout and stderr out."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
import urllib.parse
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weft import cli
from weft.cli import commands
from weft.cli.command import EXIT_CODES
from weft.cli.terminal import has_colours

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


COMMANDS = [command.name for command in commands.COMMANDS]


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--help") == 0
    said = capsys.readouterr().out
    assert [name for name in COMMANDS if name not in said] == []


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("demo", ["--orders", "--seed", "--keep", "--workers"]),
        ("init", ["FOLDER"]),
        ("run", ["SCRIPT", "--every", "--workers", "--watch", "--json"]),
        ("explain", ["SCRIPT", "--stage", "--format", "--analyze", "--no-analyze", "--workers", "--json", "--open"]),
        ("queries", ["CHECKPOINT", "--json"]),
        ("status", ["CHECKPOINT", "--json"]),
        ("doctor", ["--checkpoint", "--spark", "--no-spark", "--prepare", "--json"]),
        ("completion", ["SHELL"]),
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
    assert capsys.readouterr().out.strip() == "0.2.0"


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
        "hint: settings are: checkpoint, workers, watermark, sharing, adapt, epoch, threshold, strategy, budget, "
        "placement, capacity, arrival, statistics.\n"
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


def test_help_says_what_exit_codes_mean(capsys: pytest.CaptureFixture[str]) -> None:
    call("--help")
    said = capsys.readouterr().out
    assert [code for code, meaning in EXIT_CODES if f"  {code:<4} {meaning}" not in said] == []


def test_explain_as_json_is_the_format_json(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("explain", str(job), "--json") == 0
    assert json.loads(capsys.readouterr().out)["stage"] == "topology"


def test_explain_opens_a_page_that_stands_alone(
    job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shown: list[str] = []
    monkeypatch.setattr("webbrowser.open", shown.append)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert call("explain", str(job), "--open", "--stage", "chosen") == 0
    assert capsys.readouterr().out.strip() == shown[0]
    page = Path(urllib.parse.unquote(urllib.parse.urlparse(shown[0]).path)).read_text()
    assert "<svg" in page
    assert "query pairs" in page


def test_doctor_as_json_is_a_list_of_findings(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("doctor", "--no-spark", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert {"Python", "Java", "PySpark"} <= {finding["name"] for finding in found}
    assert {finding["level"] for finding in found} <= {"ok", "warn"}


@pytest.mark.parametrize(
    ("environ", "terminal", "coloured"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"TERM": "dumb"}, True, False),
    ],
)
def test_colours_are_for_terminals_whose_reader_wants_them(
    environ: dict[str, str], terminal: bool, coloured: bool
) -> None:
    stream = io.StringIO()
    stream.isatty = lambda: terminal  # type: ignore[method-assign]
    assert has_colours(stream, environ) is coloured


def test_error_on_a_terminal_is_coloured_unless_that_is_not_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    call("status", str(tmp_path))
    assert capsys.readouterr().err.startswith("\x1b[31merror:\x1b[0m ")
    monkeypatch.setenv("NO_COLOR", "1")
    call("status", str(tmp_path))
    assert capsys.readouterr().err.startswith("error: ")


# ----------------------------------------------------------------------------------------------- a new job


def test_a_new_job_is_planned_and_nothing_is_written_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("init", str(tmp_path / "my job")) == 0
    assert "weft run job.sql" in capsys.readouterr().out
    monkeypatch.chdir(tmp_path / "my job")
    assert call("explain", "job.sql") == 0
    assert "query shipped" in capsys.readouterr().out
    compile(Path("job.py").read_text(), "job.py", "exec")
    Path("job.sql").write_text("-- mine")
    assert call("init") == 2
    assert "has files of these names: in/orders/0001.csv" in capsys.readouterr().err
    assert Path("job.sql").read_text() == "-- mine"


@pytest.mark.spark
def test_a_new_job_runs_and_tells_programs_what_it_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("init") == 0
    capsys.readouterr()
    assert call("run", "job.sql", "--json", "--watch") == 0
    said = capsys.readouterr()
    report = json.loads(said.out)
    assert said.err.splitlines()[0].startswith("batch 0  11 rows in")  # no terminal: a line for each batch
    assert report["rows_in"] == {"orders": 4, "payments": 4, "shipments": 3}
    assert report["last"]["state"]["rows"] == 14
    rows = pq.read_table("out/shipped").sort_by("paid").to_pylist()
    assert [(row["customer"], row["paid"], row["carrier"]) for row in rows] == [
        ("Bob", 15.5, "Rail"), ("Bob", 20.0, "Rail"), ("Ann", 120.0, "Road"),
    ]  # fmt: skip
    assert pq.read_table("out/paid_by_customer").num_rows == 3
    assert call("status", "state", "--json") == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["batch"], status["streams"]["orders"]) == (0, {"rows": 4, "late": 0})
    assert call("queries", "state", "--json") == 0
    queries = json.loads(capsys.readouterr().out)
    assert {query["query"]: query["results"] for query in queries} == report["rows_out"]
    exec(compile(Path("job.py").read_text(), "job.py", "exec"), {})
    assert pq.read_table("out_py/shipped").num_rows == 3


# --------------------------------------------------------------------------------------------- completion


def complete(*words: str) -> list[str]:
    """What bash offers for the last word."""
    given = " ".join(f"'{word}'" for word in words)
    script = f"""
        source <({shlex.quote(sys.executable)} -m weft.cli completion bash)
        COMP_WORDS=({given}); COMP_CWORD={len(words) - 1}; _weft; printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_commands_options_values_and_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert complete("weft", "") == [*COMMANDS, "--help", "--version"]
    assert complete("weft", "re") == []
    assert complete("weft", "run", "--w") == ["--workers", "--watch"]
    assert complete("weft", "explain", "job.sql", "--stage", "c") == ["candidates", "chosen"]
    assert complete("weft", "completion", "") == ["bash", "zsh", "fish"]
    (tmp_path / "state").mkdir()
    (tmp_path / "job.sql").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(cli.__file__).parents[2]))
    assert complete("weft", "run", "j") == ["job.sql"]
    assert complete("weft", "status", "") == ["state"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_every_option(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("completion", shell) == 0
    said = capsys.readouterr().out
    words = {word for command in commands.COMMANDS for option in command.options for word in option.spellings}
    dashes = "-l " if shell == "fish" else "--"
    assert [word for word in words if f"{dashes}{word[2:]}" not in said] == []


def test_completion_for_another_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("completion", "tcsh") == 2
    assert "hint: use one of: bash, zsh, fish." in capsys.readouterr().err


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
