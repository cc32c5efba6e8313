"""The driver's copy of a checkpoint at a URL: it goes with its driver, however that ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark._kill import HERE
from weft.host.state.depot import Depot
from weft.host.state.mirror import Mirror

DRIVER = """
import sys
from weft.host.state.depot import Depot
from weft.host.state.mirror import Mirror
mirror = Mirror(Depot(sys.argv[1]))
print(mirror.root, flush=True)
sys.stdin.read()
"""


def test_the_copy_of_a_driver_that_was_killed_goes_and_that_of_one_that_lives_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"file://{tmp_path}/checkpoint"
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    environ = {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "PYTHONPATH": str(HERE)}
    command = [sys.executable, "-c", DRIVER, url]
    drivers = [
        subprocess.Popen(command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    roots = [Path(driver.stdout.readline().strip()) for driver in drivers if driver.stdout is not None]
    drivers[0].kill()
    drivers[0].communicate()
    mine = Mirror(Depot(url))
    assert [root.exists() for root in roots] == [False, True]
    drivers[1].communicate()
    assert not roots[1].exists(), "a driver that ends removes its own"
    mine_at = mine.root
    assert mine_at.exists()
    del mine
    assert not mine_at.exists()
