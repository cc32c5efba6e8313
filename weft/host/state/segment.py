"""Segments: immutable rows of one store on one worker, with their indexes, in memory or in one mapped file.

File layout; everything is aligned to 64 bytes, so that it can be used from the mapped file without a copy:

    Arrow IPC file with one record batch | index arrays | footer (JSON) | footer length | magic

A file is written under a temporary name and renamed; its name depends on store, worker, batch and run.  It is synced
to disk while the worker goes on; `settle` waits for that, before the manifest can name the file.  The reference in the
manifest holds its length and checksum.  A file is checked in full when a process first opens it, and again if its
length, inode or time of change differs from before.  A damaged file is an error that names it.
"""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from weft.errors import StateError
from weft.kernels.checksum import checksum
from weft.kernels.index import Index

MAGIC = b"WEFTSEG3"
"""Ends every file; its last digit is the version of the layout."""
ALIGN = 64


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows and their indexes, ready to be probed."""

    rows: pa.RecordBatch
    indexes: Mapping[str, Index]
    """By the names of their keys."""
    width: int
    """Bytes of a row."""

    @staticmethod
    def of(rows: pa.RecordBatch, indexes: Mapping[str, Index]) -> Segment:
        """Rows with their indexes."""
        return Segment(rows, indexes, rows.nbytes // max(1, rows.num_rows))


@dataclass(frozen=True, slots=True)
class SegmentRef:
    """What the manifest knows about a segment."""

    name: str
    store: str
    worker: int
    rows: int
    bytes: int
    level: int
    """How often its rows were merged."""
    first_batch: int
    last_batch: int
    oldest: int | None
    newest: int | None
    """Event times of its rows, if the store has a clock."""
    checksum: str
    origin: str = ""
    """The origin of the new rows of an intermediate store, see weft.topology.model; used only in their own batch."""


class MemorySegments:
    """Segments of the in-process host."""

    fetched = 0

    def __init__(self) -> None:
        self._kept: dict[str, Segment] = {}

    def write(self, name: str, segment: Segment, halfway: Callable[[], None]) -> tuple[int, str]:
        """Keep the segment under `name`."""
        halfway()
        self._kept[name] = segment
        return segment.rows.nbytes, ""

    def open(self, ref: SegmentRef) -> Segment:
        """The segment behind a reference."""
        return self._kept[ref.name]

    def settle(self) -> None:
        """Memory has nothing to wait for."""

    def retain(self, names: Iterable[str]) -> None:
        """Forget all segments but these."""
        keep = set(names)
        self._kept = {name: segment for name, segment in self._kept.items() if name in keep}


_open: dict[str, tuple[tuple[int, ...], Segment]] = {}
"""Segments this process has opened and checked, by path."""


class SegmentFiles:
    """Segments in a folder."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.fetched = 0
        self._opened: dict[str, Segment] = {}
        """Segments this object has opened: files are immutable, so each is looked at once."""
        self._syncing: list[Future[None]] = []

    def write(self, name: str, segment: Segment, halfway: Callable[[], None]) -> tuple[int, str]:
        """Write the segment under `name`; return its length and checksum."""
        final = Path(self.root, name)
        final.parent.mkdir(parents=True, exist_ok=True)
        aside = final.with_name(f".{final.name}.{os.getpid()}.tmp")
        with open(aside, "wb") as file:
            _write(file, segment, halfway)
        self._opened.pop(name, None)
        with pa.memory_map(str(aside)) as mapped:
            buffer = mapped.read_buffer()
        os.replace(aside, final)
        self._syncing.append(self.secure(name))
        found = checksum(buffer)
        _open[str(final)] = (
            _version(str(final)),
            _parse(buffer),
        )  # just written: it need not be checked when it is opened
        return buffer.size, found

    def secure(self, name: str) -> Future[None]:
        """Begin to make a file durable that was written."""
        return syncers().submit(_sync, os.open(Path(self.root, name), os.O_RDONLY))

    def settle(self) -> None:
        """Wait until everything written is durable."""
        while self._syncing:
            self._syncing.pop().result()

    def open(self, ref: SegmentRef) -> Segment:
        """The segment behind a reference."""
        if ref.name not in self._opened:
            self._opened[ref.name] = self.load(ref)
        return self._opened[ref.name]

    def load(self, ref: SegmentRef) -> Segment:
        """Map the file, and check it if this process has not done so."""
        path = str(Path(self.root, ref.name))
        seen = _version(path)
        known = _open.get(path)
        if known is None or known[0] != seen:
            _open[path] = (seen, _load(path, ref))
        return _open[path][1]

    def forget(self, live: Iterable[str]) -> None:
        """Unmap all segments of this folder that are no longer live."""
        keep = {str(Path(self.root, name)) for name in live}
        self._opened.clear()
        for path in [path for path in _open if path.startswith(self.root + os.sep) and path not in keep]:
            del _open[path]


