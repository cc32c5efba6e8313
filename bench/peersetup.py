"""The systems that can be measured, and an environment of its own for each peer.

    bench/.venvs/NAME   created when it is first needed; a folder that was removed is created again

What cannot be installed is skipped, with the reason in one line: `ready` gives the reason instead of an interpreter.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from weft.launch.java import ensure_java

FOLDER = Path(__file__).parent / ".venvs"
FLINK = "2.3.0"
JARS = (
    f"org.apache.flink:flink-sql-parquet:{FLINK}",
    "org.apache.hadoop:hadoop-client-api:3.4.1",
    "org.apache.hadoop:hadoop-client-runtime:3.4.1",
)
"""What Flink needs to read and write Parquet."""
PARQUET = "flink/lib/python*/site-packages/pyflink/lib/flink-sql-parquet*"


@dataclass(frozen=True, slots=True)
class System:
    """One way to answer a workload."""

    name: str
    module: str
    requirement: str | None
    """What its environment holds; None is Weft's own environment."""
    streaming: bool = True
    java: bool = False
    csv: str | None = None
    """The CSV it reads where it cannot read Parquet: with a line of names (`csv`) or without (`bare`)."""

    @property
    def venv(self) -> str:
        return self.module


def _spark(name: str) -> System:
    return System(name, "spark", "pyspark==4.3.0", java=True)


def _flink(name: str) -> System:
    return System(name, "flink", f"apache-flink=={FLINK}", java=True, csv="bare")


SYSTEMS: Mapping[str, System] = {
    system.name: system
    for system in (
        System("weft", "weft", None, java=True),
        _spark("spark"),
        _spark("spark-rocksdb"),
        _spark("spark-rocksdb-v4"),
        _spark("spark-v4"),
        _flink("flink"),
        _flink("flink-multi"),
        System("pathway", "pathway", "pathway==0.33.0", csv="csv"),
        System("duckdb", "duckdb", "duckdb==2.0.0", streaming=False),
        System("polars", "polars", "polars==2.1.0", streaming=False),
    )
}
VIEW_SYSTEMS: Mapping[str, System] = {
    name: System(name, "weft", None, java=True) for name in ("weft", "weft-flat", "weft-rows")
}
"""Ways in which Weft can answer an aggregate."""


def ready(system: System, *, here: bool = False) -> Path | str:
    """The interpreter of a system, or why there is none; `here` takes our own environment where it will do."""
    if system.requirement is None:
        return Path(sys.executable)
    if here:
        return Path(sys.executable) if _have(system.requirement) else f"{system.requirement} is not installed here"
    folder = FOLDER / system.venv
    python, stamp = folder / "bin" / "python", folder / "installed"
    if stamp.exists() and stamp.read_text() == system.requirement:
        return python
    print(f"  installing {system.requirement} ...", flush=True)
    if why := _make(folder, python, system.requirement):
        return why
    if system.venv == "flink":
        _jars(folder)
    stamp.write_text(system.requirement)
    return python


def set_up(names: Sequence[str]) -> bool:
    """Make the environments of these systems; whether all of them are there."""
    found = {system.venv: ready(system) for system in (SYSTEMS[name] for name in names)}
    for venv, python in found.items():
        print(f"  {venv:<17} {'skipped: ' + python if isinstance(python, str) else 'is ready'}")
    return all(isinstance(python, Path) for python in found.values())


def reads_csv(system: System) -> str | None:
    """The kind of CSV that must lie there for it."""
    return None if system.venv == "flink" and list(FOLDER.glob(PARQUET)) else system.csv


def environment(system: System) -> dict[str, str]:
    """What a system must find around it."""
    if not system.java:
        return {}
    return {"JAVA_HOME": str(ensure_java().home), "SPARK_LOCAL_IP": "127.0.0.1"}


def _have(requirement: str) -> bool:
    name, _, wanted = requirement.partition("==")
    try:
        return version(name) == wanted
    except PackageNotFoundError:
        return False


def _make(folder: Path, python: Path, requirement: str) -> str | None:
    """None, or what went wrong."""
    for command in (
        [sys.executable, "-m", "venv", str(folder)],
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
            return f"cannot be installed: {said[-1].strip()[:200] if said else command[-1]}"
    return None


def _jars(folder: Path) -> None:
    """Flink's Parquet, where Maven can fetch it; without it Flink reads CSV."""
    (libraries,) = folder.glob("lib/python*/site-packages/pyflink/lib")
    if shutil.which("mvn") is None:
        print("  no mvn: Flink will read and write CSV")
        return
    for artifact in JARS:
        command = ["mvn", "-q", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={libraries}"]
        if subprocess.run(command, capture_output=True).returncode:
            print(f"  {artifact} cannot be fetched: Flink will read and write CSV")
            for jar in FOLDER.glob(PARQUET):
                jar.unlink()
            return
