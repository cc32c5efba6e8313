"""Running sessions as the scaling curves see them: batches from commit to commit, drops of files, idle looks.

A batch lasts from one commit to the next, with whatever Spark does in between.  A look is one search for new files in
all streams; it is timed by readers that note when they are asked and when they have answered.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import weft
from bench.machine import processor_seconds
from weft.host.sources.folders import FileSource, FolderReader
from weft.host.sources.source import Position

POLL = 0.002
PATIENCE = 300.0


@dataclass(frozen=True, slots=True)
class Batch:
    """A finished batch."""

    seconds: float
    """From the commit before."""
    inner: float
    """What Weft says of it, without Spark's part."""
    rows: int
    results: int
    state: int


class Looks:
    """How long a session takes to look for new files: from the first reader that is asked to the last that answers."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        """Of each look; the last one may not have ended."""
        self._began, self._asking = 0.0, False

    def begin(self) -> None:
        """A reader is asked what is there: the first one begins a look."""
        if not self._asking:
            self._began, self._asking = time.perf_counter(), True
            self.seconds.append(0.0)

    def end(self) -> None:
        """A reader has said where the next batch ends: the last one ends the look."""
        self._asking = False
        self.seconds[-1] = time.perf_counter() - self._began


@dataclass(frozen=True)
class WatchedFolder(FileSource):
    """Parquet files, and a note of every look for new ones."""

    looks: Looks = field(default_factory=Looks, compare=False)
    """Shared by all streams of a session."""

    def open(self, stream: str, folder: str) -> FolderReader:
        """A reader that takes notes."""
        return WatchedReader(self, stream, os.path.join(folder, f"{stream}.files"))


class WatchedReader(FolderReader):
    """Notes when it is asked and when it has answered; tasks get a reader that does not."""

    def __init__(self, source: WatchedFolder, stream: str, log: str) -> None:
        super().__init__(source, stream, log)
        self.looks, self.arguments = source.looks, (stream, log)
        self.plain = FileSource(source.format, source.path, source.max_files, source.declared)

    def __reduce__(self) -> tuple[type[FolderReader], tuple[FileSource, str, str]]:
        return FolderReader, (self.plain, *self.arguments)

    def discover(self) -> Position:
        """The first question of a look."""
        self.looks.begin()
        return super().discover()

    def end(self, start: Position, known: Position) -> Position:
        """The last question of a look."""
        found = super().end(start, known)
        self.looks.end()
        return found


@contextmanager
def run_session(
    spark: Any,
    folder: Path,
    streams: Sequence[str],
    sql: str,
    workers: int,
    every: float = 0.001,
    looks: Looks | None = None,
) -> Iterator[weft.Handle]:
    """A session that runs in the background, one file of each stream a batch; its looks are noted if asked for."""
    out = Path(tempfile.mkdtemp(prefix="weft-scale-"))
    session = weft.Session(checkpoint=out / "state", workers=workers, spark=spark, progress=False)
    try:
        for name in streams:
            plain = weft.read.parquet(folder / name, max_files=1)
            session.stream(name, plain if looks is None else WatchedFolder(**vars(plain), looks=looks))
        session.query("joined", sql).to_parquet(out / "rows")
        yield session.start(every=every)
    finally:
        session.close()
        shutil.rmtree(out, ignore_errors=True)


def batches(handle: weft.Handle, count: int) -> list[Batch]:
    """The next `count` batches of a running session."""
    found: list[Batch] = []
    clock = time.perf_counter()
    until = clock + PATIENCE * max(1, count // 20)
    while len(found) < count:
        time.sleep(POLL)
        for batch in handle.history(handle.report().count - len(found)):
            now = time.perf_counter()
            found.append(Batch(now - clock, batch.seconds, batch.total_in, batch.total_out, batch.state_rows))
            clock = now
        if not handle.active or time.perf_counter() > until:
            handle.wait(1)
            raise TimeoutError(f"only {len(found)} of {count} batches were committed")
    return found


def time_drop(handle: weft.Handle, ready: Sequence[Path], landing: Path, rows: int) -> tuple[float, float]:
    """Seconds from a drop of one file a stream to the commit of its last row; and what Weft says of these batches."""
    before = handle.report()
    due = sum(before.rows_in.values()) + rows
    for file in ready:
        os.link(file, landing / file.parent.name / f".{file.name}")
    clock = time.perf_counter()
    for file in ready:
        (landing / file.parent.name / f".{file.name}").rename(landing / file.parent.name / file.name)
    while sum(handle.report().rows_in.values()) < due:
        time.sleep(POLL)
        if not handle.active or time.perf_counter() > clock + PATIENCE:
            raise TimeoutError("a drop was not read")
    return time.perf_counter() - clock, handle.report().working - before.working


def time_looks(handle: weft.Handle, looks: Looks, seconds: float) -> tuple[list[float], float]:
    """Seconds of looks that find nothing, and processor seconds of all processes for one of them."""
    time.sleep(1.0)
    first, begun = len(looks.seconds), processor_seconds()
    time.sleep(seconds)
    spent, found = processor_seconds() - begun, looks.seconds[first:-1]
    assert handle.active
    return sorted(found), spent / max(1, len(found))
