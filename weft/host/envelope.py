"""What travels between waves: a destination, a label, and many tuples at once.

`edge` says what the receiver does with it: an edge id of the topology (rows of a stream), a node id (tuples that
are partly joined), or REPORT (counters for the driver, passed on unread by every wave).  `seq` orders the envelopes
of one batch in the same way in every run, so that a repeated batch writes the same state.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from weft.host.hidden import level
from weft.host.narrow import narrowed, widened

REPORT = "#report"
PAYLOAD_ROWS = 65_536
"""At most this many tuples in one payload."""
PAYLOAD_BYTES = 8 << 20
"""Payloads are cut near this many bytes."""


Frame: TypeAlias = pa.RecordBatch
"""Tuples in columns; fields are called "label.column", or "column" for rows of a stream."""


@dataclass(slots=True)
class Envelope:
    """A payload for one worker."""

    dest: int
    seq: int
    edge: str
    frame: Frame | None = None
    report: dict[str, Any] | None = None


def pack(envelope: Envelope) -> pa.Buffer:
    """The payload of an envelope as bytes."""
    if envelope.frame is None:
        return pa.py_buffer(pickle.dumps(envelope.report, protocol=pickle.HIGHEST_PROTOCOL))
    sink = pa.BufferOutputStream()
    write(narrowed(envelope.frame), sink)
    return sink.getvalue()


def write(frame: Frame, sink: pa.NativeFile) -> None:
    """Write tuples as the payload of an envelope."""
    with pa.ipc.new_stream(sink, frame.schema) as writer:
        writer.write_batch(frame)


def unpack(dest: int, seq: int, edge: str, payload: pa.Buffer) -> Envelope:
    """The envelope around a payload of :func:`pack`; of tuples only columns that travelled narrow are copied."""
    if edge == REPORT:
        return Envelope(dest, seq, edge, report=pickle.loads(payload))
    with pa.ipc.open_stream(pa.BufferReader(payload)) as reader:
        return Envelope(dest, seq, edge, frame=widened(reader.read_next_batch()))


def slices(frame: Frame) -> Iterator[Frame]:
    """The frame cut into pieces that fit a payload."""
    if frame.num_rows == 0:
        return
    width = max(1, frame.nbytes // frame.num_rows)
    step = int(max(1, min(PAYLOAD_ROWS, PAYLOAD_BYTES // width)))
    for start in range(0, frame.num_rows, step):
        yield frame.slice(start, step)


def join(frames: Sequence[Frame]) -> Frame:
    """One frame with the rows of several, which have the same columns."""
    return frames[0] if len(frames) == 1 else pa.concat_batches(level(frames))


def gather(frames: Sequence[Frame], most: int) -> list[Frame]:
    """Join frames of one schema into few, each of at most about `most` bytes."""
    groups: list[list[Frame]] = []
    room = 0
    for frame in frames:
        size = frame.nbytes
        if not groups or size > room:  # columns of NULL have no bytes
            groups.append([])
            room = most
        groups[-1].append(frame)
        room -= size
    return [join(group) for group in groups]