@functools.cache
def syncers() -> ThreadPoolExecutor:
    """Threads that wait for the disk; each worker process starts them when it first needs them."""
    return ThreadPoolExecutor(4)


def _sync(file: int) -> None:
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _write(file: Any, segment: Segment, halfway: Callable[[], None]) -> None:
    with pa.ipc.new_file(file, segment.rows.schema) as writer:
        writer.write_batch(segment.rows)
    footer: dict[str, Any] = {"arrow": file.tell(), "indexes": []}
    halfway()
    for key, index in segment.indexes.items():
        places = {name: _append(file, array) for name, array in index.arrays.items()}
        footer["indexes"].append(
            {"key": key, "codes": index.has_codes, "dimensions": index.dimensions, "arrays": places}
        )
    text = json.dumps(footer).encode()
    file.write(text)
    file.write(len(text).to_bytes(8, "little"))
    file.write(MAGIC)


def _append(file: Any, array: Any) -> list[Any]:
    file.write(b"\0" * (-file.tell() % ALIGN))
    place = [file.tell(), array.dtype.str, len(array)]
    file.write(np.ascontiguousarray(array).view(np.uint8).data)
    return place


def _version(path: str) -> tuple[int, ...]:
    """What tells one version of a file from another."""
    try:
        stat = os.stat(path)
    except OSError as error:
        raise _damage(path, "the file is missing") from error
    return (stat.st_size, stat.st_ino, stat.st_mtime_ns)


def _load(path: str, ref: SegmentRef) -> Segment:
    with pa.memory_map(path) as mapped:
        buffer = mapped.read_buffer()
    if buffer.size != ref.bytes:
        raise _damage(path, f"it has {buffer.size} bytes instead of {ref.bytes}")
    if (found := checksum(buffer)) != ref.checksum:
        raise _damage(path, f"its checksum is {found} instead of {ref.checksum}")
    if (version := buffer[buffer.size - 8 :].to_pybytes()) != MAGIC:
        raise StateError(
            f"state file {path} has another layout",
            detail=f"it ends in {version!r}, this version of Weft writes {MAGIC!r}.",
            hint="go on with the version of Weft that wrote it, or start again from an empty checkpoint.",
        )
    return _parse(buffer)


def _parse(buffer: pa.Buffer) -> Segment:
    size = int.from_bytes(buffer[buffer.size - 16 : buffer.size - 8].to_pybytes(), "little")
    footer = json.loads(buffer[buffer.size - 16 - size : buffer.size - 16].to_pybytes())
    rows = pa.ipc.open_file(pa.BufferReader(buffer.slice(0, footer["arrow"]))).get_batch(0)
    return Segment.of(rows, {entry["key"]: _index(buffer, entry) for entry in footer["indexes"]})


def _index(buffer: pa.Buffer, entry: dict[str, Any]) -> Index:
    arrays: dict[str, Any] = {
        name: np.frombuffer(buffer, dtype=np.dtype(kind), count=count, offset=at)
        if count
        else np.empty(0, dtype=np.dtype(kind))
        for name, (at, kind, count) in entry["arrays"].items()
    }
    dimensions = entry.get("dimensions", entry.get("ranges", False))  # an older file says whether it has one
    for name in ("points", "boxes"):
        arrays.setdefault(name, np.empty(0, dtype=np.int64))
    return Index(**arrays, has_codes=entry["codes"], dimensions=int(dimensions))


def _damage(path: str, what: str) -> StateError:
    return StateError(
        f"state file {path} is damaged",
        detail=f"{what}; nothing was joined with it.",
        hint="restore the file from a backup of the checkpoint, or start again from an empty checkpoint.",
    )
