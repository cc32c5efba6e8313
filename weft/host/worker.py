"""One worker in one wave: stores rows, answers probes, and sends the matches on.

Terms: the way of a tuple is the sequence of nodes (probes, keeps, emits) it passes.  A hop is one step of a way, from a
node to the next.

In wave 1 rows of the streams arrive.  They are written as one new segment per store.  Only then do probes start, so
that every probe sees a complete store.  In later waves partly joined tuples arrive and are handled in order of arrival.
Rows of derived streams arrive in later waves, and are stored and start there in the same way.
A hop to a store on the same worker is taken at once, without an envelope.

Why every result comes once although all new rows are stored before any probe: a probe sees all rows of earlier
batches (`old`), but of this batch (`delta`) only those whose origin is in `probe.sees`.  The planner fills `sees` so
that every combination is made by its newest member only (`weft.topology.model`).

Where the plan keeps intermediate results, order matters.  Rows for intermediate stores are stored first.  Then tuples
go on by the position of their origin.  What the tuples of one position store here is visible to those of the next
position.  So pending rows are written whenever the position changes (`_write_kept`), and envelopes of such a plan
arrive sorted by `seq`, which begins with their rank in this order.  Tuples of a later wave are passed on unread.

Bounded memory: matches are made in chunks, and each chunk is sent or written before the next one is made.  In memory
are the input of wave 1, a chunk per hop, a portion per store, and the pages of the segments that are touched.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa

from weft.expr.apart import apart
from weft.expr.evaluate import Functions, evaluate, filter_mask
from weft.host.arrived import Arrived
from weft.host.batch import Batch, Report, ResultWriter, State
from weft.host.crash import reach
from weft.host.envelope import REPORT, Envelope, Frame, join, slices
from weft.host.groups.folding import Folding
from weft.host.groups.owner import GroupOwner
from weft.host.groups.travel import measured, without_measures
from weft.host.hidden import carry_over, cut
from weft.host.ingest import derived_ingests
from weft.host.lookup import look_up, lookup
from weft.host.marks import refuse
from weft.host.portions import Waiting, portions
from weft.host.routing import TOGETHER, route
from weft.host.state.compaction import horizon, is_expired
from weft.host.state.segment import Segment, SegmentRef
from weft.host.state.stores import Stores
from weft.host.subscriptions.book import Book, open_book
from weft.host.subscriptions.match import is_wanted, match
from weft.host.weights import attach_weights, weight_of
from weft.observe.counters import bump
from weft.topology.matching import Sieve
from weft.topology.model import Start, Topology
from weft.topology.node import FIRST, ROWS, Emit, Keep, Node, Probe

KEEP_BYTES = 128 << 20
"""Rows of an intermediate store are written in portions of about this many bytes."""


Begun = tuple[Start, Sequence[Frame]]
"""Tuples that begin their way."""
GoOn = Callable[[Node, Frame], Iterator[Envelope]]
"""What happens to tuples next."""


class Worker:
    """Worker `number` in micro-batch `batch`."""

    def __init__(
        self, topology: Topology, number: int, batch: Batch, state: State, functions: Functions, results: ResultWriter
    ) -> None:
        self.topology, self.number, self.batch = topology, number, batch
        self.state, self.functions, self.results = state, functions, results
        self.nodes = topology.nodes
        self.report = Report()
        self.stores = Stores(topology, number, batch, state, functions, self.report)
        self.delta: dict[tuple[str, str], list[SegmentRef]] = defaultdict(list)
        """(Store, origin) -> this batch's segments."""
        self.old: dict[str, list[SegmentRef]] = defaultdict(list)
        limits = {store.id: horizon(store, batch.marks_for(store)) for store in topology.stores}
        for ref in batch.live.get(number, ()):
            if not is_expired(ref, limits[ref.store]):
                self.old[ref.store].append(ref)
        self.wave = 1
        self.waiting, self.arrived = Folding(), Folding()
        """Tuples that wait for equal ones: before they are sent, and where they have come."""
        self.owned = GroupOwner(topology, number, batch, functions, self.report)
        self.derived = derived_ingests(topology, functions)
        self._kept: dict[tuple[str, str], list[Frame]] = defaultdict(list)
        """(Store, origin) -> rows that are not written yet."""
        self._kept_bytes: dict[tuple[str, str], int] = defaultdict(int)
        self._seq = number << 32
        self._sent = 0

    def run(self, wave: int, arrivals: Iterable[Envelope]) -> Iterator[Envelope]:
        """Do everything this worker does in a wave, and yield what it sends."""
        self.wave, self._seq = wave, self.number << 32 | wave << 26
        reach(self.batch.crash, f"wave {wave} before", self.batch.number)
        began = time.perf_counter()
        yield from self._first(arrivals) if wave == 1 else self._later(arrivals)
        for emit in self.owned.emits:
            if (parts := self.owned.pending(emit)) is not None:
                yield from self._send_parts(emit, parts)
        yield from self._settle_groups()
        self._finish()
        self.report.files.extend(self.results.close())
        self.report.seconds[str(wave)] = time.perf_counter() - began
        if self.state.fetched:
            bump(self.report.fetched, str(self.number), self.state.fetched)
        reach(self.batch.crash, f"wave {wave} after", self.batch.number)
        yield self._envelope(self.number, REPORT, report=self.report.plain())

    def _first(self, arrivals: Iterable[Envelope]) -> Iterator[Envelope]:
        rows = Arrived(self.topology)
        for envelope in arrivals:
            if envelope.edge == REPORT or self._is_early(envelope):
                yield envelope
            elif not rows.take(envelope, 1):  # groups that come again, in a migration
                yield from self._visit(self.nodes[envelope.edge], [envelope.frame])
        yield from self._begin(self._store(rows))

    def _later(self, arrivals: Iterable[Envelope]) -> Iterator[Envelope]:
        for ref in self.state.recall(self.batch.number, self.number, self._last_storing_wave(self.wave - 1)):
            self.delta[ref.store, ref.origin].append(ref)
        waiting, rows, starts = Waiting(), Arrived(self.topology), list[Begun]()
        position = FIRST
        for envelope in arrivals:
            if envelope.edge == REPORT or self._is_early(envelope):
                yield envelope
                continue
            if rows.take(envelope, self.wave):
                continue
            node = self.nodes[envelope.edge]
            if self.topology.stores_late and node.position != position:
                yield from self._answer(waiting)
                yield from self._go_on()
                self._write_kept()
                starts += self._store(rows)
                position = node.position
                yield from self._begin(starts, position)
            if node.gathers and isinstance(node, Probe):  # parts of groups have been gathered before they were sent
                yield from self._arrive(node, envelope.frame)
            elif (frames := waiting.add(node.id, envelope.frame)) is not None:
                yield from self._visit(node, frames)
        yield from self._answer(waiting)
        yield from self._go_on()
        self._write_kept()
        starts += self._store(rows)
        yield from self._begin(starts)

    def _is_early(self, envelope: Envelope) -> bool:
        """Whether an envelope is for a later wave."""
        place = self.nodes.get(envelope.edge) or self.topology.edge_by_id[envelope.edge]
        return place.wave > self.wave

    def _store(self, rows: Arrived) -> list[Begun]:
        """Store rows of streams that have come; return what starts with them, by position."""
        frames = rows.pop()
        for edge, found in frames.items():
            for store in self.topology.edge_by_id[edge].stores:
                self.delta[store, ROWS] = self.stores.keep(store, ROWS, found)
        begin, edges = self.topology.start_by_id, self.topology.edge_by_id
        starts = [(begin[start], found) for edge, found in frames.items() for start in edges[edge].starts]
        return sorted(starts, key=lambda entry: entry[0].position)

    def _begin(self, starts: list[Begun], before: int | None = None) -> Iterator[Envelope]:
        """Let tuples start, by position: all of them, or those whose position comes before one."""
        position = FIRST
        while starts and (before is None or starts[0][0].position < before):
            start, found = starts.pop(0)
            if start.position != position:
                yield from self._go_on()
                self._write_kept()
                position = start.position
            yield from self._start(start, found)
        yield from self._go_on()

    def _answer(self, waiting: Waiting) -> Iterator[Envelope]:
        for node, frames in waiting.rest():
            yield from self._visit(self.nodes[node], frames)

    def _finish(self) -> None:
        """Write pending rows, note new segments for later waves, merge the segments that are due.

        Stores of inputs are complete after wave 1, all others after the last wave: each is merged then.
        """
        late = self.topology.late_stores
        self._write_kept()
        refs = [ref for found in self.delta.values() for ref in found]
        if self._last_storing_wave(self.wave) == self.wave and self.wave < self.topology.waves:
            self.state.note(self.batch.number, self.number, self.wave, refs)
        if self.wave == 1:
            self.stores.tidy(self.old, refs, [s.id for s in self.topology.stores if s.id not in late])
        if self.wave == self.topology.waves:
            self.stores.tidy(self.old, refs, [s.id for s in self.topology.stores if s.id in late])
        self.state.settle()

    def _last_storing_wave(self, wave: int) -> int:
        """The last wave, up to this one, in which rows may have been stored."""
        return wave if self.topology.stores_late else 1

    # ------------------------------------------------------------------------------------------ tuples

    def _start(self, start: Start, frames: Sequence[Frame]) -> Iterator[Envelope]:
        names = [f"{start.label}.{column}" for column in start.columns]
        for portion in portions(frames):
            if start.filter:
                portion = portion.filter(filter_mask(start.filter, portion, self.functions))
            columns = [portion.column(column) for column in start.columns]
            frame = measured(
                carry_over(pa.RecordBatch.from_arrays(columns, names=names), portion), start, self.functions
            )
            for name in start.then:
                node = self.nodes[name]
                if (fitting := self._fit(node, frame)).num_rows:
                    yield from self._arrive(node, fitting)

    def _arrive(self, node: Node, frame: Frame) -> Iterator[Envelope]:
        """Visit a node where the tuples are; first they may wait for equal ones."""
        yield from self._wait(node, frame, self.arrived, self._here) if node.gathers else self._here(node, frame)

    def _here(self, node: Node, frame: Frame) -> Iterator[Envelope]:
        """Visit a node on this worker: now, or by an envelope to ourselves if the node belongs to a later wave."""
        if node.wave <= self.wave:
            yield from self._visit(node, [frame])
        else:
            bump(self.report.routed, node.id, frame.num_rows)
            yield from self._post(node, [(self.number, frame)])

    def _visit(self, node: Node, frames: Sequence[Frame]) -> Iterator[Envelope]:
        """Hand the frames to a node on this worker now."""
        match node:
            case Probe():
                yield from self._probe(node, join(frames))
            case Keep():
                self._keep(node, frames)
            case Emit() if node.groups is not None:
                self.owned.take(node, frames)
            case Emit():
                yield from self._emit(node, frames)

    def _forward(self, node: Node, frame: Frame) -> Iterator[Envelope]:
        """Hand the frame to the next node, here or by envelope."""
        frame = self._fit(node, frame)
        if frame.num_rows:
            yield from self._wait(node, frame, self.waiting, self._go) if node.gathers else self._go(node, frame)

    def _go(self, node: Node, frame: Frame) -> Iterator[Envelope]:
        if node.route == "local":
            yield from self._here(node, frame)
        else:
            bump(self.report.routed, node.id, frame.num_rows)
            kept = isinstance(node, Keep) and node.store in self.topology.looked_up
            row = TOGETHER if kept else self._sent
            places = route(frame, node.route, node.route_key, node.tasks, self.functions, row)
            yield from self._post(node, places)
            self._sent += frame.num_rows

    def _wait(self, node: Node, frame: Frame, place: Folding, then: GoOn) -> Iterator[Envelope]:
        """Let tuples wait for others that are equal; go on when there are many that are not."""
        if isinstance(node, Emit):
            if (parts := self.owned.part(node, frame)) is not None:
                yield from self._send_parts(node, parts)
        elif (ready := place.add(node.id, frame)) is not None:
            yield from then(node, ready)

    def _go_on(self) -> Iterator[Envelope]:
        """Let all tuples go on that wait for equal ones, those with the longest way first."""
        depth = self.topology.depth
        while True:
            if (found := self.arrived.first(depth)) is not None:
                yield from self._here(self.nodes[found[0]], found[1])
            elif (found := self.waiting.first(depth)) is not None:
                yield from self._go(self.nodes[found[0]], found[1])
            else:
                return

    def _fit(self, node: Node, frame: Frame) -> Frame:
        """What a node needs of the frame: its fields, of the rows that are in time for one of its users."""
        frame = without_measures(refuse(frame, self.topology.clocks_at[node.id]), self.topology.measures_at[node.id])
        if isinstance(node, Probe) and node.sieve is not None and frame.num_rows:
            frame = self._sift(node.sieve, frame)
        return cut(frame, node.fields) if node.fields and len(node.fields) < frame.num_columns else frame

    def _sift(self, sieve: Sieve, frame: Frame) -> Frame:
        """The tuples that a subscription may want."""
        values = [evaluate(expr, frame, self.functions) for _, expr in sieve.known]
        book = self._book(self.topology.emit_of[sieve.query])
        return frame.filter(pa.array(is_wanted(book, [place for place, _ in sieve.known], values)))

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
        for matches in self._find(probe, frame, segments):
            bump(self.report.matched, probe.id, matches.num_rows)
            for after in following:
                yield from self._forward(after, matches)

    def _find(self, probe: Probe, frame: Frame, segments: Sequence[Segment]) -> Iterator[Frame]:
        """All matches of some tuples."""
        store = self.topology.store(probe.store)
        if probe.store not in self.topology.looked_up:
            return lookup(probe, store, frame, segments, self.functions)
        return look_up(probe, store, frame, segments, self.functions, probe.origin in self.topology.tables)

    def _emit(self, emit: Emit, frames: Sequence[Frame]) -> Iterator[Envelope]:
        names = [output.name for output in emit.outputs]
        for frame in frames:
            columns, came = apart([output.expr for output in emit.outputs], frame, self.functions)
            weights = weight_of(frame)
            weights = weights if came is None or weights is None else weights.take(came)
            rows = attach_weights(pa.RecordBatch.from_arrays(columns, names=names), weights)
            for found in [rows] if emit.matching is None else match(self._book(emit), rows, self.functions):
                yield from self._give(emit, found)

    def _give(self, emit: Emit, rows: Frame) -> Iterator[Envelope]:
        """Give results out, or hand them to the derived stream whose rows they are."""
        if not emit.into:
            bump(self.report.results, emit.query, rows.num_rows)
            self.results.write(emit.query, rows)
            return
        if (stream := self.derived.get(emit.into)) is not None:  # in a migration nobody may want its rows
            found = stream.hand_on(rows, self._sent, self.report, self.batch.number, self.batch.now)
            for edge, dest, piece in found:
                yield self._envelope(dest, edge.id, frame=piece)
            self._sent += rows.num_rows

    def _book(self, emit: Emit) -> Book:
        """The subscriptions of a query."""
        assert emit.matching is not None
        store = self.topology.store(emit.matching.store)
        segments = [self.state.open(ref) for ref in (*self.old[store.id], *self.delta[store.id, ROWS])]
        return open_book(emit.matching, store.ended_by, self.number, segments, self.functions)

    def _send_parts(self, emit: Emit, parts: Frame) -> Iterator[Envelope]:
        """Send parts of groups to their owners, or keep them until the wave in which groups change."""
        bump(self.report.routed, emit.id, parts.num_rows)
        stay = emit.route == "local" or emit.tasks == 1
        if emit.wave <= self.wave and stay:
            self.owned.take(emit, [parts])
        elif stay:
            yield from self._post(emit, [(self.number, parts)])
        else:
            yield from self._post(emit, route(parts, "key", emit.route_key, emit.tasks, self.functions, 0))

    def _settle_groups(self) -> Iterator[Envelope]:
        """Add the parts of groups that have come to the stores, and give out what that changes in the views."""
        for emit in (emit for emit in self.owned.emits if emit.wave == self.wave):
            found = self.owned.settle(emit, lambda store: [self.state.open(ref) for ref in self.old[store]])
            for store, rows in found.stored.items():
                self.delta[store, ROWS] += self.stores.keep(store, ROWS, [rows], f"-w{self.wave}")
            for rows in found.results:
                yield from self._give(emit, rows)

    def _keep(self, keep: Keep, frames: Sequence[Frame]) -> None:
        self._kept[keep.store, keep.origin] += frames
        self._kept_bytes[keep.store, keep.origin] += sum(frame.nbytes for frame in frames)
        if self._kept_bytes[keep.store, keep.origin] >= KEEP_BYTES:
            self._write_kept()

    def _write_kept(self) -> None:
        for (store, origin), frames in sorted(self._kept.items()):
            written = self.delta[store, origin]
            written += self.stores.keep(store, origin, frames, f"-w{self.wave}-{len(written)}")
        self._kept.clear()
        self._kept_bytes.clear()

    def _envelope(self, dest: int, edge: str, **content: object) -> Envelope:
        self._seq += 1
        rank = self.nodes[edge].position - FIRST if edge in self.nodes else 0
        return Envelope(dest, rank << 48 | self._seq, edge, **content)  # type: ignore[arg-type]
