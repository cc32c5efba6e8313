"""The files of all streams, dealt to micro-batches.

Files are discovered as they arrive and written down in a log for each stream, in name order among the new ones.  An
offset is a position in each log, so a batch that is run again reads the same files, and a file whose name sorts
before older ones is not lost.  What must hold: a log only grows, and what it names is on disk before an offset
counts it.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from weft.errors import SourceError, StateError
from weft.host.sources.files import FileSource, Piece, list_files, pieces, shares
from weft.host.state.durable import sync_folder

Offset = dict[str, int]
"""Stream -> how many of its files have been read."""
_RESTORE = "restore it from a backup of the checkpoint, or start again from an empty checkpoint."


class FileLog:
    """The files a stream has met, in the order in which they are read: one a line, each with its checksum."""

    def __init__(self, path: str, log: str) -> None:
        self.path, self.log = path, Path(log)
        self.files, self._size = self._read()
        self._known = set(self.files)

    def between(self, start: int, end: int) -> list[str]:
        """The files between two offsets."""
        if end > len(self.files):
            raise self._damaged(f"it names {len(self.files)} files, of which {end} were read.")
        return self.files[start:end]

    def discover(self) -> int:
        """Note new files; return how many are known now."""
        if new := [file for file in _listed(self.path) if file not in self._known]:
            _check_names(new)
            self._append(new)
            self.files += new
            self._known.update(new)
        return len(self.files)

    def _append(self, new: Sequence[str]) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        content = b"".join(map(_line, new))
        fresh = not self.log.exists()
        with open(self.log, "x+b" if fresh else "r+b") as file:
            file.truncate(self._size)  # a line that was being written when its process died
            file.seek(self._size)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if fresh:
            sync_folder(self.log.parent)
        self._size += len(content)

    def _read(self) -> tuple[list[str], int]:
        content = self.log.read_bytes() if self.log.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        return [self._file(number, line) for number, line in enumerate(whole.splitlines(), 1)], len(whole)

    def _file(self, number: int, line: bytes) -> str:
        checksum, _, name = line.partition(b" ")
        if checksum != _checksum(name):
            raise self._damaged(f"the checksum of line {number} is wrong.")
        file: str = json.loads(name)
        return file

    def _damaged(self, detail: str) -> StateError:
        return StateError(f"file log {self.log} is damaged", detail=detail, hint=_RESTORE)


def _listed(path: str) -> list[str]:
    try:
        return list_files(path)
    except OSError as error:
        hint = "make it readable and run again; nothing was lost."
        raise SourceError(f"{path} cannot be listed", detail=f"{error}.", hint=hint) from error


def _check_names(files: Sequence[str]) -> None:
    for file in files:
        try:
            file.encode()
        except UnicodeEncodeError as error:
            hint = "rename it; nothing was read."
            raise SourceError(f"file {os.fsencode(file)!r} has a name that is no UTF-8", hint=hint) from error


def _line(file: str) -> bytes:
    name = json.dumps(file).encode()
    return _checksum(name) + b" " + name + b"\n"


def _checksum(name: bytes) -> bytes:
    return b"%08x" % zlib.crc32(name)


@dataclass(frozen=True)
class Feed:
    """The files of one stream."""

    stream: str
    source: FileSource
    content: bytes
    """The stream's pickled Ingest."""
    log: str
    """Where the discovered files are written down."""


class Feeds:
    """The files of all streams; logs are opened where they are needed, so that feeds can be sent to other processes."""

    def __init__(self, feeds: Sequence[Feed]) -> None:
        self.by_stream: Mapping[str, Feed] = {feed.stream: feed for feed in feeds}
        self._logs: dict[str, FileLog] = {}

    def __getstate__(self) -> dict[str, object]:
        """Without the logs, which grow for ever: whoever gets it opens those it needs."""
        return {"by_stream": self.by_stream, "_logs": {}}

    def beginning(self) -> Offset:
        """Nothing has been read."""
        return dict.fromkeys(self.by_stream, 0)

    def discover(self) -> Offset:
        """How many files there are now."""
        return {stream: self._log(stream).discover() for stream in self.by_stream}

    def end(self, start: Mapping[str, int], known: Mapping[str, int]) -> Offset:
        """Where a batch ends that begins at `start`, with so many files known."""
        return {stream: self._end(feed, start.get(stream, 0), known[stream]) for stream, feed in self.by_stream.items()}

    def _end(self, feed: Feed, start: int, known: int) -> int:
        step = feed.source.max_files
        return max(start, known if step is None else min(known, start + step))

    def deal(self, start: Mapping[str, int], end: Mapping[str, int], tasks: int) -> list[list[Piece]]:
        """The files between two offsets, dealt to at most so many tasks."""
        found = []
        for stream, feed in self.by_stream.items():
            files = self._log(stream).between(start.get(stream, 0), end.get(stream, 0))
            found += pieces(feed.source.format, files, stream)
        return shares(found, tasks)

    def check(self, offset: Mapping[str, int]) -> None:
        """Refuse if a log does not know all files that were read."""
        for stream in self.by_stream:
            self._log(stream).between(0, offset.get(stream, 0))

    def _log(self, stream: str) -> FileLog:
        if stream not in self._logs:
            self._logs[stream] = FileLog(self.by_stream[stream].source.path, self.by_stream[stream].log)
        return self._logs[stream]
