"""The manifest of a batch: the one file whose rename commits everything the batch did.

It names the live segments, the newest event time of every stream, the files that were read, the result files to
publish, and running totals.  A batch that dies before its manifest leaves nothing that counts: the next attempt starts
from the manifest before it and replaces the files that were left behind.  The two newest manifests are kept, and every
segment they name.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from weft.errors import StateError
from weft.host.batch import Batch, Report
from weft.host.crash import CrashPoint
from weft.host.parts import advance
from weft.host.sources.source import Position
from weft.host.state.compaction import horizon, is_expired
from weft.host.state.depot import Depot
from weft.host.state.durable import read_sealed, remove_durably, write_sealed
from weft.host.state.segment import SegmentFiles, SegmentRef
from weft.observe.counters import Counters, bump
from weft.observe.measured import Measured
from weft.stats.model import Statistics
from weft.stats.sketch import merge_sketches, read_statistics
from weft.topology.model import Epoch, Topology
from weft.topology.plain import from_plain, to_plain

KEPT = 2
"""Manifests that stay on disk."""
EVER, NEVER = -(2**63), 2**63 - 1
"""Before and after all event times."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The state after micro-batch `batch`; -1 is before the first."""

    batch: int = -1
    segments: tuple[SegmentRef, ...] = ()
    newest: Mapping[str, int] = field(default_factory=dict)
    """Stream -> newest event time seen, in microseconds."""
    files: tuple[Mapping[str, Any], ...] = ()
    """Results of this batch, to be published."""
    totals: Counters = field(default_factory=Counters)
    """The sum over all batches."""
    sketches: Mapping[str, Any] = field(default_factory=dict)
    """Join key -> its frequent values and its number of distinct values, over all batches."""
    offsets: Mapping[str, Position] = field(default_factory=dict)
    """Stream -> how far it has been read; empty where Spark keeps the offsets."""
    epoch: int = 0
    """The epoch that the next batch runs under.  Its plan is in a file of its own, see :meth:`Ledger.epoch`."""
    partial: Mapping[str, int] = field(default_factory=dict)
    """Store -> the event time after which it is whole, for stores that began when their streams had been read."""
    migrated: bool = False
    """Whether a migration wrote it, after the batch."""
    marks: Mapping[str, int | None] = field(default_factory=dict)
    """Clock id -> watermark when the batch began."""
    idle: tuple[str, ...] = ()
    """Streams that have been silent for long: watermarks do not wait for them."""

    def watermarks(self, topology: Topology) -> dict[str, int | None]:
        """Clock id -> watermark.  It never goes back, also when a stream wakes that was idle."""
        found = {clock.id: clock.watermark(self.newest, self.idle) for clock in topology.clocks}
        return {clock: _later(mark, self.marks.get(clock)) for clock, mark in found.items()}

    def next(
        self,
        topology: Topology,
        number: int,
        run: str = "",
        crash: CrashPoint | None = None,
        barrier: int | None = None,
    ) -> Batch:
        """What the workers of the next batch need to know."""
        live: dict[int, list[SegmentRef]] = {}
        for ref in self.segments:
            live.setdefault(ref.worker, []).append(ref)
        there = {worker: tuple(refs) for worker, refs in live.items()}
        return Batch(number, self.watermarks(topology), there, run, crash, before=self.marks, barrier=barrier)

    def after(
        self,
        epoch: Epoch,
        number: int,
        report: Report,
        offsets: Mapping[str, Position] | None = None,
        idle: tuple[str, ...] = (),
    ) -> Manifest:
        """The manifest of batch `number`, given what its workers reported, how far it has read, and who is idle."""
        gone = set(report.removed)
        newest = advance(self.newest, report.newest, idle)
        totals, sketches = Counters.total([self.totals, report]), merge_sketches(self.sketches, report.sketches)
        read = {**self.offsets, **(offsets or {})}
        files = tuple(report.files)
        began = self.watermarks(epoch.topology)
        made = Manifest(
            number, (), newest, files, totals, sketches, read, epoch.number, self.partial, False, began, idle
        )
        refs = [*(ref for ref in self.segments if ref.name not in gone), *(SegmentRef(**ref) for ref in report.added)]
        marks = made.watermarks(epoch.topology)
        limits = {s.id: horizon(s, began if s.counted == "groups" else marks) for s in epoch.topology.stores}
        live = [ref for ref in refs if not is_expired(ref, limits[ref.store])]
        live.sort(key=lambda ref: (ref.store, ref.worker, ref.first_batch, ref.name))
        return replace(made, segments=tuple(live))

    def under(
        self,
        epoch: Epoch,
        segments: Iterable[SegmentRef],
        files: Iterable[Mapping[str, Any]],
        partial: Mapping[str, int],
    ) -> Manifest:
        """The manifest of the same batch after a migration to another epoch."""
        live = sorted(segments, key=lambda ref: (ref.store, ref.worker, ref.first_batch, ref.name))
        plan = epoch.topology
        return replace(
            self,
            segments=tuple(live),
            files=tuple(files),
            epoch=epoch.number,
            partial=dict(partial),
            migrated=True,
            totals=self.totals.fold({*plan.nodes, *plan.edge_by_id, *plan.store_by_id}),
        )

    def recount(self, gone: Collection[str], results: Mapping[str, int]) -> Manifest:
        """The manifest without the results of queries that are gone, and with those that a migration made."""
        rest = {query: count for query, count in self.totals.results.items() if query not in gone}
        totals = replace(self.totals, results={})
        return replace(self, totals=Counters.total([totals, Counters(results=rest), Counters(results=dict(results))]))

    def has_closed(self, topology: Topology) -> bool:
        """Whether groups have closed since the batch began; their final rows come in the next one."""
        clocks = {emit.groups.store: emit.groups.clock for emit in topology.emits if emit.groups is not None}
        marks = self.watermarks(topology)
        ends = ((ref.oldest, marks.get(clocks[ref.store])) for ref in self.segments if ref.store in clocks)
        return any(oldest is not None and mark is not None and oldest < mark for oldest, mark in ends) and any(
            marks.get(clock) != self.marks.get(clock) for clock in clocks.values()
        )

    @property
    def held(self) -> dict[str, int]:
        """Store -> rows in its live segments."""
        rows: dict[str, int] = {}
        for ref in self.segments:
            bump(rows, ref.store, ref.rows)
        return rows

    @property
    def observed(self) -> Statistics:
        """What the streams have shown in all batches."""
        return read_statistics(self.totals.rows_in, self.sketches)

    @property
    def measured(self) -> Measured | None:
        """What all batches did; None before the first."""
        return None if self.batch < 0 else Measured(self.batch + 1, self.totals, self.held, self.observed)


