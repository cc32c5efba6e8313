"""Runs a topology in this process, over micro-batches given by hand.

The exchange is a list per worker.  State is in memory, or in a folder where crashes are tested.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from weft.expr.evaluate import Functions
from weft.host.batch import Batch, Report, State
from weft.host.crash import CrashPoint, reach
from weft.host.envelope import Envelope
from weft.host.groups.fold import settle
from weft.host.groups.view import read_view
from weft.host.idle import Silence
from weft.host.ingest import ingests
from weft.host.migration.migrate import Change, Job, Migration
from weft.host.migration.reread import Rereading
from weft.host.results.changes import Shape
from weft.host.state.manifest import Manifest
from weft.host.state.segment import MemorySegments, SegmentRef
from weft.host.worker import Worker
from weft.topology.model import Epoch, Topology


class MemoryState(MemorySegments):
    """Segments and notes in memory."""

    def __init__(self) -> None:
        super().__init__()
        self._notes: dict[tuple[int, int, int], tuple[SegmentRef, ...]] = {}

    def note(self, batch: int, worker: int, wave: int, refs: Iterable[SegmentRef]) -> None:
        """Remember this batch's segments of a worker."""
        self._notes = {key: found for key, found in self._notes.items() if key[0] == batch}
        self._notes[batch, worker, wave] = tuple(refs)

    def recall(self, batch: int, worker: int, wave: int) -> tuple[SegmentRef, ...]:
        """This batch's segments of a worker."""
        return self._notes[batch, worker, wave]


class MemoryResults:
    """Results of one batch in memory."""

    def __init__(self, into: dict[str, list[pa.RecordBatch]]) -> None:
        self.into = into

    def write(self, query: str, rows: pa.RecordBatch) -> None:
        """Take some results."""
        self.into[query].append(rows)

    def close(self) -> list[dict[str, Any]]:
        """Nothing to publish."""
        return []


