"""Folders of files as sources: Parquet, CSV and JSON.

Each file is read once, in the order of a log (`FolderReader`); or all files are read again when one has changed
(`FolderNow`).

Paths are made absolute here: a checkpoint knows files by their names, and a file must not have two names.
"""

from __future__ import annotations

import contextlib
import json as jsonlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar
from typing import Literal as OneOf

import pyarrow as pa

from weft.errors import SourceError, StateError
from weft.expr.types import normalize_schema
from weft.host.sources.filelog import FileLog
from weft.host.sources.files import (
    DELIMITERS,
    Format,
    guard,
    list_files,
    names_file,
    pieces,
    read_piece,
    read_schema,
    size_of,
    stamp_of,
)
from weft.host.sources.partitions import with_fields
from weft.host.sources.remote import RemoteFolder
from weft.host.sources.source import Piece, Position, Source
from weft.host.sources.unreadable import refuse_nothing
from weft.host.url import read_url

if TYPE_CHECKING:
    from weft.query.model import Stream
    from weft.stats.sample import Sample


BadFiles = OneOf["fail", "skip"]
Read = TypeVar("Read")


@dataclass(frozen=True)
class FileSource(Source):
    """Files of a folder (or of a glob pattern)."""

    format: Format
    path: str
    max_files: int | None = None
    """At most this many files per batch; None is no limit."""
    declared: pa.Schema | None = None
    bad_files: BadFiles = "fail"
    """What happens if a file cannot be read: the run fails, or goes on without it."""
    at: RemoteFolder | None = None
    """Where the files are, if the path is a URL."""
    partitions: bool = False
    """Whether the files of all folders below are read too, and folders such as `year=2024` are columns."""

    def __post_init__(self) -> None:
        if self.max_files is not None and (not isinstance(self.max_files, int) or self.max_files < 1):
            raise SourceError(f"max_files is {self.max_files!r}", hint="use a positive number, or None for no limit.")
        if self.partitions and not os.path.isdir(self.path) and any(sign in self.path for sign in "*["):
            raise SourceError(
                f"{self.path} is a pattern, and partitions are those of a folder",
                detail="which folders are columns would depend on the pattern.",
                hint="name the folder, and say in WHERE which of its files count.",
            )

    def skip_bad_files(self) -> FileSource:
        """The same files without those that cannot be read."""
        return replace(self, bad_files="skip")

    def whole(self) -> FolderNow:
        """All files that are there; their columns are those of now, whatever comes."""
        fixed = replace(self, declared=self.schema)
        return FolderNow(fixed) if self.bad_files == "fail" else GoodFilesNow(fixed)

    @property
    def schema(self) -> pa.Schema:
        """The declared schema, or that of the first file."""
        if self.declared is not None:
            return normalize_schema(self.declared)
        files = self.files()
        if not files:
            raise refuse_nothing(self.path, local=self.at is None)
        found = self._without_bad(files, lambda good: read_schema(self.format, good[0], self.at))
        return normalize_schema(with_fields(found, files, self.root))

    @property
    def root(self) -> str:
        """The folder whose folders are columns; none if it is empty."""
        if not self.partitions:
            return ""
        return self.path if self.at is None else self.at.root

    def files(self) -> list[str]:
        """The files that are there now."""
        return list_files(self.path, self.at, deep=self.partitions)

    def log(self, path: str) -> FileLog:
        """The log of the files that is kept in a file."""
        return FileLog(self.path, path, at=self.at, deep=self.partitions)

    def _without_bad(self, files: list[str], read: Callable[[list[str]], Read]) -> Read:
        """What is read from the files, or from those that can be read, if the others may be left out."""
        while True:
            try:
                return read(files)
            except SourceError as error:
                good = [file for file in files if not names_file(error, file)]
                if self.bad_files != "skip" or not good or len(good) == len(files):
                    raise
                files = good

    def size(self) -> float | None:
        """Bytes of all files that are there now."""
        return float(sum(size_of(file, self.at) for file in self.files())) or None

    def sample(self, stream: Stream, columns: Sequence[str], most: int, seed: int) -> Sample:
        """Rows from parts that are spread over all files."""
        from weft.host.sources.sampling import draw_from_files  # late: tasks that read files need no sampling

        return self._without_bad(
            self.files(),
            lambda good: draw_from_files(self.format, good, stream, columns, most, seed, self.at, self.root),
        )

    def describe(self) -> str:
        """Format and place."""
        return f"{self.format} {os.path.abspath(self.path) if self.at is None else self.path}"

    def open(self, stream: str, folder: str) -> FolderReader:
        """A reader of the files, with a log of those found so far."""
        return FolderReader(self, stream, os.path.join(folder, f"{stream}.files"))


