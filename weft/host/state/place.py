"""Where tasks find the files of a checkpoint and put new ones: a folder that all machines share, or a depot.

With a depot, each machine has a folder of its own for copies of segments.  A segment is written there, by the worker
that will read it, and put into the depot while the worker goes on; `settle` waits for that, before the manifest can
name it.  A worker that starts on another machine gets the segments that it lacks.  What must hold: a copy is whole or
missing, and may be removed at any moment; copies that were not used for the longest time go when they are too many.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from weft.errors import StateError
from weft.host.state.depot import Depot
from weft.host.state.manifest import FileState, refuse_missing_note
from weft.host.state.segment import Segment, SegmentRef, syncers

SHARE = 16
"""Copies are counted when a process has added one part in so many of what is allowed."""
_added = 0
"""Bytes of copies that this process has made since it last counted them."""


@dataclass(frozen=True)
class Place:
    """The files of a checkpoint, as tasks see them."""

    root: str
    """The folder, if there is no depot."""
    depot: Depot | None = None
    cache: int = 20 << 30
    """Bytes of copies that a machine keeps."""

    @property
    def folder(self) -> Path:
        """Where the files are on this machine."""
        return Path(self.root) if self.depot is None else Path(_scratch(), f"weft-{self.depot.digest}")

    def state(self, run: str = "") -> FileState:
        """Segments and notes, for one task of a run."""
        segments, notes = str(self.folder / "segments"), str(self.folder / "notes")
        return FileState(segments, notes, run) if self.depot is None else CopiedState(segments, self, run)

    def keep(self, name: str) -> None:
        """Let the driver have a file of this machine, of which no copy stays here."""
        if self.depot is not None:
            path = self.folder / name
            self.depot.put(name, path)
            path.unlink()


def _scratch() -> str:
    """A folder of this executor, which its cluster manager removes with it; else the machine's temporary folder."""
    given = os.environ.get("SPARK_EXECUTOR_DIRS") or os.environ.get("LOCAL_DIRS") or tempfile.gettempdir()
    return given.split(os.pathsep)[0].split(",")[0]


class CopiedState(FileState):
    """Segments and notes of a depot, with copies of segments on this machine."""

    def __init__(self, segments: str, place: Place, run: str) -> None:
        super().__init__(segments, "", run)
        assert place.depot is not None
        self._depot, self._most = place.depot, place.cache

    def write(self, name: str, segment: Segment, halfway: Callable[[], None]) -> tuple[int, str]:
        """Write the segment here, and begin to put it into the depot."""
        found = super().write(name, segment, halfway)
        _count(self.root, found[0], self._most)
        return found

    def secure(self, name: str) -> Future[None]:
        """Put a file that was written into the depot."""
        return syncers().submit(self._depot.put, f"segments/{name}", Path(self.root, name))

    def load(self, ref: SegmentRef) -> Segment:
        """Map the copy of a segment; get it first if there is none."""
        path = Path(self.root, ref.name)
        if path.exists():
            with suppress(OSError, StateError):  # it was removed just now, or a machine died while it wrote it
                os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))  # used now, and not another version
                return super().load(ref)
        if self._depot.get(f"segments/{ref.name}", path):
            self.fetched += 1
            _count(self.root, ref.bytes, self._most)
        return super().load(ref)

    def note(self, batch: int, worker: int, wave: int, refs: Iterable[SegmentRef]) -> None:
        """Remember this batch's segments of a worker up to a wave."""
        content = json.dumps([asdict(ref) for ref in refs]).encode()
        self._depot.put_bytes(f"notes/{batch:012d}-{worker}-{wave}{self.run}", content)

    def recall(self, batch: int, worker: int, wave: int) -> tuple[SegmentRef, ...]:
        """This batch's segments of a worker up to a wave."""
        name = f"notes/{batch:012d}-{worker}-{wave}{self.run}"
        content = self._depot.get_bytes(name)
        if content is None:
            raise refuse_missing_note(f"{self._depot.shown}/{name}")
        return tuple(SegmentRef(**ref) for ref in json.loads(content))


def _count(folder: str, size: int, most: int) -> None:
    """Remove the copies that were not used for the longest time, if they are too many."""
    global _added
    _added += size
    if _added < most // SHARE:
        return
    _added = 0
    found = []
    for path in Path(folder).rglob("*.seg"):
        with suppress(OSError):
            found.append((path.stat().st_atime_ns, path.stat().st_size, path))
    room = most - most // SHARE
    for _, length, path in sorted(found, reverse=True):
        room -= length
        if room < 0:
            path.unlink(missing_ok=True)
