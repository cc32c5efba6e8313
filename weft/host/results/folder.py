"""The folder that result files are put into: on this machine, or at a URL such as that of an object store.

What must hold: a file is there whole or not at all, and putting it again replaces it by itself.  A folder gets it under
a hidden name, then renames it; a store shows an object when all of it has come.  Readers see the same in both.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from weft.errors import SinkError
from weft.host.results.merging import throw_away
from weft.host.state.durable import sync_file, sync_folder, write_durably
from weft.host.url import (
    CURE,
    UrlError,
    ask,
    copy_file,
    list_names,
    read_file,
    read_url,
    remove_file,
    say_error,
    show_url,
    write_file,
)

Made = TypeVar("Made")


class Folder(Protocol):
    """A folder of files.  What fails raises `OSError`."""

    def begin(self) -> None:
        """Make the folder."""

    def clean(self) -> None:
        """Remove what a run that died has left half done."""

    def names(self, *, deep: bool) -> list[str]:
        """Visible files, in order of their names; with those of the folders inside, or not."""

    def read(self, name: str) -> Any:
        """A file, as Arrow opens it; None if there is none."""

    def put(self, source: Path, name: str) -> None:
        """Put a local file, which is synced, under a name."""

    def write(self, name: str, table: pa.Table) -> None:
        """Put rows, as a Parquet file."""

    def write_bytes(self, name: str, content: bytes) -> None:
        """Put a small file."""

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""

    def sync(self) -> None:
        """Make sure that what was put stays."""


def open_folder(path: str | os.PathLike[str]) -> Folder:
    """The folder at a path or a URL; a relative path counts from where the program is now, not when it runs."""
    url = read_url(path)
    return LocalFolder(Path(path).absolute()) if url is None else UrlFolder(url)


class LocalFolder(Folder):
    """A folder that the driver sees."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    def begin(self) -> None:
        """Make the folder."""
        self.path.mkdir(parents=True, exist_ok=True)

    def clean(self) -> None:
        """Remove temporary files and earlier generations."""
        for stale in self.path.glob(".*.tmp"):
            stale.unlink(missing_ok=True)
        throw_away(self.path)

    def names(self, *, deep: bool) -> list[str]:
        """Visible files, and folders if those inside do not count; none if there is no folder."""
        if not self.path.is_dir():
            return []
        found = (path for path in self.path.rglob("*") if path.is_file()) if deep else self.path.iterdir()
        return sorted(str(path) for path in map(self._within, found) if not is_hidden(path))

    def read(self, name: str) -> Path | None:
        """Its path."""
        path = self.path / name
        return path if path.exists() else None

    def put(self, source: Path, name: str) -> None:
        """By a second name of the same file; by a copy if it is on another disk.

        If the folder itself has vanished, earlier results went with it: it is not made again.
        """
        final = self.path / name
        for inside in reversed(Path(name).parents[:-1]):
            (self.path / inside).mkdir(exist_ok=True)
        aside = _aside(final)
        aside.unlink(missing_ok=True)
        try:
            os.link(source, aside)
        except OSError:
            shutil.copyfile(source, aside)
            sync_file(aside)
        os.replace(aside, final)
        aside.unlink(missing_ok=True)  # a rename onto a second name of the same file leaves both
        if final.parent != self.path:
            sync_folder(final.parent)

    def write(self, name: str, table: pa.Table) -> None:
        """Aside, then renamed."""
        aside = _aside(self.path / name)
        pq.write_table(table, aside)
        sync_file(aside)
        os.replace(aside, self.path / name)

    def write_bytes(self, name: str, content: bytes) -> None:
        """Aside, then renamed."""
        write_durably(self.path / name, content)

    def remove(self, name: str) -> None:
        """Remove a file."""
        (self.path / name).unlink(missing_ok=True)

    def sync(self) -> None:
        """Make the names durable."""
        sync_folder(self.path)

    def _within(self, path: Path) -> Path:
        return path.relative_to(self.path)


class UrlFolder(Folder):
    """A folder of an object store, or of a file system that executors share."""

    def __init__(self, url: str) -> None:
        self._url = url

    def __str__(self) -> str:
        return show_url(self._url)

    def begin(self) -> None:
        """See whether it can be reached; a store has no folders to make."""
        self.names(deep=False)

    def clean(self) -> None:
        """Nothing is left half done."""

    def names(self, *, deep: bool) -> list[str]:
        """Visible files."""
        found = self._ask(lambda files, root: list_names(files, root, ""))
        return [name for name in found if not is_hidden(Path(name)) and (deep or "/" not in name)]

    def read(self, name: str) -> pa.BufferReader | None:
        """Its content."""
        content = self._ask(lambda files, root: read_file(files, f"{root}/{name}"))
        return None if content is None else pa.BufferReader(content)

    def put(self, source: Path, name: str) -> None:
        """Copy it there, block by block."""
        self._ask(lambda files, root: copy_file(files, f"{root}/{name}", source))

    def write(self, name: str, table: pa.Table) -> None:
        """Write it in memory, then there."""
        file = pa.BufferOutputStream()
        pq.write_table(table, file)
        self.write_bytes(name, file.getvalue())

    def write_bytes(self, name: str, content: bytes) -> None:
        """In one request, or in parts that show when the last has come."""
        self._ask(lambda files, root: write_file(files, f"{root}/{name}", content))

    def remove(self, name: str) -> None:
        """Remove it."""
        self._ask(lambda files, root: remove_file(files, f"{root}/{name}"))

    def sync(self) -> None:
        """A store has it for good when a request has ended."""

    def _ask(self, call: Callable[[fs.FileSystem, str], Made]) -> Made:
        try:
            return ask(self._url, call)
        except UrlError as error:
            raise SinkError(f"{self} cannot be used for results", detail=str(error), hint=CURE) from None
        except OSError as error:
            raise OSError(say_error(self._url, error).rstrip(".")) from None


def is_hidden(path: Path) -> bool:
    """Whether readers leave a file out."""
    return any(part.startswith((".", "_")) for part in path.parts)


def _aside(final: Path) -> Path:
    return final.with_name(f".{final.name}.tmp")
