"""Files of a folder that is said by a URL.

A file is known by its URL without secrets: so it is written down and shown.  Whoever reads it has the whole URL of the
folder.  What must hold: a store that cannot be reached is not taken for a file that cannot be read, since such a file
may be left out for ever; it raises another error, in the middle of whatever reads.
"""

from __future__ import annotations

import fnmatch
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import pyarrow as pa
from pyarrow import fs

from weft.errors import SourceError
from weft.host.sources.partitions import is_hidden
from weft.host.url import CURE, UrlError, ask, say_error, show_url

Made = TypeVar("Made")
BLOCK = 1 << 20
"""Bytes that are asked for at a time, at least."""


@dataclass(frozen=True)
class RemoteFolder:
    """A folder, a file, or a pattern such as `s3://bucket/in/2026-*.parquet`."""

    url: str = field(repr=False)

    @property
    def shown(self) -> str:
        """The URL without what may be secret."""
        return show_url(self.url)

    @property
    def root(self) -> str:
        """The folder as names of its files begin."""
        return self._named(self._ask(lambda _, root: root))

    def list(self, *, deep: bool = False) -> list[str]:
        """The files, by name; `deep` looks into the folders of the folder."""
        return [self._named(path) for path in self._ask(lambda files, root: _list(files, root, deep=deep))]

    def _named(self, path: str) -> str:
        return f"{self.url.partition('://')[0]}://{path}"

    def size(self, file: str) -> int:
        """Bytes of a file."""
        return int(self._about(file).size)

    def stamp(self, file: str) -> tuple[int, int]:
        """Bytes of a file, and when it was written."""
        about = self._about(file)
        return about.size, about.mtime_ns

    def open(self, file: str) -> pa.NativeFile:
        """A file for Arrow."""
        return pa.PythonFile(self.raw(file), mode="r")

    def open_text(self, file: str) -> pa.NativeFile:
        """A file for Arrow that is read from its beginning to its end, and may be compressed."""
        path = self._path(file)
        return self._ask(lambda files, _: files.open_input_stream(path, compression="detect"))

    def buffered(self, file: str, size: int) -> io.BufferedReader:
        """A file for Python that is read line by line."""
        return io.BufferedReader(cast("Any", self.raw(file)), size)

    def raw(self, file: str) -> RemoteFile:
        """A file for Python."""
        return RemoteFile(self._ask, self._path(file))

    def _about(self, file: str) -> fs.FileInfo:
        path = self._path(file)
        found = self._ask(lambda files, _: files.get_file_info(path))
        if found.type != fs.FileType.File:
            raise FileNotFoundError("it is gone")
        return found

    def _path(self, file: str) -> str:
        return file.partition("://")[2]

    def _ask(self, call: Callable[[fs.FileSystem, str], Made]) -> Made:
        try:
            return ask(self.url, call)
        except UrlError as error:
            raise SourceError(f"{self.shown} cannot be used", detail=str(error), hint=CURE) from None
        except FileNotFoundError:
            raise
        except OSError as error:
            raise self.unreachable(error) from error

    def unreachable(self, error: OSError) -> SourceError:
        """The error about a store that does not give what it has."""
        return SourceError(
            f"{self.shown} cannot be reached",
            detail=say_error(self.url, error),
            hint="nothing is lost; see whether the store answers and lets these keys read, then run again.",
        )


class RemoteFile(io.RawIOBase):
    """A file that is read in parts, each asked for until it comes."""

    def __init__(self, ask_store: Callable[..., Any], path: str) -> None:
        self._ask, self._path, self._at = ask_store, path, 0
        self._opened: pa.NativeFile | None = None
        self._ahead = 0, b""
        """Where the bytes begin that were fetched last, and these: columns that are asked for often lie together."""
        self._size: int = self._ask(lambda files, _: self._open(files).size())

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """Where the next read begins."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go elsewhere."""
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def read(self, count: int | None = -1) -> bytes:
        """Some bytes, or all that are left."""
        left = max(0, self._size - self._at)
        count = left if count is None or count < 0 else min(count, left)
        start, ahead = self._ahead
        if not start <= self._at <= self._at + count <= start + len(ahead):
            start, wanted = self._at, min(left, max(count, BLOCK))
            ahead = self._ask(lambda files, _: self._fetch(files, start, wanted))
            self._ahead = start, ahead
        found = ahead[self._at - start : self._at - start + count]
        self._at += len(found)
        return found

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        """Fill a buffer."""
        found = self.read(len(buffer))
        buffer[: len(found)] = found
        return len(found)

    def _open(self, files: fs.FileSystem) -> pa.NativeFile:
        if self._opened is None:
            self._opened = files.open_input_file(self._path)
        return self._opened

    def _fetch(self, files: fs.FileSystem, start: int, count: int) -> bytes:
        opened, self._opened = self._open(files), None
        found: bytes = opened.read_at(count, start)
        self._opened = opened  # one that has failed is opened anew
        return found


def _list(files: fs.FileSystem, root: str, *, deep: bool) -> list[str]:
    """Visible files at a folder, a file or a pattern, in order of their names."""
    parts = root.split("/")
    fixed = next((at for at, part in enumerate(parts) if any(mark in part for mark in "*[")), None)
    if fixed is not None:
        within = _files_in(files, "/".join(parts[:fixed]), recursive=len(parts) - fixed > 1)
        found = [path for path in within if _matches(path.split("/"), parts)]
    elif files.get_file_info(root).type == fs.FileType.File:
        found = [root]
    else:
        within = _files_in(files, root, recursive=deep)
        found = [path for path in within if not any(map(is_hidden, path[len(root) + 1 :].split("/")[:-1]))]
    return sorted(path for path in found if not path.rpartition("/")[2].startswith((".", "_")))


def _files_in(files: fs.FileSystem, folder: str, *, recursive: bool) -> list[str]:
    selector = fs.FileSelector(folder, allow_not_found=True, recursive=recursive)
    return [about.path for about in files.get_file_info(selector) if about.type == fs.FileType.File]


def _matches(path: list[str], pattern: list[str]) -> bool:
    return len(path) == len(pattern) and all(map(fnmatch.fnmatchcase, path, pattern))
