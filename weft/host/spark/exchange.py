"""Envelopes as Spark rows, and the task that runs one wave on one worker.

    dest INT, seq BIGINT, edge STRING, payload BINARY

Spark moves few, large, opaque rows.  Partition p after `repartitionById` is worker p.
"""

from __future__ import annotations

import functools
import gc
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext, cloudpickle

from weft.errors import HostError, WeftError, to_wire
from weft.host.batch import Batch, Functions, Watermarks
from weft.host.envelope import Envelope, pack, unpack
from weft.host.ingest import Ingest
from weft.host.results.staged import StagedResults
from weft.host.sources.feeds import Feeds
from weft.host.sources.source import Piece, Reader
from weft.host.state.manifest import FileState, announced
from weft.host.worker import Worker
from weft.topology.model import Topology

SMALL = 65_536
"""Payloads below this many bytes share a record batch."""
ARROW = pa.schema([("dest", pa.int32()), ("seq", pa.int64()), ("edge", pa.string()), ("payload", pa.binary())])


def to_rows(envelopes: Iterable[Envelope]) -> Iterator[pa.RecordBatch]:
    """Envelopes as record batches: large payloads alone and uncopied, small ones together."""
    small: list[tuple[Envelope, pa.Buffer]] = []
    for envelope in envelopes:
        payload = pack(envelope)
        if payload.size >= SMALL:
            yield _rows([envelope], _single(payload))
        else:
            small.append((envelope, payload))
        if len(small) >= 64:
            yield _together(small)
            small = []
    if small:
        yield _together(small)


def from_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[Envelope]:
    """Envelopes out of record batches; payloads are not copied."""
    for batch in batches:
        dests, seqs, edges = (batch.column(i).to_pylist() for i in range(3))
        payloads = batch.column(3)
        for i in range(batch.num_rows):
            yield unpack(dests[i], seqs[i], edges[i], payloads[i].as_buffer())


def _together(small: Sequence[tuple[Envelope, pa.Buffer]]) -> pa.RecordBatch:
    return _rows(
        [envelope for envelope, _ in small], pa.array([payload.to_pybytes() for _, payload in small], pa.binary())
    )


def _single(payload: pa.Buffer) -> pa.Array:
    offsets = pa.py_buffer(np.array([0, payload.size], dtype=np.int32))
    return pa.Array.from_buffers(pa.binary(), 1, [None, offsets, payload])


def _rows(envelopes: Sequence[Envelope], payloads: pa.Array) -> pa.RecordBatch:
    columns = ([e.dest for e in envelopes], [e.seq for e in envelopes], [e.edge for e in envelopes])
    arrays = [pa.array(column, kind) for column, kind in zip(columns, ARROW.types, strict=False)]
    return pa.RecordBatch.from_arrays([*arrays, payloads], schema=ARROW)


@functools.cache
def _freeze() -> None:
    """Spare all that is loaded from the garbage collection that Spark's daemon does after every task."""
    gc.freeze()


def spoken(task: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """Let Weft's errors survive the way through Spark's tracebacks."""

    @functools.wraps(task)
    def guarded(*args: Any, **kwargs: Any) -> Iterator[Any]:
        _freeze()
        try:
            yield from task(*args, **kwargs)
        except WeftError as error:
            raise RuntimeError(to_wire(error)) from error
        except Exception as error:
            lost = HostError(
                f"a worker failed: {type(error).__name__}: {error}",
                detail=traceback.format_exc(limit=-4),
                hint="nothing of this batch was committed; run again, and report it if it stays.",
            )
            raise RuntimeError(to_wire(lost)) from error

    return guarded


@dataclass(frozen=True)
class Shipment:
    """The plan as bytes, decoded once per process and plan."""

    content: bytes

    @staticmethod
    def of(topology: Topology, functions: Functions) -> Shipment:
        """Pack a plan and the user's functions."""
        return Shipment(cloudpickle.dumps((topology, dict(functions))))


@functools.lru_cache(maxsize=8)
def _opened(content: bytes) -> tuple[Topology, Functions]:
    plan: tuple[Topology, Functions] = cloudpickle.loads(content)
    return plan


@dataclass(frozen=True)
class WaveTask:
    """One wave on whatever worker this partition is."""

    plan: Any
    """Broadcast of a Shipment."""
    batch: Batch
    wave: int
    segments: str
    notes: str
    staging: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the wave."""
        return self._run(batches)

    @spoken
    def _run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        number = _partition()
        topology, functions = _opened(self.plan.value.content)
        state = FileState(self.segments, self.notes, self.batch.run)
        if self.wave == 1:
            state.forget(ref.name for refs in self.batch.live.values() for ref in refs)
        results = StagedResults(self.staging, self.batch.run, number, self.wave, topology)
        worker = Worker(topology, number, self.batch, state, functions, results)
        yield from to_rows(worker.run(self.wave, from_rows(batches)))


@dataclass(frozen=True)
class PackTask:
    """Wave 0: rows of a stream become envelopes, in whatever task reads them."""

    content: bytes
    """A pickled Ingest."""
    watermarks: str
    """Where the driver has left the watermarks of this batch."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack the rows of an ordinary Spark DataFrame."""
        rows = (("", batch) for batch in batches)
        return _packed(_open_ingest(self.content), rows, _partition(), announced(self.watermarks))


@spoken
def _packed(
    ingest: Ingest, rows: Iterable[tuple[str, pa.RecordBatch]], task: int, watermarks: Watermarks
) -> Iterator[pa.RecordBatch]:
    """Rows that come with where they are from, as envelopes."""
    yield from to_rows(ingest.run(rows, task, watermarks))


@dataclass(frozen=True)
class ReadTask:
    """Wave 0 of files: partition p reads share p.  Rows never pass through the JVM one by one."""

    feeds: Any
    """Broadcast of Feeds."""
    shares: Sequence[Sequence[Piece]]
    watermarks: str

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Read the share of this partition."""
        for _ in numbers:
            pass  # one row, which only makes the partition
        task = _partition()
        yield from read_share(self.feeds.value, self.shares[task], task, self.watermarks)


def read_share(feeds: Feeds, share: Sequence[Piece], task: int, watermarks: str) -> Iterator[pa.RecordBatch]:
    """Some files of all streams as envelopes."""
    marks = announced(watermarks)
    for stream, feed in feeds.by_stream.items():
        if mine := [piece for piece in share if piece.stream == stream]:
            ingest = _open_ingest(feed.content)
            yield from _packed(ingest, _read(feed.reader, mine, ingest), task, marks)


def _read(reader: Reader, share: Sequence[Piece], ingest: Ingest) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Rows with the file they come from."""
    for piece in share:
        for rows in reader.read(piece, ingest.columns, ingest.stream.schema):
            yield f" in {piece.file}", rows


def _partition() -> int:
    context = TaskContext.get()
    return context.partitionId() if context is not None else 0


@functools.lru_cache(maxsize=64)
def _open_ingest(content: bytes) -> Ingest:
    """The Ingest behind some bytes, decoded once per process."""
    ingest: Ingest = cloudpickle.loads(content)
    return ingest
