"""Sums and counts that do not fit are refused with the group, and large ones that fit are exact."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import weft
from weft.testing import Trial

LARGE = 10**25 - 1


def run(sql: str, strategy: Any = "auto", **tables: pa.Table) -> pa.Table:
    s = weft.Session(checkpoint="unused", workers=2)
    for name, rows in tables.items():
        s.stream(name, weft.read.batches([rows]))
    s.query("q", sql, strategy=strategy)
    trial = Trial(s)
    trial.feed(tables)
    return trial.table("q")


def rows(values: list[Any], kind: pa.DataType) -> pa.Table:
    return pa.table({"k": [7] * len(values), "v": pa.array(values, kind)})


@pytest.mark.parametrize(
    ("sql", "values", "kind", "said"),
    [
        ("SELECT k, SUM(v) AS s FROM a GROUP BY k", [2**62, 2**62], pa.int64(), "SUM is too large in group (7)"),
        ("SELECT SUM(v) AS s FROM a", [2**63 - 1, 1], pa.int64(), "SUM is too large in the only group"),
        ("SELECT k, SUM(v) AS s FROM a GROUP BY k", [-(2**63), -1], pa.int64(), "SUM is too large in group (7)"),
        ("SELECT k, SUM(v) AS s FROM a GROUP BY k", [Decimal(6 * 10**37)] * 2, pa.decimal128(38, 0), "in group (7)"),
        ("SELECT k, SUM(v) AS s FROM a GROUP BY k", [Decimal(9 * 10**37)] * 3, pa.decimal128(38, 0), "in group (7)"),
        ("SELECT SUM(v) AS s FROM a", [Decimal(9 * 10**37)] * 3, pa.decimal128(38, 0), "in the only group"),
    ],
)
def test_a_sum_that_does_not_fit_names_its_group(sql: str, values: list[Any], kind: pa.DataType, said: str) -> None:
    with pytest.raises(weft.HostError) as failed:
        run(sql, a=rows(values, kind))
    assert said in str(failed.value)
    assert failed.value.detail
    assert failed.value.hint


@pytest.mark.parametrize(("by", "said"), [("GROUP BY k", "in group (7)"), ("", "in the only group")])
def test_sums_that_fit_in_each_batch_and_not_together_name_their_group(by: str, said: str) -> None:
    batch = rows([Decimal(9 * 10**37)], pa.decimal128(38, 0))
    s = weft.Session(checkpoint="unused", workers=2)
    s.stream("a", weft.read.batches([batch]))
    s.query("q", f"SELECT SUM(v) AS s FROM a {by}")
    trial = Trial(s)
    trial.feed({"a": batch})
    assert trial.table("q").to_pylist() == [{"s": Decimal(9 * 10**37)}]
    with pytest.raises(weft.HostError) as failed:
        trial.feed({"a": batch})
    assert said in str(failed.value)


def test_sums_of_large_decimals_are_exact() -> None:
    made = run("SELECT SUM(v) AS s FROM a", a=rows([Decimal(LARGE)] * 20_000, pa.decimal128(25, 0)))
    assert made.to_pylist() == [{"s": Decimal(LARGE * 20_000)}]


def test_more_joined_rows_than_can_be_counted_are_refused() -> None:
    many = pa.table({"k": [1] * 3000})
    names = "abcdef"
    where = " AND ".join(f"a.k = {name}.k" for name in names[1:])
    with pytest.raises(weft.HostError, match="too large") as failed:
        run(
            f"SELECT a.k, COUNT(*) AS n FROM {', '.join(names)} WHERE {where} GROUP BY a.k",
            **dict.fromkeys(names, many),
        )
    assert failed.value.detail
    assert failed.value.hint


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT SUM(s) AS x FROM a",
        "SELECT AVG(s) AS x FROM a",
        "SELECT BOOL_AND(k) AS x FROM a",
        "SELECT SUM(t) AS x FROM a",
    ],
)
def test_arguments_of_a_wrong_type_are_refused_when_the_query_is_given(sql: str) -> None:
    s = weft.Session(checkpoint="unused", workers=2)
    schema = pa.schema([("k", pa.int64()), ("s", pa.string()), ("t", pa.timestamp("us"))])
    s.stream("a", weft.read.batches([schema.empty_table()]))
    with pytest.raises(weft.WeftError) as refused:
        s.query("q", sql)
    assert refused.value.detail
    assert refused.value.hint
