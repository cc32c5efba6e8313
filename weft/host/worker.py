"""One worker in one wave: store what came to be stored, answer what came to be probed, send on the rest.

In wave 1 rows of the streams arrive.  They are written as one new segment per store, and only then do probes
start, so that every probe meets a complete store.  In later waves tuples arrive that are on their way and are
handled as they come.  Hops to a store on the same worker are taken at once, without an envelope.

Where the plan keeps intermediate results, order matters: what comes to be kept is kept first, then tuples go on by the
position of their origin, and what the tuples of one position leave in a store here is there for those of the next.
Envelopes of such a plan arrive sorted by `seq`, which begins with their rank in this order.  Tuples that have to wait
for a later wave are handed on unread.

Bounded memory: matches are made in chunks, and handed on or written before the next chunk is made.  What is
held is the input of wave 1, a chunk per hop, a portion per store, and the pages of the segments that are touched.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from weft.expr.evaluate import evaluate
from weft.host.batch import Batch, Functions, Report, Results, State
from weft.host.crash import reach
from weft.host.envelope import REPORT, Envelope, Frame, gathered, join, slices
from weft.host.lookup import lookup
from weft.host.routing import route
from weft.host.state.compaction import MOST_BYTES, expired
from weft.host.state.segment import SegmentRef
from weft.host.state.stores import Shelf
from weft.host.weights import cut, weight_of, weighted
from weft.observe.counters import bump
from weft.topology.model import FIRST, ROWS, Emit, Keep, Node, Probe, Start, Topology

GATHER = 131_072
"""Arriving tuples are answered in portions of about this many."""
GATHER_BYTES = 64 << 20
KEPT_BYTES = 128 << 20
"""Rows of an intermediate store are written in portions of about this many bytes."""


class Worker:
    """Worker `number` in micro-batch `batch`."""

    def __init__(
        self, topology: Topology, number: int, batch: Batch, state: State, functions: Functions, results: Results
    ) -> None:
        self.topology, self.number, self.batch = topology, number, batch
        self.state, self.functions, self.results = state, functions, results
        self.nodes = topology.nodes
        self.report = Report()
        self.shelf = Shelf(topology, number, batch, state, functions, self.report)
        self.delta: dict[tuple[str, str], list[SegmentRef]] = defaultdict(list)
        """(Store, origin) -> this batch's segments."""
        self.old: dict[str, list[SegmentRef]] = defaultdict(list)
        for ref in batch.live.get(number, ()):
            store = topology.store(ref.store)
            if not expired(ref, store.retention, self._watermark(store.clock)):
                self.old[ref.store].append(ref)
        self.wave = 1
        self._kept: dict[tuple[str, str], list[Frame]] = defaultdict(list)
        """(Store, origin) -> rows that are not written yet."""
        self._kept_bytes: dict[tuple[str, str], int] = defaultdict(int)
        self._seq = number << 32
        self._sent = 0

    def run(self, wave: int, arrivals: Iterable[Envelope]) -> Iterator[Envelope]:
        """Everything this worker does in a wave."""
        self.wave = wave
        reach(self.batch.crash, f"wave {wave} before", self.batch.number)
        began = time.perf_counter()
        yield from self._first(arrivals) if wave == 1 else self._later(arrivals)
        self._finish()
        self.report.files.extend(self.results.close())
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
        frames = {edge: gathered(_ordered(rows.pop(edge)), MOST_BYTES) for edge in sorted(rows)}
        for edge, found in frames.items():
            for store in self.topology.edge_by_id[edge].stores:
                self.delta[store, ROWS] = self.shelf.keep(store, ROWS, found)
        begin, edges = self.topology.start_by_id, self.topology.edge_by_id
        starts = [(begin[start], found) for edge, found in frames.items() for start in edges[edge].starts]
        position = FIRST
        for start, found in sorted(starts, key=lambda entry: entry[0].position):
            if start.position != position:
                self._write_kept()
                position = start.position
            yield from self._start(start, found)

    def _later(self, arrivals: Iterable[Envelope]) -> Iterator[Envelope]:
        for ref in self.state.noted(self.batch.number, self.number, self._noted(self.wave - 1)):
            self.delta[ref.store, ref.origin].append(ref)
        waiting: dict[str, list[Frame]] = defaultdict(list)
        size: dict[str, float] = defaultdict(float)
        position = FIRST
        for envelope in arrivals:
            if envelope.edge == REPORT or self.nodes[envelope.edge].wave > self.wave:
                yield envelope
                continue
            node = self.nodes[envelope.edge]
            if self.topology.keeps and node.position != position:
                yield from self._answer(waiting)
                self._write_kept()
                position = node.position
            waiting[node.id].append(envelope.frame)
            size[node.id] += _share(envelope.frame)
            if size[node.id] >= 1.0:
                size[node.id] = 0.0
                yield from self._visit(node, waiting.pop(node.id))
        yield from self._answer(waiting)

    def _answer(self, waiting: dict[str, list[Frame]]) -> Iterator[Envelope]:
        while waiting:
            node, frames = waiting.popitem()
            yield from self._visit(self.nodes[node], frames)

    def _finish(self) -> None:
        """Write what is left, tell later waves what there is, merge what is due."""
        self._write_kept()
        refs = [ref for found in self.delta.values() for ref in found]
        if self._noted(self.wave) == self.wave and self.wave < self.topology.waves:
            self.state.note(self.batch.number, self.number, self.wave, refs)
        if self.wave == 1:
            self.shelf.tidy(self.old, refs, [s.id for s in self.topology.stores if not s.members])
        if self.wave == self.topology.waves:
            self.shelf.tidy(self.old, refs, [s.id for s in self.topology.stores if s.members])
        self.state.settle()

    def _noted(self, wave: int) -> int:
        """The last wave up to this one that may have stored anything."""
        return wave if self.topology.keeps else 1

    def _watermark(self, clock: str | None) -> int | None:
        return None if clock is None else self.batch.watermarks.get(clock)

    # ------------------------------------------------------------------------------------------ tuples

    def _start(self, start: Start, frames: Sequence[Frame]) -> Iterator[Envelope]:
        names = [f"{start.label}.{column}" for column in start.columns]
        for portion in _portions(frames):
            columns = [portion.column(column) for column in start.columns]
            frame = weighted(pa.RecordBatch.from_arrays(columns, names=names), weight_of(portion))
            for name in start.then:
                node = self.nodes[name]
                yield from self._here(node, cut(frame, node.fields) if node.fields else frame)

    def _here(self, node: Node, frame: Frame) -> Iterator[Envelope]:
        """The frame is on the right worker; if it is too early it waits."""
        if node.wave <= self.wave:
            yield from self._visit(node, [frame])
        else:
            bump(self.report.routed, node.id, frame.num_rows)
            yield from self._post(node, [(self.number, frame)])

    def _visit(self, node: Node, frames: Sequence[Frame]) -> Iterator[Envelope]:
        """Hand the frames to a node on this worker, now."""
        match node:
            case Probe():
                yield from self._probe(node, join(frames))
            case Keep():
                self._keep(node, frames)
            case Emit():
                self._emit(node, frames)

    def _forward(self, node: Node, frame: Frame) -> Iterator[Envelope]:
        """Hand the frame on, here or by envelope."""
        if node.fields and len(node.fields) < frame.num_columns:
            frame = cut(frame, node.fields)
        if node.route == "local":
            yield from self._here(node, frame)
        else:
            bump(self.report.routed, node.id, frame.num_rows)
            places = route(frame, node.route, node.route_key, node.tasks, self.functions, self._sent)
            yield from self._post(node, places)
            self._sent += frame.num_rows

    def _post(self, node: Node, places: Iterable[tuple[int, Frame]]) -> Iterator[Envelope]:
        for dest, part in places:
            for piece in slices(part):
                bump(self.report.sent, node.id, piece.num_rows)
                bump(self.report.messages, node.id, 1)
                yield self._envelope(dest, node.id, frame=piece)

    # ------------------------------------------------------------------------------------------- nodes

    def _probe(self, probe: Probe, frame: Frame) -> Iterator[Envelope]:
        if frame.num_rows == 0:
            return
        bump(self.report.probed, probe.id, frame.num_rows)
        bump(self.report.load, str(self.number), frame.num_rows)
        refs = [*self.old[probe.store], *(ref for origin in probe.sees for ref in self.delta[probe.store, origin])]
        segments = [self.state.open(ref) for ref in refs]
        following = [self.nodes[name] for name in probe.then]
        for matches in lookup(probe, self.topology.store(probe.store), frame, segments, self.functions):
            bump(self.report.matched, probe.id, matches.num_rows)
            for after in following:
                yield from self._forward(after, matches)

    def _emit(self, emit: Emit, frames: Sequence[Frame]) -> None:
        names = [output.name for output in emit.outputs]
        for frame in frames:
            columns = [evaluate(output.expr, frame, self.functions) for output in emit.outputs]
            bump(self.report.results, emit.query, frame.num_rows)
            rows = weighted(pa.RecordBatch.from_arrays(columns, names=names), weight_of(frame))
            self.results.write(emit.query, rows)

    def _keep(self, keep: Keep, frames: Sequence[Frame]) -> None:
        self._kept[keep.store, keep.origin] += frames
        self._kept_bytes[keep.store, keep.origin] += sum(frame.nbytes for frame in frames)
        if self._kept_bytes[keep.store, keep.origin] >= KEPT_BYTES:
            self._write_kept()

    def _write_kept(self) -> None:
        for (store, origin), frames in sorted(self._kept.items()):
            done = self.delta[store, origin]
            done += self.shelf.keep(store, origin, frames, f"-w{self.wave}-{len(done)}")
        self._kept.clear()
        self._kept_bytes.clear()

    def _envelope(self, dest: int, edge: str, **content: object) -> Envelope:
        self._seq += 1
        rank = self.nodes[edge].position - FIRST if edge in self.nodes else 0
        return Envelope(dest, rank << 48 | self._seq, edge, **content)  # type: ignore[arg-type]


def _ordered(found: list[tuple[int, Frame]]) -> list[Frame]:
    return [frame for _, frame in sorted(found, key=lambda entry: entry[0])]


def _portions(frames: Sequence[Frame]) -> Iterator[Frame]:
    """The frames cut into portions that are answered together."""
    for frame in frames:
        step = max(1, int(frame.num_rows / max(1.0, _share(frame))))
        for start in range(0, frame.num_rows, step):
            yield frame.slice(start, step)


def _share(frame: Frame) -> float:
    """How much of a portion the frame is."""
    return max(frame.num_rows / GATHER, frame.nbytes / GATHER_BYTES)
