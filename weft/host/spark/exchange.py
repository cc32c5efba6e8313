"""Envelopes as Spark rows, the plan as bytes, and the task that runs one wave on one worker.

    dest INT, seq BIGINT, edge STRING, payload BINARY

Spark moves a few large rows, and does not look into the payload.  Partition p after `repartitionById` is worker p.
"""

from __future__ import annotations

import functools
import gc
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext, cloudpickle

from weft.errors import HostError, WeftError, to_wire
from weft.expr.evaluate import Functions
from weft.host.batch import Batch
from weft.host.envelope import Envelope, unpack
from weft.host.ingest import Ingest, ingests
from weft.host.results.staged import StagedResults
from weft.host.spark.parcels import Inbox, Outbox
from weft.host.state.place import Place
from weft.host.state.room import telling_room
from weft.host.worker import Worker
from weft.topology.model import Topology

SMALL = 65_536
"""Payloads below this many bytes share a record batch."""
ARROW = pa.schema([("dest", pa.int32()), ("seq", pa.int64()), ("edge", pa.string()), ("payload", pa.binary())])
Head = tuple[int, int, str]
"""A row without its payload."""


def to_rows(envelopes: Iterable[Envelope], folder: str | None) -> Iterator[pa.RecordBatch]:
    """Envelopes as record batches: each large payload alone and without a copy, small ones together.

    Of an envelope whose payload waits only the payload is kept: its tuples may lie in a file, and are many.
    """
    heads, small = list[Head](), list[bytes]()
    with Outbox(folder) as outbox:
        for envelope in envelopes:
            head, payload = (envelope.dest, envelope.seq, envelope.edge), outbox.put(envelope)
            if payload.size >= SMALL:
                yield _rows([head], single(payload))
                continue
            heads.append(head)
            small.append(payload.to_pybytes())
            if len(small) >= 64:
                yield _rows(heads, pa.array(small, pa.binary()))
                heads, small = [], []
    if small:
        yield _rows(heads, pa.array(small, pa.binary()))


def from_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[Envelope]:
    """The envelopes of record batches; payloads are not copied."""
    inbox = Inbox()
    for batch in batches:
        dests, seqs, edges = (batch.column(i).to_pylist() for i in range(3))
        payloads = batch.column(3)
        for i in range(batch.num_rows):
            yield unpack(dests[i], seqs[i], edges[i], inbox.get(payloads[i].as_buffer()))


def single(payload: pa.Buffer) -> pa.Array:
    """An array of one value, made without a copy."""
    offsets = pa.py_buffer(np.array([0, payload.size], dtype=np.int32))
    return pa.Array.from_buffers(pa.binary(), 1, [None, offsets, payload])


def _rows(heads: Sequence[Head], payloads: pa.Array) -> pa.RecordBatch:
    columns = zip(zip(*heads, strict=True), ARROW.types[:-1], strict=True)
    return pa.RecordBatch.from_arrays([*(pa.array(*column) for column in columns), payloads], schema=ARROW)


@functools.cache
def _freeze() -> None:
    """Exclude everything loaded so far from garbage collection, which Spark's daemon does after every task."""
    gc.freeze()


def wire_errors(task: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """Encode Weft's errors so that the driver can read them out of Spark's tracebacks."""

    @functools.wraps(task)
    def run(*args: Any, **kwargs: Any) -> Iterator[Any]:
        _freeze()
        try:
            with telling_room():
                yield from task(*args, **kwargs)
        except WeftError as error:
            raise RuntimeError(to_wire(error)) from error
        except Exception as error:
            lost = HostError(
                f"a worker failed: {type(error).__name__}: {error}",
                detail=traceback.format_exc(limit=-4),
                hint="nothing of this batch was committed; run again, and report the error if it comes back.",
            )
            raise RuntimeError(to_wire(lost)) from error

    return run


@dataclass(frozen=True)
class Shipment:
    """A plan as bytes.  Each process decodes a plan once."""

    content: bytes

    @staticmethod
    def of(topology: Topology, functions: Functions) -> Shipment:
        """Pack a plan and the user's functions."""
        return Shipment(cloudpickle.dumps((topology, dict(functions))))


@dataclass(frozen=True)
class Plan:
    """What the tasks of an epoch know: how streams are read, and what happens to their rows."""

    topology: Topology
    functions: Functions
    ingests: Mapping[str, Ingest]


def open_plan(shipment: Shipment) -> Plan:
    """The plan of a shipment."""
    return _open_once(shipment.content)


@functools.lru_cache(maxsize=8)
def _open_once(content: bytes) -> Plan:
    topology, functions = cloudpickle.loads(content)
    return Plan(topology, functions, ingests(topology, functions))


@dataclass(frozen=True)
class WaveTask:
    """One wave on one worker: the one with the number of this partition."""

    plan: Any
    """Broadcast of a Shipment."""
    batch: Batch
    wave: int
    place: Place
    staging: str
    """The folder of results, within the place."""
    parcels: str | None
    """The folder of large payloads."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the wave."""
        return self._run(batches)

    @wire_errors
    def _run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        number = partition()
        plan = open_plan(self.plan.value)
        state = self.place.state(self.batch.run)
        if self.wave == 1 and self.batch.level is None:  # a migration knows only some of the state
            state.forget(ref.name for refs in self.batch.live.values() for ref in refs)
        results = StagedResults(self.place, self.staging, self.batch, number, self.wave, plan.topology)
        worker = Worker(plan.topology, number, self.batch, state, plan.functions, results)
        yield from to_rows(worker.run(self.wave, from_rows(batches)), self.parcels)


def partition() -> int:
    """The number of this task's partition."""
    context = TaskContext.get()
    return context.partitionId() if context is not None else 0
