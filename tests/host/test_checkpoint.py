"""Who owns a checkpoint: the session that first commits a batch; folders with other files are refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import weft
from tests.host.kit import commit_once
from weft.errors import StateError

TABLE = pa.table({"k": [1], "v": [2]})


def claim(root: Path, sql: str, statistics: weft.Statistics | None = None) -> weft.Session:
    s = weft.Session(root, workers=1)
    for name in ("a", "b", "c"):
        s.stream(name, weft.read.batches([TABLE]))
    s.query("q", sql)
    s.options(statistics=statistics)
    s.claim()
    s.checkpoint.release()
    return s


FIRST = "SELECT a.k FROM a, b WHERE a.k = b.k"
SECOND = "SELECT a.k FROM a, b WHERE a.k = b.v"


def test_the_same_session_comes_back(tmp_path: Path) -> None:
    first = claim(tmp_path / "state", FIRST)
    commit_once(first)
    assert claim(tmp_path / "state", FIRST).checkpoint.id == first.checkpoint.id


def test_another_query_is_told_what_differs(tmp_path: Path) -> None:
    commit_once(claim(tmp_path / "state", FIRST))
    with pytest.raises(StateError, match=r"(?s)what differs.*query \"q\", where: .*a\.k = b\.k.*a\.k = b\.v"):
        claim(tmp_path / "state", SECOND)


def test_a_run_that_committed_nothing_binds_nothing(tmp_path: Path) -> None:
    owner = claim(tmp_path / "state", FIRST).checkpoint.id
    left = tmp_path / "state" / "spark" / "offsets"
    left.mkdir(parents=True)
    assert claim(tmp_path / "state", SECOND).checkpoint.id == owner
    assert not left.exists()


def test_a_folder_with_other_files_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "part.parquet").write_bytes(b"x")
    with pytest.raises(StateError, match="not a checkpoint") as error:
        claim(tmp_path, FIRST)
    assert "part.parquet" in str(error.value)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["part.parquet"]
