"""A migration, step by step: what is taken, then one job that moves rows, then one job for each join that is filled.

A job is a small plan and the old rows that are its input.  A host runs it like a batch; only what is stored and emitted
counts.  Joins are filled after the stores of their members, smaller joins first, so every tuple that starts finds all
rows of the others in place.  Results among old rows (`backfill`) are made in the same way, from one relation of the
query.

What must hold: nothing that the last manifest names is changed.  The migration counts when a manifest of the same batch
with the new epoch is renamed into place; before that the old plan goes on, after it the new one does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from weft.host.batch import Batch, Report
from weft.host.crash import CrashPoint
from weft.host.migration.cascade import Derivation
from weft.host.migration.compare import Comparison, Fill, Sources
from weft.host.migration.reread import Piece, pieces
from weft.host.migration.ways import Way, moving, remaining, replaying, ways_to
from weft.host.state.compaction import horizon
from weft.host.state.manifest import Manifest
from weft.host.state.segment import SegmentRef
from weft.topology.label import stream_of
from weft.topology.model import Edge, Epoch, Topology
from weft.topology.node import Emit
from weft.topology.store import Store


@dataclass(frozen=True)
class Job:
    """A plan that is run once, over old rows."""

    what: str
    """For people."""
    topology: Topology
    pieces: tuple[Piece, ...]
    level: int
    tables: tuple[str, ...] = ()
    """Tables that are read again instead; there are no pieces then."""


Runner = Callable[[Job, Batch], Report]
"""How a host runs a job."""


@dataclass(frozen=True)
class Change:
    """Another plan, and what is wanted besides."""

    topology: Topology
    backfill: tuple[str, ...] = ()
    """New queries whose results among old rows are wanted too."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What a migration did."""

    taken: int = 0
    """Stores that were taken over as they are."""
    moved: int = 0
    """Rows that were read and sent anew."""
    filled: int = 0
    """Rows of joins that were made."""
    results: Mapping[str, int] = field(default_factory=dict)
    """Query -> results among old rows."""


