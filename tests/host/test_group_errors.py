"""Arguments of aggregates are asked only of rows that the query joins."""

import pyarrow as pa
import pytest

from weft.errors import WeftError
from weft.query.model import Query, Stream
from weft.sql import to_query
from weft.testing import Trial

SCHEMA = pa.schema([("k", pa.int64()), ("x", pa.int64()), ("t", pa.string())])


def queries(text: str) -> dict[str, Query]:
    return {"q": to_query(text, {name: Stream(name, SCHEMA) for name in ("a", "b")})}


def rows(*found: tuple[int, int, str]) -> pa.Table:
    return pa.table({"k": [k for k, _, _ in found], "x": [x for _, x, _ in found], "t": [t for _, _, t in found]})


@pytest.mark.parametrize("argument", ["a.x * 10", "CAST(a.t AS INTEGER)"])
def test_a_row_that_joins_nothing_cannot_fail(argument: str) -> None:
    trial = Trial(queries(f"SELECT b.k, SUM({argument}) AS s FROM a JOIN b ON a.k = b.k GROUP BY b.k"), workers=2)
    trial.feed({"a": rows((1, 5, "7"), (2, 2**62, "no number")), "b": rows((1, 0, ""))})
    assert trial.table("q").to_pylist() == [{"k": 1, "s": 50 if "x" in argument else 7}]
    with pytest.raises(WeftError):
        trial.feed({"b": rows((2, 0, ""))})


def test_a_sum_that_does_not_fit_names_its_group() -> None:
    trial = Trial(queries("SELECT b.t, SUM(a.x) AS s FROM a JOIN b ON a.k = b.k GROUP BY b.t"), workers=2)
    trial.feed({"a": rows((1, 2**62, ""), (1, 2**62 - 1, "")), "b": rows((1, 0, "full"))})
    assert trial.table("q").to_pylist() == [{"t": "full", "s": 2**63 - 1}]
    with pytest.raises(WeftError, match="full"):
        trial.feed({"a": rows((1, 1, ""))})
