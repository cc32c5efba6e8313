"""One worker in one wave: store what came to be stored, answer what came to be probed, send on the rest.

In wave 1 rows of the streams arrive.  They are written as one new segment per store, and only then do probes
start, so that every probe meets a complete store.  In later waves tuples arrive that are on their way and are
handled as they come.  Hops to a store on the same worker are taken at once, without an envelope.

Bounded memory: matches are made in chunks, and handed on or written before the next chunk is made.  What is
held is the input of wave 1, a chunk per hop, and the pages of the segments that are touched.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from weft.expr.evaluate import evaluate
from weft.host.batch import Batch, Functions, Report, Results, State, bump
from weft.host.compaction import expired
from weft.host.crash import reach
from weft.host.envelope import REPORT, Envelope, Frame, join, slices
from weft.host.ingest import route
from weft.host.lookup import lookup
from weft.host.segment import SegmentRef
from weft.host.shelf import Shelf
from weft.topology.model import Edge, Emit, Probe, Start, Topology

GATHER = 131_072
"""Arriving tuples are answered in portions of about this many."""
GATHER_BYTES = 64 << 20


class Worker:
    """Worker `number` in micro-batch `batch`."""

    def __init__(
        self, topology: Topology, number: int, batch: Batch, state: State, functions: Functions, results: Results
    ) -> None:
        self.topology, self.number, self.batch = topology, number, batch
        self.state, self.functions, self.results = state, functions, results
        self.edges: dict[str, Edge] = {edge.id: edge for edge in topology.edges}
        self.starts: dict[str, Start] = {start.id: start for start in topology.starts}
        self.nexts: dict[str, Probe | Emit] = {probe.id: probe for probe in topology.probes}
        self.nexts |= {emit.id: emit for emit in topology.emits}
        self.report = Report()
        self.delta: dict[str, list[SegmentRef]] = defaultdict(list)
        self.old: dict[str, list[SegmentRef]] = defaultdict(list)
        for ref in batch.live.get(number, ()):
            if not expired(ref, topology.store(ref.store).retention, self._watermark(topology.store(ref.store).clock)):
                self.old[ref.store].append(ref)
        self._seq = number << 32
        self._sent = 0

    def run(self, wave: int, arrivals: Iterable[Envelope]) -> Iterator[Envelope]:
        """Everything this worker does in a wave."""
        reach(self.batch.crash, f"wave {wave} before", self.batch.number)
        began = time.perf_counter()
        yield from self._first(arrivals) if wave == 1 else self._later(arrivals)
        self.report.files = self.results.close()
        self.report.seconds[str(wave)] = time.perf_counter() - began
        reach(self.batch.crash, f"wave {wave} after", self.batch.number)
        yield self._envelope(self.number, REPORT, report=self.report.plain())

    def _first(self, arrivals: Iterable[Envelope]) -> Iterator[Envelope]:
        rows: dict[str, list[tuple[int, Frame]]] = defaultdict(list)
        for envelope in arrivals:
            if envelope.edge == REPORT:
                yield envelope
            else:
                rows[envelope.edge].append((envelope.seq, envelope.frame))
        frames = {edge: _ordered(found) for edge, found in sorted(rows.items())}
        shelf = Shelf(self.topology, self.number, self.batch, self.state, self.functions, self.report)
        for edge, found in frames.items():
            for store in self.edges[edge].stores:
                self.delta[store] = shelf.keep(store, found)
        self.state.note(self.batch.number, self.number, [ref for refs in self.delta.values() for ref in refs])
        for edge, found in frames.items():
            for start in self.edges[edge].starts:
                yield from self._start(self.starts[start], found)
        shelf.tidy(self.old, self.delta)

    def _later(self, arrivals: Iterable[Envelope]) -> Iterator[Envelope]:
        for ref in self.state.noted(self.batch.number, self.number):
            self.delta[ref.store].append(ref)
        waiting: dict[str, list[Frame]] = defaultdict(list)
        size: dict[str, float] = defaultdict(float)
        for envelope in arrivals:
            if envelope.edge == REPORT:
                yield envelope
                continue
            edge = envelope.edge
            waiting[edge].append(envelope.frame)
            size[edge] += _weight(envelope.frame)
            if size[edge] >= 1.0:
                size[edge] = 0.0
                yield from self._visit(self.nexts[edge], join(waiting.pop(edge)))
        for edge, frames in waiting.items():
            yield from self._visit(self.nexts[edge], join(frames))

    def _watermark(self, clock: str | None) -> int | None:
        return None if clock is None else self.batch.watermarks.get(clock)

    def _start(self, start: Start, frames: Sequence[Frame]) -> Iterator[Envelope]:
        names = [f"{start.alias}.{column}" for column in start.columns]
        for portion in _portions(frames):
            columns = [portion.column(column) for column in start.columns]
            yield from self._visit(self.nexts[start.then], pa.RecordBatch.from_arrays(columns, names=names))

    def _visit(self, node: Probe | Emit, frame: Frame) -> Iterator[Envelope]:
        """Hand the frame to a probe or an emit on this worker."""
        if frame.num_rows == 0:
            return
        if isinstance(node, Emit):
            self._emit(node, frame)
            return
        bump(self.report.probed, node.id, frame.num_rows)
        refs = [*self.old[node.store], *(self.delta[node.store] if node.sees_delta else ())]
        segments = [self.state.open(ref) for ref in refs]
        key = self.topology.store(node.store).indexes[node.index]
        following = self.nexts[node.then]
        for matches in lookup(node, key, frame, segments, self.functions):
            bump(self.report.matched, node.id, matches.num_rows)
            yield from self._forward(following, matches)

    def _forward(self, node: Probe | Emit, frame: Frame) -> Iterator[Envelope]:
        """Hand the frame on, here or by envelope."""
        if isinstance(node, Emit) or node.route == "local":
            yield from self._visit(node, frame)
            return
        for dest, part in route(frame, node.route, node.route_key, self.topology.workers, self.functions, self._sent):
            for piece in slices(part):
                bump(self.report.sent, node.id, piece.num_rows)
                yield self._envelope(dest, node.id, frame=piece)
        self._sent += frame.num_rows

    def _emit(self, emit: Emit, frame: Frame) -> None:
        columns = [evaluate(output.expr, frame, self.functions) for output in emit.outputs]
        bump(self.report.results, emit.query, frame.num_rows)
        self.results.write(emit.query, pa.RecordBatch.from_arrays(columns, names=[o.name for o in emit.outputs]))

    def _envelope(self, dest: int, edge: str, **content: object) -> Envelope:
        self._seq += 1
        return Envelope(dest, self._seq, edge, **content)  # type: ignore[arg-type]


def _ordered(found: list[tuple[int, Frame]]) -> list[Frame]:
    return [frame for _, frame in sorted(found, key=lambda entry: entry[0])]


def _portions(frames: Sequence[Frame]) -> Iterator[Frame]:
    """The frames gathered into larger ones."""
    waiting: list[Frame] = []
    for frame in frames:
        waiting.append(frame)
        if sum(map(_weight, waiting)) >= 1.0:
            yield join(waiting)
            waiting = []
    if waiting:
        yield join(waiting)


def _weight(frame: Frame) -> float:
    """How much of a portion the frame is."""
    return max(frame.num_rows / GATHER, frame.nbytes / GATHER_BYTES)
