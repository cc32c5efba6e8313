"""Wave 0 of a migration on Spark: rows of old segments become envelopes, read by tasks that share the pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from weft.host.batch import Batch
from weft.host.migration.reread import Piece, Rereading
from weft.host.spark.exchange import open_plan, partition, to_rows, wire_errors
from weft.host.spark.mapped import NUMBERS, mapped
from weft.host.spark.reading import Reading
from weft.host.state.place import Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class OldRows(Reading):
    """Pieces of segments, divided among tasks."""

    spark: SparkSession
    place: Place
    shares: Sequence[Sequence[Piece]]

    def envelopes(self, plan: Any, batch: Batch, parcels: str | None) -> DataFrame:  # noqa: ARG002 - not late
        """Partition p reads share p."""
        count = len(self.shares)
        task = RereadTask(plan, self.place, self.shares, parcels)
        return mapped(self.spark.range(0, count, 1, count), task, NUMBERS)


@dataclass(frozen=True)
class RereadTask:
    """Reads one share."""

    plan: Any
    place: Place
    shares: Sequence[Sequence[Piece]]
    parcels: str | None

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the share of this partition."""
        for _ in numbers:
            pass  # a single row, which is there only to make the partition
        return self._read(partition())

    @wire_errors
    def _read(self, task: int) -> Iterator[pa.RecordBatch]:
        plan, files = open_plan(self.plan.value), self.place.state()
        reading = Rereading.of(plan.topology, plan.functions)
        mine = ((piece, files.open(piece.ref)) for piece in self.shares[task])
        yield from to_rows(reading.envelopes(mine, task), self.parcels)
