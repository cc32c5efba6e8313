"""A log of the files that a stream has found, in the order in which they are read.

Each look at the folder appends the new files, in the order of their names.  So a file whose name sorts before older
ones is not lost, and a position in the log always means the same files.  What must hold: positions only grow, and a
file's line is on disk before a position counts it.

A file that was read and has been gone from the folder for a day is forgotten: a stream whose files are removed after
use needs no more memory after a year than after a day.  When half of the log is forgotten it is written anew: first
how many files were read, then the names of those that must not be read again, then the files to come.

The folder may be the results of another session, which merges small files.  A merged file whose parts were read before
is refused: its rows would be read twice.  So the parts are never forgotten.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from weft.errors import SourceError, StateError
from weft.host.results.part import Part
from weft.host.sources.files import At, list_files
from weft.host.state.durable import published, sync_folder, write_durably

_RESTORE = "restore it from a backup of the checkpoint, or start again from an empty checkpoint."


PATIENCE = 24 * 3600.0
"""A file that was read and has been gone for so many seconds is forgotten."""
FEW = 1_000
"""A log is not written anew for fewer files than this."""


class FileLog:
    """The files a stream has found, in the order in which they are read: one per line, each with a checksum."""

    def __init__(
        self, path: str, log: str, clock: Callable[[], float] = time.monotonic, *, at: At = None, deep: bool = False
    ) -> None:
        self.path, self.log, self._clock, self._at, self._deep = path, Path(log), clock, at, deep
        self._past = 0
        """How many files come before the first of `files`."""
        self._known: set[str] = set()
        """All files that must not be read again."""
        self._gone: dict[str, float] = {}
        """Known files that are not in the folder -> since when."""
        self.files: list[str] = []
        self._size = self._read()
        self._known.update(self.files)

    def between(self, start: int, end: int) -> list[str]:
        """The files between two positions."""
        self.check(end)
        if start < self._past:
            raise self._damage(f"the names of the first {self._past} files that were read are no longer in it.")
        return self.files[start - self._past : end - self._past]

    def known_between(self, start: int, end: int) -> list[str]:
        """The files between two positions, without those that are forgotten."""
        return self.files[max(0, start - self._past) : max(0, end - self._past)]

    def check(self, position: int) -> None:
        """Refuse if the log does not know all files that were read."""
        if position > len(self):
            raise self._damage(f"it names {len(self)} files, of which {position} were read.")

    def __len__(self) -> int:
        return self._past + len(self.files)

    def discover(self) -> int:
        """Note new files; return how many are known now."""
        there = _list(self.path, self._at, deep=self._deep)
        if new := [file for file in there if file not in self._known]:
            _check_names(new)
            self._check_merged(new)
            self.note(new)
        self._miss(there)
        return len(self)

    def note(self, new: Sequence[str]) -> None:
        """Add files to the log."""
        self._append(new)
        self.files += new
        self._known.update(new)

    def forget(self, read: int) -> None:
        """Forget files that were read before a position and have long been gone."""
        due = self._clock() - PATIENCE
        long_gone = {file for file, since in self._gone.items() if since <= due}
        if len(long_gone) < max(FEW, (len(self.files) + len(self._known)) // 4):
            return
        past = self.files[: max(0, read - self._past)]
        going = long_gone - {*self.files[len(past) :]}
        self._known -= going
        self._past, self.files = self._past + len(past), self.files[len(past) :]
        self._gone = {file: since for file, since in self._gone.items() if file not in going}
        self._write_anew()

    def _miss(self, there: Sequence[str]) -> None:
        """Note since when known files have been gone."""
        now, missing = self._clock(), self._known.difference(there)
        self._gone = {file: self._gone.get(file, now) for file in missing if Part.of(os.path.basename(file)) is None}

    def _write_anew(self) -> None:
        had = sorted(self._known.difference(self.files))
        entries: list[str | dict[str, Any]] = [{"read": self._past}, *({"had": file} for file in had), *self.files]
        content = b"".join(map(_format_line, entries))
        write_durably(self.log, content)
        self._size = len(content)

    def _check_merged(self, new: Sequence[str]) -> None:
        merged = {file: part for file in new if (part := Part.of(os.path.basename(file))) and part.level}
        known = [part for file in self._known if (part := Part.of(os.path.basename(file)))] if merged else []
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
        published(self.log)
        self._size += len(content)

    def _read(self) -> int:
        """Read the log; how many bytes of it count."""
        content = self.log.read_bytes() if self.log.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        for number, line in enumerate(whole.splitlines(), 1):
            self._take(self._parse_line(number, line))
        return len(whole)

    def _take(self, entry: Any) -> None:
        if isinstance(entry, str):
            self.files.append(entry)
        elif "read" in entry:
            self._past = entry["read"]
        else:
            self._known.add(entry["had"])

    def _parse_line(self, number: int, line: bytes) -> Any:
        checksum, _, entry = line.partition(b" ")
        if checksum != _checksum(entry):
            raise self._damage(f"the checksum of line {number} is wrong.")
        return json.loads(entry)

    def _damage(self, detail: str) -> StateError:
        return StateError(f"file log {self.log} is damaged", detail=detail, hint=_RESTORE)


def _list(path: str, at: At, *, deep: bool) -> list[str]:
    try:
        return list_files(path, at, deep=deep)
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


def _format_line(entry: str | dict[str, Any]) -> bytes:
    content = json.dumps(entry).encode()
    return _checksum(content) + b" " + content + b"\n"


def _checksum(content: bytes) -> bytes:
    return b"%08x" % zlib.crc32(content)
