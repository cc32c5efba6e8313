"""Who owns a checkpoint: the session that first commits a batch; folders with other files are refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import weft
from weft.errors import StateError
from weft.host.state.checkpoint import Checkpoint
from weft.host.state.manifest import Ledger, Manifest

TABLE = pa.table({"k": [1], "v": [2]})


def claim(root: Path, sql: str, statistics: weft.Statistics | None = None) -> Checkpoint:
    s = weft.Session("unused", workers=1)
    for name in ("a", "b", "c"):
        s.stream(name, weft.read.batches([TABLE]))
    s.query("q", sql)
    s.options(statistics=statistics)
    checkpoint = Checkpoint(root)
    queries = {name: handle.query for name, handle in s.queries.items()}
    checkpoint.claim(s.topology, queries, s.sources, {})
    checkpoint.release()
    return checkpoint


FIRST = "SELECT a.k FROM a, b WHERE a.k = b.k"
SECOND = "SELECT a.k FROM a, b WHERE a.k = b.v"


def test_the_same_session_comes_back(tmp_path: Path) -> None:
    owner = claim(tmp_path / "state", FIRST).id
    Ledger(tmp_path / "state").commit(Manifest(0))
    assert claim(tmp_path / "state", FIRST).id == owner


def test_another_query_is_told_what_differs(tmp_path: Path) -> None:
    claim(tmp_path / "state", FIRST)
    Ledger(tmp_path / "state").commit(Manifest(0))
    with pytest.raises(StateError, match=r"(?s)what differs.*query \"q\", where: .*a\.k = b\.k.*a\.k = b\.v"):
        claim(tmp_path / "state", SECOND)


def test_a_run_that_committed_nothing_binds_nothing(tmp_path: Path) -> None:
    owner = claim(tmp_path / "state", FIRST).id
    left = tmp_path / "state" / "spark" / "offsets"
    left.mkdir(parents=True)
    assert claim(tmp_path / "state", SECOND).id == owner
    assert not left.exists()


def test_a_changed_plan_is_refused_even_if_the_query_is_the_same(tmp_path: Path) -> None:
    chain = "SELECT a.k FROM a, b, c WHERE a.k = b.k AND b.v = c.v AND a.v < c.k"
    claim(tmp_path / "state", chain, weft.Statistics({"a": 1.0, "b": 10.0, "c": 1e6}))
    Ledger(tmp_path / "state").commit(Manifest(0))
    claim(tmp_path / "state", chain, weft.Statistics({"a": 1.0, "b": 10.0, "c": 1e6}))
    with pytest.raises(StateError, match="is not in the checkpoint"):
        claim(
            tmp_path / "state",
            chain,
            weft.Statistics({"a": 1e6, "b": 10.0, "c": 1.0}, selectivities={("a", "c"): 1e-9}),
        )


def test_a_folder_with_other_files_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "part.parquet").write_bytes(b"x")
    with pytest.raises(StateError, match="not a checkpoint") as error:
        claim(tmp_path, FIRST)
    assert "part.parquet" in str(error.value)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["part.parquet"]
