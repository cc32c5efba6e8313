"""A log of the files that a stream has found, in the order in which they are read.

Each look at the folder appends the new files, in the order of their names.  So a file whose name sorts before older
ones is not lost, and a position in the log always means the same files.  What must hold: a log only grows, and its
lines are on disk before a position counts them.

The folder may be the results of another session, which merges small files.  A merged file whose parts were read before
is refused: its rows would be read twice.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Sequence
from pathlib import Path

from weft.errors import SourceError, StateError
from weft.host.results.part import Part
from weft.host.sources.files import list_files
from weft.host.state.durable import sync_folder

_RESTORE = "restore it from a backup of the checkpoint, or start again from an empty checkpoint."


class FileLog:
    """The files a stream has found, in the order in which they are read: one per line, each with a checksum."""

    def __init__(self, path: str, log: str) -> None:
        self.path, self.log = path, Path(log)
        self.files, self._size = self._read()
        self._known = set(self.files)

    def between(self, start: int, end: int) -> list[str]:
        """The files between two positions."""
        if end > len(self.files):
            raise self._damage(f"it names {len(self.files)} files, of which {end} were read.")
        return self.files[start:end]

    def discover(self) -> int:
        """Note new files; return how many are known now."""
        if new := [file for file in _list(self.path) if file not in self._known]:
            _check_names(new)
            self._check_merged(new)
            self.note(new)
        return len(self.files)

    def note(self, new: Sequence[str]) -> None:
        """Add files to the log."""
        self._append(new)
        self.files += new
        self._known.update(new)

    def _check_merged(self, new: Sequence[str]) -> None:
        merged = {file: part for file in new if (part := Part.of(os.path.basename(file))) and part.level}
        known = [part for file in self.files if (part := Part.of(os.path.basename(file)))] if merged else []
        for file, part in merged.items():
            if any(part.first <= old.last and old.first <= part.last for old in known):
                raise SourceError(
                    f"file {file} holds rows that were read before",
                    detail="it was merged from small result files, some of which this stream has read.",
                    hint="let the session that writes them keep its files: q.to_parquet(path, merge=False).",
                )

    def _append(self, new: Sequence[str]) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        content = b"".join(map(_format_line, new))
        fresh = not self.log.exists()
        with open(self.log, "x+b" if fresh else "r+b") as file:
            file.truncate(self._size)  # drops a line that was half written when its process died
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
        return [self._parse_line(number, line) for number, line in enumerate(whole.splitlines(), 1)], len(whole)

    def _parse_line(self, number: int, line: bytes) -> str:
        checksum, _, name = line.partition(b" ")
        if checksum != _checksum(name):
            raise self._damage(f"the checksum of line {number} is wrong.")
        file: str = json.loads(name)
        return file

    def _damage(self, detail: str) -> StateError:
        return StateError(f"file log {self.log} is damaged", detail=detail, hint=_RESTORE)


def _list(path: str) -> list[str]:
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
            raise SourceError(f"file {os.fsencode(file)!r} has a name that is not UTF-8", hint=hint) from error


def _format_line(file: str) -> bytes:
    name = json.dumps(file).encode()
    return _checksum(name) + b" " + name + b"\n"


def _checksum(name: bytes) -> bytes:
    return b"%08x" % zlib.crc32(name)