class Ledger:
    """The manifests of a checkpoint folder, and the files they own.  Reading creates no files and no folders."""

    def __init__(self, root: Path, depot: Depot | None = None) -> None:
        self.root, self.depot = root, depot
        """The folder, or the driver's mirror of the depot that has the files."""
        self.own: Callable[[], None] = lambda: None
        """Refuses if another run has taken the depot."""
        self.folder = root / "manifests"
        self.segments = root / "segments"
        self.results = root / "results"
        self.notes = root / "notes"
        self.epochs = root / "epochs"
        self.done = root / "done"
        self.guarded: Collection[str] = ()
        """Segments that a migration in progress needs, and no manifest names any more or yet."""
        self.young: Callable[[str], bool] = lambda _name: False
        """Tells by its name whether a migration in progress has written a file."""

    def begin(self) -> None:
        """Make the folders that a run writes to."""
        for folder in (self.folder, self.segments, self.results, self.notes, self.epochs):
            folder.mkdir(parents=True, exist_ok=True)

    def epoch(self) -> Epoch | None:
        """The plan that the state was made by; None if there is no state."""
        last = self.last()
        if last.batch < 0:
            return None
        found: Epoch = read_sealed(self._plan(last.epoch), lambda plain: from_plain(plain["epoch"]))
        return found

    def session(self) -> Mapping[str, Any]:
        """The session that the state was made for, as plain data; nothing if there is no state."""
        last = self.last()
        return {} if last.batch < 0 else _read_session(self._plan(last.epoch))

    def propose(self, epoch: Epoch, session: Mapping[str, Any]) -> None:
        """Write down a plan and the session it is for.  They count once a manifest names the epoch."""
        write_sealed(self._plan(epoch.number), {"epoch": to_plain(epoch), "session": session})

    def _plan(self, number: int) -> Path:
        return self.epochs / f"{number:06d}.json"

    def last(self) -> Manifest:
        """The newest manifest, or the empty one."""
        paths = sorted(self.folder.glob("*.json"))
        return _read(paths[-1]) if paths else Manifest()

    def commit(self, manifest: Manifest) -> None:
        """Commit the batch."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_sealed(self.folder / f"{manifest.batch:012d}.json", asdict(manifest))

    def announce(self, batch: int) -> None:
        """Write down that a batch is done, so that `check` notices if its manifest is lost later."""
        aside = self.done.with_name(".done.tmp")
        aside.write_text(str(batch))
        os.replace(aside, self.done)

    def has_committed(self) -> bool:
        """Whether any batch was ever committed."""
        return self._last_announced() >= 0 or any(self.folder.glob("*.json"))

    def check(self, done: int | None = None) -> None:
        """Refuse if the manifest of a finished batch is gone: to go on would run that batch twice."""
        done, last = self._last_announced() if done is None else done, self.last().batch
        if done > last:
            raise StateError(
                f"checkpoint {self.root} lacks a manifest",
                detail=f"batch {done} was finished, but the last manifest is of batch {last}.",
                hint="restore the folder from a backup, or start again from an empty checkpoint.",
            )

    def _last_announced(self) -> int:
        try:
            return int(self.done.read_text())
        except (OSError, ValueError):
            return -1  # the file is never synced, so it may be empty after a power failure

    def collect(self) -> None:
        """Remove old manifests, and the segments, notes and plans that the kept ones do not need."""
        paths = sorted(self.folder.glob("*.json"))
        kept = [_read(path) for path in paths[-KEPT:]]
        for path in paths[:-KEPT]:
            remove_durably(path)
        if kept:
            for plan in sorted(self.epochs.glob("*.json"))[: -KEPT - 1]:
                if int(plan.stem) < min(manifest.epoch for manifest in kept):
                    remove_durably(plan)
            self._sweep({ref.name for manifest in kept for ref in manifest.segments}, kept[-1].batch)

    def _sweep(self, live: Iterable[str], batch: int) -> None:
        keep = {*live, *self.guarded}
        self._drop("segments", lambda name: name not in keep and self._is_past(name, batch))
        self._drop("notes", lambda name: int(name.lstrip(".").split("-")[0]) <= batch)

    def _is_past(self, segment: str, batch: int) -> bool:
        """Whether a segment is of a batch that is over.  In a depot, another run may be writing those of the next."""
        return self.depot is None or int(segment.rpartition("/")[2][:12]) <= batch

    def _drop(self, folder: str, is_old: Callable[[str], bool]) -> None:
        """Remove the files of a folder that are old, and were not written by a migration in progress."""
        root = self.root / folder
        if self.depot is not None:
            there = [name.partition("/")[2] for name in self.depot.list(folder)]
        else:
            there = [str(path.relative_to(root)) for path in root.glob("*/*/*" if folder == "segments" else "*")]
        old = [name for name in there if is_old(name) and not self.young(name.rpartition("/")[2])]
        if self.depot is not None and old:
            self.own()
            self.depot.remove(f"{folder}/{name}" for name in old)
        for name in old:
            (root / name).unlink(missing_ok=True)

    def staging_folder(self, batch: int, epoch: int = 0) -> Path:
        """Where workers put the results of a batch, or those that the migration to an epoch makes."""
        return self.results / (f"e{epoch:06d}" if epoch else f"{batch:012d}")

    def staging_name(self, batch: int, epoch: int = 0) -> str:
        """The same, as workers know it: they may have another copy of the checkpoint."""
        return str(self.staging_folder(batch, epoch).relative_to(self.root))

    def staged(self, manifest: Manifest) -> Path:
        """Where the results that a manifest names are."""
        return self.staging_folder(manifest.batch, manifest.epoch if manifest.migrated else 0)

    def unstage(self, batch: int, epoch: int = 0) -> None:
        """Remove the staged results of a batch or a migration."""
        self.discard(self.staging_folder(batch, epoch))

    def discard(self, folder: Path) -> None:
        """Remove a folder of staged results."""
        shutil.rmtree(folder, ignore_errors=True)
        name = str(folder.relative_to(self.root))
        if self.depot is not None and self.depot.list(name):
            self.own()
            self.depot.remove_folder(name)

    def fetch(self, folder: Path, files: Iterable[Mapping[str, Any]], *, whole: bool = False) -> None:
        """Let the driver have staged results that workers on other machines made; `whole` if none may be missing."""
        for entry in files if self.depot is not None else ():
            path = folder / entry["query"] / entry["file"]
            if not path.exists():
                assert self.depot is not None
                if not self.depot.get(str(path.relative_to(self.root)), path) and whole:
                    raise StateError(
                        f"results {path.name} are gone from checkpoint {self.depot.shown}",
                        detail="a worker of this batch has put them there; another run may have removed them.",
                        hint="nothing of this batch was committed; see that one run at a time uses the checkpoint.",
                    )


class FileState(SegmentFiles):
    """Segments of a checkpoint folder, and the notes workers leave for their later waves."""

    def __init__(self, segments: str, notes: str, run: str = "") -> None:
        super().__init__(segments)
        self.notes, self.run = notes, run

    def note(self, batch: int, worker: int, wave: int, refs: Iterable[SegmentRef]) -> None:
        """Remember this batch's segments of a worker up to a wave."""
        final = Path(self.notes, f"{batch:012d}-{worker}-{wave}{self.run}")
        aside = final.with_name(f".{final.name}.{os.getpid()}")
        aside.write_text(json.dumps([asdict(ref) for ref in refs]))
        os.replace(aside, final)

    def recall(self, batch: int, worker: int, wave: int) -> tuple[SegmentRef, ...]:
        """This batch's segments of a worker up to a wave."""
        path = Path(self.notes, f"{batch:012d}-{worker}-{wave}{self.run}")
        try:
            return tuple(SegmentRef(**ref) for ref in json.loads(path.read_text()))
        except FileNotFoundError as error:
            raise refuse_missing_note(str(path)) from error


