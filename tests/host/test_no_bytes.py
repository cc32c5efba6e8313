"""Rows whose columns have no bytes are stored and joined like others."""

from __future__ import annotations

import pyarrow as pa
import pytest

import weft
from weft.testing import Trial

KINDS = {"NULL alone": pa.null(), "a struct without fields": pa.struct([])}


@pytest.mark.parametrize("kind", KINDS)
def test_rows_without_bytes_are_joined(kind: str) -> None:
    session = weft.Session("never-made", workers=2)
    empty = pa.table({"e": pa.array([None] * 3, KINDS[kind])})
    names = pa.table({"k": [1, 2]})
    for name, rows in (("empty", empty), ("names", names)):
        session.stream(name, weft.read.batches([rows.slice(0, 0)]))
    session.query("q", "SELECT k, COUNT(*) AS n FROM names, empty WHERE e IS NULL GROUP BY k", cross_product=True)
    trial = Trial(session)
    for _ in range(2):
        trial.feed({"empty": empty, "names": names})
    assert sorted(trial.table("q").to_pylist(), key=repr) == [{"k": 1, "n": 12}, {"k": 2, "n": 12}]