class Migration:
    """From the state of one epoch to that of another, as of some batch."""

    def __init__(
        self,
        old: Topology,
        change: Change,
        manifest: Manifest,
        epoch: int,
        run: str,
        crash: CrashPoint | None,
        most: int | None = None,
        *,
        now: int,
    ) -> None:
        """`most` is how many rows a job reads, None means all at once.

        `now` is the time of rows that are made or read again, see weft.host.state.moment.
        """
        self.old, self.new, self.manifest, self.epoch = old, change.topology, manifest, epoch
        self._backfill, self._run, self._crash, self._most = change.backfill, run, crash, most
        self._now = now
        self._sources = Sources(old, self.new, manifest)
        self.found: Comparison = self._sources.compare(self._backfill)
        self.segments: list[SegmentRef] = []
        self.files: list[Mapping[str, object]] = []
        self._jobs = self._moved = self._filled = 0
        self._results: dict[str, int] = {}

    @property
    def size(self) -> int:
        """Rows that have to be read."""
        held = self.manifest.held
        read = [*self.found.moves.values(), *(fill.source for fill in self.found.fills)]
        read += [made.source for made in self.found.derivations]
        return sum(held.get(name, 0) for name in read)

    def work(self, run: Runner, stopped: Callable[[], bool] = lambda: False) -> None:
        """Make all stores of the new plan; give up between two jobs if `stopped` says so."""
        became = {old: new for new, old in self.found.takes.items()}
        taken = (ref for ref in self.manifest.segments if ref.store in became)
        self.segments = [replace(ref, store=became[ref.store]) for ref in taken]
        for job in self._plan():
            for part in _cut(job, self._most):
                if stopped():
                    return
                self._do(part, run)

    def catch_up(self, manifest: Manifest, run: Runner) -> None:
        """Bring what was made up to a later batch: its rows come again, as one batch of the new plan."""
        behind = self.manifest
        self.manifest, self._sources = manifest, Sources(self.old, self.new, manifest)
        self.found = replace(self._sources.compare(self._backfill), lacks=self.found.lacks)
        job = self._replay(behind.batch)
        if job.pieces:
            self._do(job, run)

    @property
    def can_catch_up(self) -> bool:
        """Whether the old state has all rows that a replay needs; rows of derived streams are made at once."""
        if self.found.derivations:
            return False
        plan, starts = replaying(self.new, self._backfill)
        stores = {store.id for store in plan.stores if not store.members} - {*self.found.lacks}
        known = {*self.found.takes, *self.found.moves, *self.found.rereads}
        joins = {store.id for store in plan.stores if store.members and store.counted != "groups"}
        there = stores <= known and joins <= {*known, *self._filled_stores()}
        return there and all(self._start_source(way) is not None for way in starts.values())

    def commit(self, epoch: Epoch) -> Manifest:
        """The manifest that makes the new plan valid."""
        made = [ref for ref in self.segments if ref.store in self.new.store_by_id]
        return self.manifest.under(epoch, made, self.files, self.found.partial)

    @property
    def summary(self) -> Summary:
        """What was done."""
        return Summary(len(self.found.takes), self._moved, self._filled, self._results)

    # ---------------------------------------------------------------------------------------- jobs

    def _do(self, job: Job, run: Runner) -> None:
        live: dict[int, list[SegmentRef]] = {}
        for ref in self.segments:
            if ref.store in job.topology.store_by_id:
                live.setdefault(ref.worker, []).append(ref)
        marks = self.manifest.watermarks(self.new)
        there = {worker: tuple(refs) for worker, refs in live.items()}
        name, self._jobs = f"e{self.epoch}j{self._jobs}", self._jobs + 1
        run_name = f"{self._run}{name}"
        batch = Batch(self.manifest.batch, marks, there, run_name, self._crash, job.level, name, now=self._now)
        report = run(job, batch)
        gone = set(report.removed)
        made = [SegmentRef(**ref) for ref in report.added]
        self.segments = [*(ref for ref in self.segments if ref.name not in gone), *made]
        self.files += report.files
        for query, count in report.results.items():
            self._results[query] = self._results.get(query, 0) + count
        self._count(job, made)

    def _count(self, job: Job, made: Sequence[SegmentRef]) -> None:
        filled = {keep.store for keep in job.topology.keeps}
        fed = {store for edge in job.topology.edges for store in edge.stores}
        self._filled += sum(ref.rows for ref in made if ref.store in filled)
        self._moved += sum(ref.rows for ref in made if ref.store in fed)

    def _plan(self) -> Iterator[Job]:
        if self.found.moves:
            yield self._move()
        if self.found.rereads:
            stores = tuple(self.new.store(name) for name in self.found.rereads)
            yield Job("read tables", moving(self.new, stores), (), 0, tuple({store.stream for store in stores}))
        depths = {stream.name: stream.depth for stream in self.new.derived}
        for depth in range(max(depths.values(), default=0) + 1):
            yield from (self._derive(made) for made in self.found.derivations if made.depth == depth)
            yield from (self._fill(fill) for fill in self.found.fills if self._depth(fill.store) == depth)
        cascade = self.found.cascade
        for query in self._backfill:
            if cascade is not None and _takes_back(self.new.emit_of[query]):
                cascade.refuse_lost(query, self.manifest)
            if (cascade is None or not cascade.is_ended(query)) and (job := self._past(query)) is not None:
                yield job

    def _depth(self, store: str) -> int:
        """The depth of the deepest derived stream in a join."""
        depths = {stream.name: stream.depth for stream in self.new.derived}
        return max(depths.get(stream_of(label), 0) for label in self.new.store(store).members)

    def _derive(self, made: Derivation) -> Job:
        what, plan = "rows of derived streams", made.topology
        if not made.from_groups:
            read = tuple(self._pieces(plan, made.edge, made.source, None))
            return Job(what, plan, read, _level(read))
        refs = [ref for ref in self.segments if ref.store == made.source]
        return Job(what, plan, tuple(pieces(plan.edge_by_id[made.edge], refs, None)), 0)

    def _move(self) -> Job:
        stores = tuple(self.new.store(name) for name in self.found.moves)
        plan = moving(self.new, stores)
        edges = tuple(self._spare(edge, self.found.moves[edge.id]) for edge in plan.edges)
        plan = replace(plan, edges=edges)
        read = [piece for store in stores for piece in self._pieces(plan, store.id, self.found.moves[store.id], store)]
        return Job("move rows", plan, tuple(read), _level(read))

    def _fill(self, fill: Fill) -> Job:
        if fill.source:
            return self._travel(f"fill {fill.store}", fill.way, fill.source)
        return Job(f"fill {fill.store}", fill.way.topology(self.new), (), 0, (fill.way.edge.stream,))

    def _travel(self, what: str, way: Way, source: str) -> Job:
        plan = way.without(self.old.store(source).filter).topology(self.new)
        read = tuple(self._pieces(plan, way.edge.id, source, None))
        return Job(what, plan, read, _level(read))

    def _spare(self, edge: Edge, source: str) -> Edge:
        """The edge without selections that the rows of an old store have passed."""
        return replace(edge, filter=remaining(edge.filter, self.old.store(source).filter))

    def _past(self, query: str) -> Job | None:
        """The job that makes all results of a query among old rows; None if no relation has its rows."""
        emit, what = self.new.emit_of[query], f"results of {query} among old rows"
        ways = [
            (number, way) for label, _ in emit.aliases for number, way in enumerate(ways_to(self.new, label, emit.id))
        ]
        found = [
            (self.manifest.held.get(source.id, 0), number, way, source.id)
            for number, way in ways
            if (source := self._start_source(way)) is not None
        ]
        if not found:
            tables = {stream.name for stream in self.new.streams if stream.table}
            read_again = [way for _, way in ways if way.edge.stream in tables]
            return (
                Job(what, read_again[0].topology(self.new), (), 0, (read_again[0].edge.stream,)) if read_again else None
            )
        _, _, way, read = min(found, key=lambda entry: (entry[0], entry[2].start.id, entry[1]))
        return self._travel(what, way, read)

    def _replay(self, after: int) -> Job:
        """All rows that came after a batch, along all ways of the new plan that store something."""
        plan, starts = replaying(self.new, self._backfill)
        made_from = {**self.found.takes, **self.found.moves}
        sources = {store: made_from[store] for store in plan.edge_by_id if store in made_from}
        for name, way in starts.items():
            source = self._start_source(way)
            assert source is not None
            sources[name] = source.id
            starts[name] = way.without(source.filter)
        bring = {name: replace(way.edge, id=name) for name, way in starts.items()}
        edges = (bring.get(edge.id) or self._spare(edge, sources[edge.id]) for edge in plan.edges if edge.id in sources)
        plan = replace(plan, edges=tuple(edges), starts=tuple(way.start for way in starts.values()))
        read = [
            piece
            for edge, source_id in sources.items()
            for piece in self._pieces(plan, edge, source_id, self.new.store_by_id.get(edge), after)
        ]
        return Job("catch up", plan, tuple(read), 0)

    # ---------------------------------------------------------------------------------------- rows

    def _filled_stores(self) -> set[str]:
        return {fill.store for fill in self.found.fills}

    def _start_source(self, way: Way) -> Store | None:
        return self._sources.find(way.start.label, way.selection, way.needs, way.clocks)

    def _pieces(self, plan: Topology, edge: str, source: str, store: Store | None, after: int = -1) -> Iterable[Piece]:
        refs = [ref for ref in self.manifest.segments if ref.store == source and ref.last_batch > after]
        assert all(ref.first_batch > after for ref in refs), "batches merged rows across the barrier"
        return pieces(plan.edge_by_id[edge], refs, None if store is None else self._oldest(store))

    def _oldest(self, store: Store) -> int | None:
        """Rows before this time are gone; groups that are final stay until their rows were given out."""
        final = store.counted == "groups"
        return horizon(store, self.manifest.marks if final else self.manifest.watermarks(self.new))


def _takes_back(emit: Emit) -> bool:
    """Whether rows of a view may be taken back: it must have shown all of them."""
    return emit.groups is not None and emit.groups.grouping.changing


def _level(read: Sequence[Piece]) -> int:
    return max((piece.ref.level for piece in read), default=0)


def _cut(job: Job, most: int | None) -> Iterator[Job]:
    """A job in parts that read about `most` rows each."""
    if most is None or job.tables:
        yield job
        return
    waiting: list[Piece] = []
    for piece in job.pieces:
        waiting.append(piece)
        if sum(p.rows for p in waiting) >= most:
            yield replace(job, pieces=tuple(waiting))
            waiting = []
    if waiting:
        yield replace(job, pieces=tuple(waiting))
