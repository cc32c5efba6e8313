"""Copies of segments on a machine: never much more than is allowed, and got again when they are needed."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from weft.host.state import place
from weft.host.state.depot import Depot
from weft.host.state.place import Place
from weft.host.state.segment import Segment, SegmentRef

ROWS = pa.RecordBatch.from_pydict({"k": [*range(5000)]})


@pytest.fixture(autouse=True)
def _scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_EXECUTOR_DIRS", str(tmp_path / "machine"))
    monkeypatch.setattr(place, "_added", 0)


def write(state: place.FileState, number: int) -> SegmentRef:
    name = f"store/0/{number:04d}.seg"
    size, checksum = state.write(name, Segment.of(ROWS, {}), lambda: None)
    state.secure(name).result()
    return SegmentRef(name, "store", 0, ROWS.num_rows, size, number, number, 0, None, None, checksum)


def test_copies_that_were_not_used_for_the_longest_time_go_and_come_back(tmp_path: Path) -> None:
    (tmp_path / "machine").mkdir()
    depot = Depot((tmp_path / "depot").as_uri())
    size = write(Place("", depot).state(), 0).bytes
    here = Place("", depot, cache=10 * size)
    state = here.state()
    refs = []
    for number in range(1, 40):
        refs.append(write(state, number))
        state.load(refs[0])  # used all the time
        copies = list(here.folder.rglob("*.seg"))
        assert sum(path.stat().st_size for path in copies) <= 11 * size
    names = {path.name for path in here.folder.rglob("*.seg")}
    assert {"0001.seg", "0039.seg"} <= names, "the first is used, the last is new"
    assert "0002.seg" not in names
    for ref in refs:
        assert state.load(ref).rows.equals(ROWS)
