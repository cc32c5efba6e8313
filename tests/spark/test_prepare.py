"""Spark's classes in a file: made once after a first run, used by the next, and harmless if it is damaged."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from weft.launch.classes import REHEARSAL

pytestmark = pytest.mark.spark

PROGRAM = """
import sys
import psutil
import pyarrow as pa
import weft
s = weft.Session(checkpoint=sys.argv[1], workers=1, progress=False)
s.stream("a", weft.read.batches([pa.table({"k": [1, 2]})]))
s.stream("b", weft.read.batches([pa.table({"k": [2, 3]})]))
q = s.query("q", "SELECT a.k FROM a JOIN b ON a.k = b.k").to_memory()
s.run()
java = next(p for p in psutil.Process().children(recursive=True) if p.name() == "java")
print(q.table().to_pylist(), any(m.path.endswith(".jsa") and "my cache" in m.path for m in java.memory_maps()))
"""


def run(root: Path, state: str) -> tuple[str, str]:
    """What the program said, and what it complained of."""
    environment = {**os.environ, "WEFT_CACHE": str(root / "my cache"), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PROGRAM, str(root / state)]
    done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.strip(), done.stderr


def await_made(cache: Path, seconds: float = 180) -> Path:
    """The file, when the process that the program left behind has ended."""
    makers = [p for p in psutil.process_iter(["cmdline"]) if REHEARSAL in (p.info["cmdline"] or ())]
    _, slow = psutil.wait_procs([p for p in makers if p.environ().get("WEFT_CACHE") == str(cache)], seconds)
    assert not slow
    assert not [*cache.glob("*.failed")]
    (made,) = cache.glob("*.jsa")
    return made


def test_a_first_run_prepares_the_second_and_a_damaged_file_is_no_obstacle(tmp_path: Path) -> None:
    cache = tmp_path / "my cache"
    said, noise = run(tmp_path, "first")
    assert said == "[{'k': 2}] False", noise
    made = await_made(cache)
    assert run(tmp_path, "second") == ("[{'k': 2}] True", noise)
    half = made.read_bytes()[:100_000]
    made.unlink()
    made.with_name(f"{made.name.rsplit('-', 1)[0]}-{len(half)}.jsa").write_bytes(half)  # a JVM dies of it
    for state in ("third", "fourth"):
        assert run(tmp_path, state)[0].endswith("[{'k': 2}] False")  # what the JVM said stands before
    assert not [*cache.glob("*.jsa")], "it would fail again"