class FolderReader:
    """Reads the files of a source in the order of a log; a position is how many of them have been read."""

    def __init__(self, source: FileSource, stream: str, log: str) -> None:
        self._source, self._stream, self._path = source, stream, log
        self._opened: FileLog | None = None
        self._removed = 0

    def __getstate__(self) -> dict[str, object]:
        """The reader without its log, which can be large.  A process that needs the log reads it from its file."""
        kept = {name: value for name, value in self.__dict__.items() if name != "_left_out"}
        return {**kept, "_opened": None}

    def beginning(self) -> Position:
        """No file has been read."""
        return 0

    def discover(self) -> Position:
        """Note new files; return how many are known now."""
        return self._log.discover()

    def end(self, start: Position, known: Position) -> Position:
        """After all files that are known, or after as many as a batch may have."""
        first, last, most = _count(start), _count(known), self._source.max_files
        self._log.forget(first)
        return max(first, last if most is None else min(last, first + most))

    def remove(self, position: Position) -> None:
        """Remove the files that were read before a position: nobody but this stream needs them."""
        for file in self._log.known_between(self._removed, _count(position)):
            with contextlib.suppress(FileNotFoundError):
                os.remove(file)
        self._removed = _count(position)

    def pieces(self, start: Position, end: Position) -> list[Piece]:
        """The files between two positions, cut into parts."""
        files = [file for file in self._log.between(_count(start), _count(end)) if file not in self._left_out.files]
        return pieces(self._source.format, files, self._stream, self._source.at, self._source.root)

    def skip(self, error: SourceError, start: Position, end: Position) -> str | None:
        """Leave out the file between two positions that an error names; None if it may not or names none.

        What was left out stays so: a batch that is run again has the same rows.
        """
        if self._source.bad_files != "skip":
            return None
        files = self._log.between(_count(start), _count(end))
        found = next((file for file in files if names_file(error, file) and file not in self._left_out.files), None)
        if found is not None:
            self._left_out.note([found])
        return found

    def skipped(self) -> Sequence[str]:
        """All files that were left out."""
        return self._left_out.files

    @cached_property
    def _left_out(self) -> FileLog:
        return self._source.log(f"{self._path}.skipped")

    def check(self, position: Position) -> None:
        """Refuse if the log does not know all files that were read."""
        self._log.check(_count(position))

    def read(self, piece: Piece, columns: Sequence[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Rows of a part."""
        return read_piece(self._source.format, piece, columns, schema, self._source.at)

    @property
    def _log(self) -> FileLog:
        if self._opened is None:
            self._opened = self._source.log(self._path)
        return self._opened


@dataclass(frozen=True)
class FolderNow:
    """All rows of the files that are there now."""

    source: FileSource

    def look(self) -> str | None:
        """Names, sizes and times of the files; None if there is none."""
        found = []
        for file in self.source.files():
            with contextlib.suppress(FileNotFoundError):  # it went while we looked
                found.append((file, *stamp_of(file, self.source.at)))
        return jsonlib.dumps(found) if found else None

    def read(self) -> pa.Table:
        """All rows, in the order of file names."""
        return self._rows(self.source.files())

    def read_good(self) -> tuple[pa.Table, Sequence[str], Mapping[str, SourceError]]:
        """All rows, and the files that they are from; one that cannot be read is an error."""
        files = self.source.files()
        return self._rows(files), files, {}

    def _rows(self, files: Sequence[str]) -> pa.Table:
        schema, form, at = self.source.schema, self.source.format, self.source.at
        parts = [
            guard(piece.file, lambda rows=rows: rows.select(schema.names).cast(schema))
            for piece in pieces(form, files, at=at, root=self.source.root)
            for rows in read_piece(form, piece, schema.names, schema, at)
        ]
        return pa.Table.from_batches(parts, schema)


@dataclass(frozen=True)
class GoodFilesNow(FolderNow):
    """The same, if files that cannot be read may be left out."""

    def read_good(self) -> tuple[pa.Table, Sequence[str], Mapping[str, SourceError]]:
        """The rows of the files that can be read, their names, and why others cannot."""
        rows, bad = [self.source.schema.empty_table()], dict[str, SourceError]()
        good: list[str] = []
        for file in self.source.files():
            try:
                rows.append(self._rows([file]))
                good.append(file)
            except SourceError as error:
                if not names_file(error, file):
                    raise
                bad[file] = error
        return pa.concat_tables(rows), good, bad


def _count(position: Position) -> int:
    if isinstance(position, int):
        return position
    raise StateError(
        f"{position!r} is not a number of files",
        detail="the checkpoint was made for another kind of source.",
        hint="read from the same source as before, or start again from an empty checkpoint.",
    )


def _source(
    kind: Format, path: str | os.PathLike[str], most: int | None, schema: pa.Schema | None, partitions: bool
) -> FileSource:
    if schema is not None and not isinstance(schema, pa.Schema):
        hint = 'write it with Arrow\'s types: pyarrow.schema([("id", pyarrow.int64()), ("name", pyarrow.string())]).'
        raise SourceError(f"schema is a {type(schema).__name__}", hint=hint)
    at = RemoteFolder(url) if isinstance(path, str | os.PathLike) and (url := read_url(path)) is not None else None
    return FileSource(kind, _absolute(path) if at is None else at.shown, most, schema, at=at, partitions=partitions)


def _absolute(path: str | os.PathLike[str]) -> str:
    if not isinstance(path, str | os.PathLike):
        raise SourceError(
            f"the path of a source is a {type(path).__name__}",
            detail="a stream is read from one folder, and new files in it are found as they arrive.",
            hint='name the folder, or a pattern for some of its files: "in/orders/2026-*.parquet".',
        )
    return os.path.abspath(path)


def parquet(
    path: str | os.PathLike[str],
    max_files: int | None = None,
    *,
    schema: pa.Schema | None = None,
    partitions: bool = False,
) -> FileSource:
    """Parquet files of a folder, in name order, at most `max_files` per batch; a run finds new files as they arrive.

    With `partitions` the files of all folders below are read too, and folders such as `year=2024` are columns.
    """
    return _source("parquet", path, max_files, schema, partitions)


def csv(
    path: str | os.PathLike[str],
    max_files: int | None = None,
    *,
    schema: pa.Schema | None = None,
    delimiter: str = ",",
    partitions: bool = False,
) -> FileSource:
    """CSV files with a header line; types are taken from `schema`, or from the first file.

    Values are parted by commas, or by the `delimiter` ";", "|" or a tab.  `partitions` is as for Parquet.
    """
    kind = next((kind for kind, sign in DELIMITERS.items() if sign == delimiter), None)
    if kind is None:
        raise SourceError(f"delimiter {delimiter!r} is unknown", hint=r'use ",", ";", "|" or "\t".')
    return _source(kind, path, max_files, schema, partitions)


def json(
    path: str | os.PathLike[str],
    max_files: int | None = None,
    *,
    schema: pa.Schema | None = None,
    partitions: bool = False,
) -> FileSource:
    """Files with one JSON object per line; a field that is missing in a line is NULL; `partitions` as for Parquet."""
    return _source("json", path, max_files, schema, partitions)