def refuse_missing_note(note: str) -> StateError:
    """The error for a wave that does not find what an earlier one wrote."""
    return StateError(
        f"note {note} is missing",
        detail="a later wave cannot see the state that a worker wrote in an earlier one.",
        hint="the checkpoint must lie on a file system that all workers share, or be a URL such as s3://bucket/path.",
    )


def _read_session(path: Path) -> Mapping[str, Any]:
    """The session of an epoch; each file is read once, since sessions ask often."""
    known, changed = _sessions.get(path), path.stat().st_mtime_ns if path.exists() else 0
    if known is None or known[0] != changed:
        _sessions.clear()
        known = _sessions[path] = (changed, read_sealed(path, lambda plain: plain["session"]))
    return known[1]


_sessions: dict[Path, tuple[int, Mapping[str, Any]]] = {}


def _later(mark: int | None, before: int | None) -> int | None:
    return max((moment for moment in (mark, before) if moment is not None), default=None)


def _read(path: Path) -> Manifest:
    return read_sealed(path, _manifest)


def _manifest(plain: dict[str, Any]) -> Manifest:
    if "batch" in plain and "epoch" not in plain:
        raise StateError(
            "the checkpoint was made by an earlier version of Weft",
            detail="its manifests do not say which plan its state was made by.",
            hint="start again from an empty checkpoint.",
        )
    segments = tuple(SegmentRef(**ref) for ref in plain.pop("segments"))
    totals, idle = Counters.of(plain.pop("totals")), tuple(plain.pop("idle", ()))
    return Manifest(segments=segments, files=tuple(plain.pop("files")), totals=totals, idle=idle, **plain)
