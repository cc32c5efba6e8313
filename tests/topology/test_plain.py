"""A topology that was written down as plain data and read again is the same topology."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import weft
from tests.fuzz import make_case
from tests.topology.shop import QUERIES, session
from weft.expr.model import Column, Literal
from weft.topology.model import Epoch, Topology
from weft.topology.plain import from_plain, to_plain


def again(value: Any) -> Any:
    """The value after a way through JSON."""
    return from_plain(json.loads(json.dumps(to_plain(value))))


@pytest.mark.parametrize("chunk", range(8))
def test_topologies_of_random_queries_come_back_equal(chunk: int) -> None:
    for seed in range(chunk * 25, chunk * 25 + 25):
        topology = make_case(seed).session().topology
        found = again(topology)
        assert found == topology, f"seed {seed}"
        assert to_plain(found) == to_plain(topology)


@pytest.mark.parametrize("strategy", ["left_deep", "exhaustive", "hypercube:hash", "hypercube:random"])
def test_plans_with_intermediate_results_and_cubes_come_back_equal(strategy: str) -> None:
    s = session()
    s.query("triangle", QUERIES["triangle"], strategy=strategy)
    assert again(Epoch(7, s.topology)) == Epoch(7, s.topology)


@pytest.mark.parametrize("strategy", ["two-way:m-bucket", "two-way:equi-weight"])
def test_ranges_come_back_equal(strategy: str) -> None:
    s = session()
    rows = pa.table({"id": list(range(100)), "price": [i % 10 for i in range(100)]})
    for name in ("a", "b"):
        s.stream(name, weft.read.batches([rows]))
    s.query("near", "SELECT a.id AS x, b.id AS y FROM a, b WHERE abs(a.price - b.price) <= 1", strategy=strategy)
    s.analyze()
    assert any(edge.spread is not None for edge in s.topology.edges)
    assert again(s.topology) == s.topology


def test_what_is_worked_out_on_demand_is_not_written() -> None:
    s = session()
    s.query("triangle", QUERIES["triangle"])
    topology = s.topology
    before = to_plain(topology)
    assert topology.waves >= 1
    assert topology.nodes
    assert to_plain(topology) == before
    found: Topology = again(topology)
    assert found.nodes == topology.nodes
    assert found.all_starts_of("triangle") == topology.all_starts_of("triangle")


VALUES: dict[str, tuple[object, pa.DataType]] = {
    "true": (True, pa.bool_()),
    "a whole number": (2**63 - 1, pa.int64()),
    "a float": (0.1, pa.float64()),
    "infinity": (float("-inf"), pa.float64()),
    "text": ('é "\n', pa.string()),
    "bytes": (b"\x00\xff", pa.binary()),
    "a decimal": (Decimal("1.50"), pa.decimal128(9, 2)),
    "a moment": (dt.datetime(2026, 1, 2, 3, 4, 5, 6), pa.timestamp("us")),  # noqa: DTZ001
    "a zoned moment": (dt.datetime(2026, 1, 2, tzinfo=dt.UTC), pa.timestamp("us", "UTC")),
    "a day": (dt.date(2026, 1, 2), pa.date32()),
    "a time of day": (dt.time(1, 2, 3, 4), pa.time64("us")),
    "a duration": (dt.timedelta(days=-1, microseconds=7), pa.duration("us")),
    "NULL": (None, pa.int64()),
}


@pytest.mark.parametrize("what", VALUES)
def test_literals_come_back_with_their_python_types(what: str) -> None:
    value, kind = VALUES[what]
    found = again(Literal(value, kind))
    assert found == Literal(value, kind)
    assert type(found.value) is type(value)


@pytest.mark.parametrize(
    "kind", [pa.decimal128(38, 3), pa.timestamp("us", "UTC"), pa.list_(pa.int32()), pa.struct([("a", pa.string())])]
)
def test_types_come_back_equal(kind: pa.DataType) -> None:
    assert again(Column("a", "b", kind)) == Column("a", "b", kind)


def test_tables_and_weights_come_back() -> None:
    schema = pa.schema([("k", pa.int64()), ("w", pa.int64())])
    for stream in (weft.Stream("t", schema, table=True), weft.Stream("t", schema, weight="w")):
        assert again(stream) == stream
