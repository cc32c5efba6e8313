"""Old rows become envelopes again: wave 0 of a migration.

Rows are read from segments instead of sources.  They are selected, cut and routed as an edge of the new plan says.
What must hold: a row that lies on several workers is read once, and rows that the new plan would have dropped by now
are left behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from weft.expr.evaluate import Functions, filter_mask
from weft.host.envelope import Envelope, Frame, slices
from weft.host.hidden import cut
from weft.host.ingest import event_times, event_values
from weft.host.routing import TOGETHER, along
from weft.host.state.segment import Segment, SegmentRef
from weft.query.model import COPY, TIME, Stream
from weft.topology.model import Edge, Topology

PIECE_ROWS = 250_000
"""Segments are read in pieces of about this many rows, by different tasks."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows of an old segment, and the edge that sends them on."""

    edge: str
    ref: SegmentRef
    start: int
    rows: int
    oldest: int | None
    """Rows with an earlier event time are left behind; None if all are wanted."""


def pieces(edge: Edge, refs: Iterable[SegmentRef], oldest: int | None) -> Iterator[Piece]:
    """Old segments, cut into pieces that different tasks can read."""
    for ref in refs:
        for start in range(0, ref.rows, PIECE_ROWS):
            yield Piece(edge.id, ref, start, min(PIECE_ROWS, ref.rows - start), oldest)


def share(found: Sequence[Piece], tasks: int) -> list[list[Piece]]:
    """The pieces, dealt to tasks so that each has about as many rows."""
    shares: list[list[Piece]] = [[] for _ in range(max(1, min(tasks, len(found))))]
    load = [0] * len(shares)
    for piece in sorted(found, key=lambda piece: -piece.rows):
        at = load.index(min(load))
        shares[at].append(piece)
        load[at] += piece.rows
    return shares


@dataclass(frozen=True)
class Rereading:
    """Sends old rows along the edges of a plan."""

    edges: Mapping[str, Edge]
    streams: Mapping[str, Stream]
    functions: Functions
    together: frozenset[str]
    """Streams whose rows must come together, derived ones too: tables that change."""

    @staticmethod
    def of(topology: Topology, functions: Functions) -> Rereading:
        """What sends old rows along the edges of a plan."""
        streams = {stream.name: stream for stream in topology.streams}
        changing = (stream.name for stream in (*topology.streams, *topology.derived) if stream.is_looked_up)
        return Rereading(topology.edge_by_id, streams, functions, frozenset(changing))

    def envelopes(self, found: Iterable[tuple[Piece, Segment]], task: int) -> Iterator[Envelope]:
        """Envelopes of the rows of some pieces."""
        seq, row = task << 32, task
        for piece, segment in found:
            edge = self.edges[piece.edge]
            rows = self._select(segment.rows.slice(piece.start, piece.rows), edge, piece.oldest)
            number = TOGETHER if edge.stream in self.together else row
            for dest, part in along(edge, rows, self.functions, number) if rows.num_rows else ():
                for payload in slices(cut(part, edge.columns)):
                    yield Envelope(dest, seq, edge.id, payload)
                    seq += 1
            row += rows.num_rows

    def _select(self, rows: Frame, edge: Edge, oldest: int | None) -> Frame:
        if COPY in rows.schema.names:
            rows = rows.filter(pc.invert(rows.column(COPY)))
            rows = rows.select([name for name in rows.schema.names if name != COPY])
        if TIME not in rows.schema.names and (TIME in edge.columns or oldest is not None):
            rows = self._stamp(rows, self.streams[edge.stream])
        if _lacks_values(rows, edge, self.streams):
            stream = self.streams[edge.stream]
            rows = rows.append_column(stream.event_time, event_values(rows.column(TIME), stream))
        if oldest is not None:
            rows = rows.filter(pc.greater_equal(rows.column(TIME), oldest))
        return rows.filter(filter_mask(edge.filter, rows, self.functions)) if edge.filter and rows.num_rows else rows

    def _stamp(self, rows: Frame, stream: Stream) -> Frame:
        """The rows with their event time; those without one are in no window."""
        assert stream.event_time is not None
        times: pa.Array = event_times(rows.column(stream.event_time), stream)
        return rows.append_column(TIME, times).filter(pc.is_valid(times))


def _lacks_values(rows: Frame, edge: Edge, streams: Mapping[str, Stream]) -> bool:
    """Whether rows have their event time in microseconds only."""
    name = streams[edge.stream].event_time if edge.stream in streams else None
    return name is not None and TIME in rows.schema.names and name not in rows.schema.names
