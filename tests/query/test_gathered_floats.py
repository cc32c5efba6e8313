"""Aggregates over all values of a group whose values are NaN, infinite or one of the two zeros."""

import pyarrow as pa
import pytest

import weft
from tests.published import batches_of, check

NAN, INF = float("nan"), float("inf")
ROWS = pa.table({
    "g": [1, 1, 1, 2, 2, 2, 3, 3, 3],
    "f": [NAN, 1.0, NAN, 0.0, -0.0, INF, -INF, None, NAN],
})  # fmt: skip


@pytest.mark.parametrize("call", ["MODE(f)", "QUANTILE_DISC(f, 0.5)", "SUM(DISTINCT f)", "MEDIAN(f)"])
def test_floats_of_all_kinds_are_gathered_as_by_duckdb(call: str) -> None:
    session = weft.Session("never-made", workers=2)
    session.stream("a", weft.read.batches([ROWS.slice(0, 0)]))
    text = f"SELECT g, {call} AS m FROM a WHERE g < 3 GROUP BY g"
    assert check(session, text, batches_of({"a": ROWS}, 3)) == 2
