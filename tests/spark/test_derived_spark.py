"""Queries that read others on Spark: files to sinks, crashes, queries that come later."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import weft
from tests.nested import COLUMNS, Oracle, rows, some_rows
from tests.spark._kit import drop
from weft.host.crash import CrashPoint

pytestmark = pytest.mark.spark

TEXTS = {
    "united": "SELECT a.k, b.y FROM a JOIN b ON a.k = b.k UNION ALL SELECT k, z FROM c",
    "averaged": "SELECT sum(m)::BIGINT AS s, count(*) AS n FROM (SELECT k, max(x) AS m FROM a GROUP BY k) d",
    "joined": "SELECT d.k, n, z FROM (SELECT k, count(*) AS n FROM a GROUP BY k) d JOIN c ON d.k = c.k",
}
LATER = "SELECT t.s, count(*) AS n FROM averaged t JOIN united u ON u.k < t.s GROUP BY t.s"


def make_session(root: Path) -> weft.Session:
    session = weft.Session(root / "checkpoint", workers=2)
    for name in COLUMNS:
        session.stream(name, weft.read.parquet(root / "in" / name, max_files=1))
    session.query("united", TEXTS["united"]).to_parquet(root / "out" / "united")
    session.query("averaged", TEXTS["averaged"]).to_parquet(root / "out" / "averaged", mode="snapshot")
    session.query("joined", TEXTS["joined"]).to_memory()
    return session


def test_derived_streams_from_files_to_sinks_with_crashes(tmp_path: Path) -> None:
    rng, oracle, batch = random.Random(11), Oracle(), 0

    def arrive() -> None:
        nonlocal batch
        for name in COLUMNS:
            fresh = some_rows(rng, name, 8)
            oracle.add({name: fresh})
            drop(tmp_path / "in" / name, f"{batch:03d}.parquet", fresh)
        batch += 1

    def check(session: weft.Session, *, views: bool = True) -> None:
        for name in ("united", "averaged") if views else ("united",):
            found = pq.read_table(tmp_path / "out" / name)
            shown: Any = found.select([column for column in found.column_names if not column.startswith("#")])
            assert rows(shown) == oracle.rows(TEXTS[name]), name
        assert rows(session.queries["joined"].table()) == oracle.rows(TEXTS["joined"])

    arrive()
    session = make_session(tmp_path)
    session.run()
    check(session)
    for point in ("wave 3 after", "commit before", "commit after"):
        arrive()
        broken = make_session(tmp_path)
        broken.crash_point = CrashPoint(point, batch - 1)
        with pytest.raises(weft.HostError, match="crash point"):
            broken.run()
    session = make_session(tmp_path)
    session.run()
    check(session)
    later = session.query("later", LATER).to_memory()
    arrive()
    session.run()
    check(session)
    assert rows(later.table()) == oracle.rows(
        LATER.replace("averaged", f"({TEXTS['averaged']})").replace("united", f"({TEXTS['united']})")
    )
    assert isinstance(later.table(), pa.Table)
