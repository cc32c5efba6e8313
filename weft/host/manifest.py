"""The manifest of a batch: the one file whose rename makes everything the batch did come true.

It names the live segments, the newest event time of every stream, the result files to publish, and running
totals. A batch that dies before its manifest never happened: the next attempt starts from the manifest before
it and replaces what was left behind.  The two newest manifests are kept, and every segment they name.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from weft.errors import StateError
from weft.host.batch import Batch, Report, Watermarks
from weft.host.compaction import expired
from weft.host.crash import CrashPoint
from weft.host.segment import SegmentFiles, SegmentRef
from weft.topology.model import Topology

KEPT = 2
"""Manifests that stay on disk."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The state after micro-batch `batch`; -1 is before the first."""

    batch: int = -1
    segments: tuple[SegmentRef, ...] = ()
    newest: Mapping[str, int] = field(default_factory=dict)
    """Stream -> newest event time seen, in microseconds."""
    files: tuple[Mapping[str, Any], ...] = ()
    """Results of this batch, to be published."""
    totals: Mapping[str, Any] = field(default_factory=dict)
    """Counters of the whole run."""

    def watermarks(self, topology: Topology) -> dict[str, int | None]:
        """Clock id -> watermark."""
        return {clock.id: clock.watermark(dict(self.newest)) for clock in topology.clocks}

    def next(self, topology: Topology, number: int, run: str = "", crash: CrashPoint | None = None) -> Batch:
        """What the workers of the next batch must know."""
        live: dict[int, list[SegmentRef]] = {}
        for ref in self.segments:
            live.setdefault(ref.worker, []).append(ref)
        return Batch(number, self.watermarks(topology), {w: tuple(refs) for w, refs in live.items()}, run, crash)

    def after(self, topology: Topology, number: int, report: Report) -> Manifest:
        """The manifest of batch `number`, given what its workers reported."""
        gone = set(report.removed)
        newest = dict(self.newest)
        for stream, moment in report.newest.items():
            newest[stream] = max(moment, newest.get(stream, moment))
        totals = Report()
        totals.merge(self.totals)
        totals.merge({name: value for name, value in report.plain().items() if name not in _PER_BATCH})
        made = Manifest(number, (), newest, tuple(report.files), totals.plain())
        refs = [*(ref for ref in self.segments if ref.name not in gone), *(SegmentRef(**ref) for ref in report.added)]
        marks = made.watermarks(topology)
        live = [ref for ref in refs if not _over(topology, ref, marks)]
        live.sort(key=lambda ref: (ref.store, ref.worker, ref.first_batch, ref.name))
        return Manifest(number, tuple(live), newest, made.files, made.totals)


_PER_BATCH = ("files", "added", "removed", "newest")


def _over(topology: Topology, ref: SegmentRef, marks: Mapping[str, int | None]) -> bool:
    store = topology.store(ref.store)
    return expired(ref, store.retention, None if store.clock is None else marks.get(store.clock))


class Ledger:
    """The manifests of a checkpoint folder, and the files they own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "manifests"
        self.segments = root / "segments"
        self.results = root / "results"
        self.notes = root / "notes"
        self.watermarks = root / "watermarks.json"
        for folder in (self.folder, self.segments, self.results, self.notes):
            folder.mkdir(parents=True, exist_ok=True)

    def last(self) -> Manifest:
        """The newest manifest, or the empty one."""
        paths = sorted(self.folder.glob("*.json"))
        return _read(paths[-1]) if paths else Manifest()

    def commit(self, manifest: Manifest) -> None:
        """Make the batch true."""
        text = json.dumps(asdict(manifest))
        final = self.folder / f"{manifest.batch:012d}.json"
        write_durably(final, f"{text}\n{_digest(text)}\n".encode())

    def announce(self, watermarks: Watermarks) -> None:
        """Tell wave 0 of the next batch, whose plan was made when the run began, which rows are late."""
        aside = self.watermarks.with_name(".watermarks.tmp")
        aside.write_text(json.dumps(dict(watermarks)))
        os.replace(aside, self.watermarks)

    def collect(self) -> None:
        """Remove old manifests, and the segments and notes that none of the kept ones needs."""
        paths = sorted(self.folder.glob("*.json"))
        kept = [_read(path) for path in paths[-KEPT:]]
        for path in paths[:-KEPT]:
            path.unlink()
        if kept:
            self._sweep({ref.name for manifest in kept for ref in manifest.segments}, kept[-1].batch)

    def _sweep(self, live: Iterable[str], batch: int) -> None:
        keep = {str(self.segments / name) for name in live}
        for path in self.segments.glob("*/*/*"):
            if str(path) not in keep:
                path.unlink(missing_ok=True)
        for note in self.notes.iterdir():
            if int(note.name.lstrip(".").split("-")[0]) <= batch:
                note.unlink(missing_ok=True)

    def staged(self, batch: int) -> Path:
        """Where workers put the results of a batch."""
        return self.results / f"{batch:012d}"

    def unstage(self, batch: int) -> None:
        """Results of the batch have been published."""
        shutil.rmtree(self.staged(batch), ignore_errors=True)


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

    def noted(self, batch: int, worker: int, wave: int) -> tuple[SegmentRef, ...]:
        """This batch's segments of a worker up to a wave."""
        path = Path(self.notes, f"{batch:012d}-{worker}-{wave}{self.run}")
        try:
            return tuple(SegmentRef(**ref) for ref in json.loads(path.read_text()))
        except FileNotFoundError as error:
            raise StateError(
                f"note {path} is missing",
                detail="worker state is not visible to a later wave.",
                hint="the checkpoint must lie on a file system that all workers share.",
            ) from error


def announced(path: str) -> Watermarks:
    """The watermarks that :meth:`Ledger.announce` left at `path`."""
    watermarks: Watermarks = json.loads(Path(path).read_text())
    return watermarks


def write_durably(final: Path, content: bytes) -> None:
    """Write aside, sync, rename, sync the folder."""
    aside = final.with_name(f".{final.name}.tmp")
    with open(aside, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, final)
    folder = os.open(final.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _read(path: Path) -> Manifest:
    try:
        text, digest = path.read_text().splitlines()
        if digest != _digest(text):
            raise ValueError(f"its checksum is {_digest(text)} instead of {digest}")
        plain = json.loads(text)
        segments = tuple(SegmentRef(**ref) for ref in plain.pop("segments"))
        return Manifest(segments=segments, files=tuple(plain.pop("files")), **plain)
    except (ValueError, TypeError, KeyError) as error:
        raise StateError(
            f"manifest {path} is damaged", detail=str(error), hint="restore it from a backup of the checkpoint."
        ) from error
