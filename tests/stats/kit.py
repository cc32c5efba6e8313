"""Streams to measure, and how far off a number is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import weft
from weft.query.model import Query, Stream
from weft.sql import to_query
from weft.stats.sample import Sample

STREAMS = {name: Stream(name, pa.schema([("k", pa.int64()), ("x", pa.int64())])) for name in ("t", "u", "v")}
NUMBERS = pa.table({"k": [1, 1, 2, 3], "x": [0, 1, 2, 3]})


def near(a: pa.Array, b: pa.Array) -> pa.Array:
    return pc.less_equal(pc.abs(pc.subtract(a, b)), 1)


def session(tmp_path: Path, **tables: Any) -> weft.Session:
    s = weft.Session(tmp_path / "state", workers=2)
    for name, table in tables.items():
        s.stream(name, weft.read.batches([table]) if isinstance(table, pa.Table) else table)
    s.function("near", near)
    return s


def q_error(found: float | None, truth: float) -> float:
    assert found is not None
    return max(found / truth, truth / found)


def queries(*texts: str) -> list[Query]:
    return [to_query(text, STREAMS) for text in texts]


def samples(*names: str) -> dict[str, Sample]:
    return {name: Sample(NUMBERS, 4) for name in names}