class InProcess:
    """A running topology."""

    def __init__(
        self,
        topology: Topology,
        functions: Functions | None = None,
        state: State | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.topology, self.epoch = topology, Epoch(0, topology)
        self._silence = Silence(now)
        self.clock: Callable[[], float] = time.time
        """Seconds since 1970, for now()."""
        self._moment = (-1, 0)
        """The last batch that began, and when: it is the same if the batch is run again."""
        self.sample = 0
        """Rows that are drawn of each stream of the next batch, for statistics."""
        self.functions: Functions = functions or {}
        self.state: State = state or MemoryState()
        self.manifest = Manifest()
        self.results: dict[str, list[pa.RecordBatch]] = {emit.query: [] for emit in topology.emits}
        self.tables: dict[str, pa.Table] = {}
        """All rows of tables so far: a migration may read them again."""
        self._preparing: Migration | None = None
        self._past: dict[str, list[pa.RecordBatch]] = defaultdict(list)
        """Results among old rows, of a migration that is not committed."""
        self.spent: dict[tuple[int, int], float] = {}
        """(Wave, worker) -> seconds of the last batch, one after the other; wave 0 reads the input."""

    def feed(self, tables: Mapping[str, pa.Table], crash: CrashPoint | None = None) -> Report:
        """Run one micro-batch with rows for some of the streams.  A crash leaves everything as it was before."""
        number = self.manifest.batch + 1
        barrier = None if self._preparing is None else self._preparing.manifest.batch
        batch = self.manifest.next(self.topology, number, crash=crash, barrier=barrier)
        if self._moment[0] != number:
            self._moment = number, int(self.clock() * 1_000_000)
        batch = replace(batch, now=self._moment[1], sample=self.sample)
        fresh: dict[str, list[pa.RecordBatch]] = defaultdict(list)
        began = time.perf_counter()
        envelopes = list(self._read(self.topology, tables, batch))
        self.spent = {(0, 0): time.perf_counter() - began}
        report = self._waves(self.topology, batch, envelopes, fresh)
        reach(crash, "commit before", number)
        known = self.manifest
        idle = self._silence.after(self.topology.streams, report.rows_in, known.idle, known.newest, report.newest)
        self.manifest = self.manifest.after(self.epoch, number, report, idle=idle)
        self._retain()
        for query, rows in fresh.items():
            self.results[query] += rows
        for stream in (stream for stream in self.topology.streams if stream.table and stream.name in tables):
            before = self.tables.get(stream.name)
            rows = tables[stream.name]
            self.tables[stream.name] = rows if before is None else pa.concat_tables([before, rows])
        reach(crash, "commit after", number)
        reach(crash, "publish", number)
        return report

    def prepare(self, change: Change, crash: CrashPoint | None = None, most: int | None = None) -> Migration:
        """Make the state of another plan ready; batches go on under the old one until :meth:`migrate` is called."""
        now = self._moment[1] or int(self.clock() * 1_000_000)
        made = Migration(self.topology, change, self.manifest, self.epoch.number + 1, "", crash, most, now=now)
        self._past = defaultdict(list)
        reach(crash, "migrate before", self.manifest.batch)
        made.work(self._job)
        self._preparing = made
        return made

    def migrate(self, change: Change, crash: CrashPoint | None = None) -> Migration:
        """Go on with another plan.  A crash leaves everything as it was before."""
        migration = self._preparing or self.prepare(change, crash)
        if migration.manifest is not self.manifest:
            migration.catch_up(self.manifest, self._job)
        epoch, fresh = Epoch(migration.epoch, change.topology), self._past
        self._preparing = None  # if it dies here, another change may follow
        reach(crash, "migrate commit before", self.manifest.batch)
        self.manifest = migration.commit(epoch)
        self.topology, self.epoch = change.topology, epoch
        self._retain()
        for emit in change.topology.emits:
            past = fresh[emit.query]
            if (
                emit.groups is not None and emit.query in change.backfill
            ):  # made in several jobs, so read when all are done
                past = read_view(emit, self.topology, self.functions, self.manifest.segments, self.state).to_batches()
            self.results.setdefault(emit.query, []).extend(past)
        reach(crash, "migrate commit after", self.manifest.batch)
        return migration

    def _job(self, job: Job, batch: Batch) -> Report:
        again = {name: self.tables[name] for name in job.tables if name in self.tables}
        envelopes = [*self._reread(job), *self._read(job.topology, again, batch)]
        return self._waves(job.topology, batch, envelopes, self._past)

    def _retain(self) -> None:
        """Forget segments that nothing needs any more."""
        if isinstance(self.state, MemoryState):
            made = () if self._preparing is None else (*self._preparing.segments, *self._preparing.manifest.segments)
            self.state.retain(ref.name for ref in (*self.manifest.segments, *made))

    def _waves(
        self, topology: Topology, batch: Batch, envelopes: list[Envelope], fresh: dict[str, list[pa.RecordBatch]]
    ) -> Report:
        """All waves, one after the other; results go to `fresh`."""
        for wave in range(1, topology.waves + 1):
            inbox: dict[int, list[Envelope]] = defaultdict(list)
            if wave > 1 and topology.stores_late:
                envelopes.sort(key=lambda envelope: envelope.seq)
            for envelope in envelopes:
                inbox[envelope.dest].append(envelope)
            envelopes = []
            for place in range(topology.workers):
                worker = Worker(topology, place, batch, self.state, self.functions, MemoryResults(fresh))
                began = time.perf_counter()
                envelopes += worker.run(wave, inbox[place])
                self.spent[wave, place] = time.perf_counter() - began
        report = Report()
        for envelope in envelopes:
            report.merge(envelope.report or {})
        return report

    def _reread(self, job: Job) -> list[Envelope]:
        reading = Rereading.of(job.topology, self.functions)
        found = ((piece, self.state.open(piece.ref)) for piece in job.pieces)
        return list(reading.envelopes(found, 0))

    def table(self, query: str) -> pa.Table:
        """All results of a query so far, each as often as its weights add up to."""
        emit = self.topology.emit_of[query]
        if emit.groups is not None and not emit.groups.grouping.is_distinct:
            shape = Shape.of_grouping(emit.groups.grouping, emit.schema)
            return shape.view(pa.Table.from_batches(self.results[query], schema=emit.schema))
        return settle(self.results[query], emit.schema, query)

    def _read(self, topology: Topology, tables: Mapping[str, pa.Table], batch: Batch) -> Iterator[Envelope]:
        for task, (name, ingest) in enumerate(ingests(topology, self.functions).items()):
            if name in tables:
                rows = (("", rows) for rows in tables[name].to_batches())
                yield from ingest.run(rows, task, batch.watermarks, batch.number, batch.now, batch.sample)
