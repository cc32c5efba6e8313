"""What a checkpoint remembers can be asked for at any time."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import weft


@pytest.mark.parametrize("there", [False, True], ids=["no folder", "an empty folder"])
def test_reading_writes_nothing_to_a_folder_that_is_not_a_checkpoint_yet(there: bool, tmp_path: Path) -> None:
    folder = tmp_path / "state"
    if there:
        folder.mkdir()
    s = weft.Session(folder, workers=2)
    s.stream("t", weft.read.batches([pa.table({"k": [1, 2]})]))
    s.query("q", "SELECT a.k FROM t a JOIN t b ON a.k = b.k")
    assert s.observed() == weft.Statistics()
    assert "nothing-measured" in s.explain(analyze=True)
    assert folder.exists() == there
    assert not there or not [*folder.iterdir()]
