"""The wheel: it has all files of the package, and works without the checkout."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import weft

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "pip", "wheel", str(ROOT), "--no-deps", "-q", "-w", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    (made,) = folder.glob("*.whl")
    return made


def test_versions_are_one() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == weft.__version__
    assert {"java", "kafka", "console", "notebook", "otel"} <= {*project["optional-dependencies"]}
    named = re.findall(
        r"weft-(\d+\.\d+\.\d+)", (ROOT / "README.md").read_text() + (ROOT / "docs" / "index.md").read_text()
    )
    assert {*named} == {weft.__version__}


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    tracked = subprocess.run(["git", "ls-files", "weft"], cwd=ROOT, capture_output=True, text=True, check=False)
    files = {*tracked.stdout.split()} or {
        str(path.relative_to(ROOT)) for path in (ROOT / "weft").rglob("*") if path.is_file() and path.suffix != ".pyc"
    }
    held = {*zipfile.ZipFile(wheel).namelist()}
    assert {name for name in files if (ROOT / name).exists()} <= held
    assert not [name for name in held if name.startswith(("tests/", "bench/"))]


@pytest.mark.spark
def test_the_wheel_works_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}

    def call(*arguments: str) -> str:
        command = [sys.executable, "-m", "weft.cli", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    where = [sys.executable, "-c", "import weft; print(weft.__file__)"]
    assert str(tmp_path) in subprocess.run(where, cwd=tmp_path, env=environment, capture_output=True, text=True).stdout
    assert "right  fresh_orders" in call("demo", "--orders", "300")
    call("init", "job")
    call("run", "job/job.sql")
    assert pq.read_table(tmp_path / "job" / "out" / "shipped").num_rows == 3
