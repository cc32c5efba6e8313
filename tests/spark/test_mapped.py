"""Frames of envelopes are those of `mapInArrow`, made the short way or the long one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from weft.host.spark import mapped as module
from weft.host.spark.exchange import ARROW
from weft.host.spark.mapped import ENVELOPES, NUMBERS, mapped
from weft.host.spark.reader import SCHEMA

pytestmark = pytest.mark.spark


@dataclass(frozen=True)
class Number:
    """One envelope for each row, with its number and what a broadcast says."""

    told: Any

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            ids, count = batch.column(0), batch.num_rows
            columns = [
                ids.cast(pa.int32()),
                ids.cast(pa.int64()),
                pa.array(["e"] * count),
                pa.array([self.told.value] * count),
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=ARROW)


def twice(spark: SparkSession, told: Any) -> DataFrame:
    frame = mapped(spark.range(0, 6, 1, 3), Number(told), NUMBERS)
    return mapped(frame.repartitionById(2, "dest"), Number(told), ENVELOPES)


def test_the_short_way_makes_the_frame_of_the_long_one(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    told = spark.sparkContext.broadcast(b"told")
    called = list[str]()
    kind = type(spark.range(1))
    long = kind.mapInArrow
    monkeypatch.setattr(kind, "mapInArrow", lambda *args: called.append("long") or long(*args))
    short = twice(spark, told)
    assert called == []

    def missing(*_: object) -> None:
        raise TypeError("no such class")

    monkeypatch.setattr(module, "_known", missing)
    other = twice(spark, told)
    assert called == ["long", "long"]
    assert short.schema == other.schema == SCHEMA
    found = sorted(map(tuple, short.collect()))
    assert found == sorted(map(tuple, other.collect())) == [(n, n, "e", b"told") for n in range(6)]
