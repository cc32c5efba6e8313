"""Wave 0 on Spark: the input of a batch becomes envelopes.

Streams that Weft reads at its own pace come as pieces, divided among tasks.  Streams that Spark brings come as rows,
packed into a few large payloads that Spark does not look into.  The plan (a broadcast) and the watermarks are sent with
each batch.  So the next batch may have another plan.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from pyspark import cloudpickle

from weft.host.batch import Batch
from weft.host.envelope import PAYLOAD_BYTES, PAYLOAD_ROWS
from weft.host.ingest import Ingest
from weft.host.parts import number
from weft.host.sources.feeds import Feeds
from weft.host.sources.source import Piece
from weft.host.spark.exchange import Plan, open_plan, partition, single, to_rows, wire_errors
from weft.host.spark.mapped import NUMBERS, mapped
from weft.host.spark.reader import RAW
from weft.observe.notice import Notice

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Reading(Protocol):
    """The input of a batch, before it is read."""

    @property
    def lag(self) -> Mapping[str, Mapping[str, int]]:
        """Stream -> partition -> records that wait behind the batch, as far as that is known."""
        return {}

    @property
    def notices(self) -> Sequence[Notice]:
        """What the batch has to say about its sources."""
        return ()

    def envelopes(self, plan: Any, batch: Batch, parcels: str | None) -> DataFrame:
        """Wave 0 of the batch under a plan (a broadcast Shipment); `parcels` is the folder of large payloads."""
        ...


@dataclass(frozen=True)
class Shares:
    """Pieces of streams that are read at our own pace, divided among tasks."""

    spark: SparkSession
    feeds: Any
    """Broadcast of Feeds."""
    shares: Sequence[Sequence[Piece]]
    lag: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    notices: Sequence[Notice] = ()

    def envelopes(self, plan: Any, batch: Batch, parcels: str | None) -> DataFrame:
        """Partition p reads share p.  Rows never pass through the JVM one by one."""
        count = len(self.shares)
        task = ReadTask(plan, _without_state(batch), parcels, self.feeds, self.shares)
        return mapped(self.spark.range(0, count, 1, count), task, NUMBERS)


@dataclass(frozen=True)
class SparkRows(Reading):
    """Input that comes through Spark: rows of streams, or pieces of files."""

    frame: DataFrame
    feeds: Feeds

    def envelopes(self, plan: Any, batch: Batch, parcels: str | None) -> DataFrame:
        """Every partition turns its rows and pieces into envelopes."""
        return mapped(self.frame, IngestTask(plan, _without_state(batch), parcels, self.feeds), RAW.names)


def _without_state(batch: Batch) -> Batch:
    """The batch without the names of segments: who reads input does not need them."""
    return replace(batch, live={})


@dataclass(frozen=True)
class ReadTask:
    """Wave 0 of streams that are read at our own pace."""

    plan: Any
    batch: Batch
    parcels: str | None
    feeds: Any
    shares: Sequence[Sequence[Piece]]

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the share of this partition."""
        for _ in numbers:
            pass  # a single row, which is there only to make the partition
        task, feeds = partition(), self.feeds.value
        pieces = sorted(self.shares[task], key=lambda piece: piece.stream)
        inputs = ((piece.stream, feeds, piece) for piece in pieces)
        return _ingest(open_plan(self.plan.value), inputs, task, self.batch, self.parcels)


@dataclass(frozen=True)
class IngestTask:
    """Wave 0 of input that comes through Spark."""

    plan: Any
    batch: Batch
    parcels: str | None
    feeds: Feeds

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the rows and pieces of this partition."""
        return _ingest(open_plan(self.plan.value), self._inputs(batches), partition(), self.batch, self.parcels)

    def _inputs(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Input]:
        for batch in batches:
            streams, kinds, payloads = batch.column(0).to_pylist(), batch.column(1).to_pylist(), batch.column(2)
            for stream, kind, payload in zip(streams, kinds, payloads, strict=True):
                if kind == "piece":
                    yield stream, self.feeds, cloudpickle.loads(payload.as_py())
                else:
                    yield stream, None, payload.as_buffer()


Input = tuple[str, Feeds | None, Any]
"""A stream; then the feeds and a piece that they can read, or None and rows as bytes."""


@wire_errors
def _ingest(
    plan: Plan, inputs: Iterable[Input], task: int, batch: Batch, parcels: str | None
) -> Iterator[pa.RecordBatch]:
    """All inputs of a task as envelopes; inputs of one stream must follow each other."""
    for stream, mine in itertools.groupby(inputs, key=itemgetter(0)):
        ingest = plan.ingests.get(stream)
        if ingest is None:
            continue  # no query reads it now
        rows = _rows_of(mine, ingest)
        found = ingest.run(rows, task, batch.watermarks, batch.number, batch.now, batch.sample)
        yield from to_rows(found, parcels)


def _rows_of(inputs: Iterable[Input], ingest: Ingest) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Rows, with the place they come from, for errors."""
    for stream, feeds, found in inputs:
        if feeds is None:
            with pa.ipc.open_stream(pa.BufferReader(found)) as reader:
                for rows in reader:
                    yield "", rows
        else:
            first = found.order << 40
            for rows in feeds.by_stream[stream].reader.read(found, ingest.columns, ingest.stream.source):
                yield f" in {found.file}", number(rows, first)
                first += rows.num_rows


@dataclass(frozen=True)
class RowsTask:
    """Packs rows of a Spark DataFrame into a few large payloads."""

    stream: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack all rows of a partition."""
        waiting: list[pa.RecordBatch] = []
        rows = size = 0  # counted as they come: Spark hands over a few dozen rows at a time
        for batch in batches:
            waiting.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows >= PAYLOAD_ROWS or size >= PAYLOAD_BYTES:
                yield self._pack(waiting)
                waiting, rows, size = [], 0, 0
        if waiting:
            yield self._pack(waiting)

    def _pack(self, batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batches[0].schema) as writer:
            writer.write_batch(pa.concat_batches(batches))
        columns = [pa.array([self.stream]), pa.array(["rows"]), single(sink.getvalue())]
        return pa.RecordBatch.from_arrays(columns, names=["stream", "kind", "payload"])
