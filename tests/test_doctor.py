"""The doctor: each finding has a level, what was seen, and a hint when something is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft import doctor
from weft.doctor import Finding, examine


def by_name(findings: list[Finding]) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings}


def test_this_machine_is_well_without_spark(tmp_path: Path) -> None:
    found = by_name(list(examine(checkpoint=tmp_path / "not" / "yet", spark=False)))
    assert list(found) == ["Python", "Java", "PySpark", "memory", "temp folder", "checkpoint", "numba", "DuckDB"]
    assert [finding for finding in found.values() if finding.level == "fail"] == []
    assert not (tmp_path / "not").exists()


def test_every_finding_short_of_ok_has_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "LEAST_MEMORY", 1 << 60)
    monkeypatch.setattr(doctor, "LEAST_DISK", 1 << 60)
    monkeypatch.setattr(doctor, "NEWEST_JAVA", 3)
    found = by_name(list(examine(spark=False)))
    assert {name: found[name].level for name in ("memory", "temp folder", "Java")} == {
        "memory": "fail",
        "temp folder": "warn",
        "Java": "warn",
    }
    assert all(finding.hint for finding in found.values() if finding.level != "ok")


def test_pandas_3_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"pyspark": "4.3.0", "pandas": "3.0.1"}
    monkeypatch.setattr(doctor, "_version", lambda name: versions.get(name, "26.0"))
    finding = by_name(list(examine(spark=False)))["PySpark"]
    assert (finding.level, finding.seen) == ("fail", "4.3.0 with pandas 3.0.1 and pyarrow 26.0")
    assert 'pip install "pandas<3"' in (finding.hint or "")


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_version", lambda name: None if name == "pyarrow" else "4.3.0")
    assert by_name(list(examine(spark=False)))["PySpark"].seen == "not installed: pyarrow"


def test_checkpoint_below_a_file_fails(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    finding = by_name(list(examine(checkpoint=tmp_path / "file", spark=False)))["checkpoint"]
    assert (finding.level, finding.seen) == ("fail", f"{tmp_path / 'file'} is not a folder")


def test_kernel_cache_that_cannot_be_written_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    finding = by_name(list(examine(spark=False)))["numba"]
    assert (finding.level, finding.hint) == ("fail", "set NUMBA_CACHE_DIR")


def test_surprise_in_a_check_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Finding:
        raise RuntimeError("out of luck")

    monkeypatch.setattr(doctor, "_memory", broken)
    found = by_name(list(examine(spark=False)))
    assert (found["memory"].level, found["memory"].seen) == ("fail", "RuntimeError: out of luck")
    assert "numba" in found


def test_job_that_fails_is_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_SMALL_JOB", "raise SystemExit('no gateway')")
    finding = by_name(list(examine()))["Spark job"]
    assert (finding.level, finding.seen) == ("fail", "a small join failed: no gateway")


def test_innermost_cause_is_picked_from_a_java_traceback() -> None:
    said = """
    py4j.protocol.Py4JJavaError: An error occurred while calling o105.start.
    : java.io.IOException: Cannot run program "chmod"
        at java.base/java.lang.ProcessBuilder.start(ProcessBuilder.java:1110)
    Caused by: java.io.IOException: error=2, No such file or directory
        ... 19 more
    """
    assert doctor._cause(said) == "Caused by: java.io.IOException: error=2, No such file or directory"
    assert doctor._cause("") is None


def test_job_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_SMALL_JOB", "import threading; threading.Event().wait()")
    monkeypatch.setattr(doctor, "SPARK_SECONDS", 0.5)
    assert by_name(list(examine()))["Spark job"].seen == "a small join did not end within 0.5 s"


def test_a_plain_start_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_PLAIN_START", "1")
    monkeypatch.setattr(doctor, "_SMALL_JOB", "pass")
    finding = by_name(list(examine()))["start"]
    assert (finding.level, finding.seen.split(":")[0]) == ("ok", "plain, since WEFT_PLAIN_START is set")


@pytest.mark.spark
def test_small_join_runs_on_spark() -> None:
    finding = by_name(list(examine()))["Spark job"]
    assert finding.level == "ok", finding


def test_what_is_missing_is_named_with_a_command_that_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_version", lambda name: None if name in ("pyarrow", "duckdb") else "4.3.0")
    found = by_name(list(examine(spark=False)))
    assert found["PySpark"].hint == 'pip install "pyarrow>=26"'
    assert (found["DuckDB"].level, found["DuckDB"].hint) == ("ok", "pip install duckdb")


def test_the_slow_part_is_done_only_when_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The file of classes is looked for in an empty cache; nothing is started to make it."""
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    monkeypatch.setattr(doctor, "_spark_job", lambda: Finding("Spark job", "ok", "not run here"))
    told: list[str] = []
    found = by_name(list(examine(announce=told.append)))
    assert told == ["running a small join on Spark: ten seconds or so"]
    assert found["start"].level == "ok"
    assert (found["start"].hint or "").endswith("weft doctor --prepare")
    assert not list(tmp_path.rglob("*.jsa"))
