"""Rows of parameters as a source: what the user's source brings, and changes that were asked for by hand.

Changes by hand (`Inbox`) are files in a folder of the checkpoint, one for each call.  A file is on the disk before the
call returns, and is read like any other: so a change is lost by no kill and made only once.  It is removed when the
batch that has read it is committed and the next one begins.

All rows get a column that says whether they end a subscription.  A row that updates one is two: the first ends what was
there.  What must hold: a batch has the rows of the user's source first and then those of the folder, each in their
order.  So a batch of parameters is one piece, read by one task.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from weft.errors import SourceError, StateError
from weft.host.sources.folders import FileSource, FolderReader
from weft.host.sources.source import Piece, Position, Reader, Source
from weft.query.parameters import REMOVED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from weft.query.model import Stream
    from weft.stats.sample import Sample

ADDS, ENDS, BOTH = ("insert", "add", "i", "c", "r"), ("delete", "remove", "d"), ("update", "upsert", "u")
"""What an operation column may say, in lower case; NULL adds."""
SAMPLED = 65_536
"""Subscriptions that a plan is chosen by."""


class Inbox:
    """Changes by hand, as files of a folder."""

    def __init__(self, folder: str, schema: pa.Schema) -> None:
        self.folder, self.schema, self._lock, self._last = folder, schema, threading.Lock(), 0

    def put(self, rows: pa.Table) -> None:
        """Write a change; when this returns it is on the disk."""
        with self._lock:
            os.makedirs(self.folder, exist_ok=True)
            before = self._last or _latest(self.folder)  # changes keep their order, also if the clock is set back
            self._last = max(before + 1, time.time_ns())  # no name twice, even if files are removed
            path = os.path.join(self.folder, f"{self._last:020d}-{uuid.uuid4().hex[:6]}.parquet")
            aside = os.path.join(self.folder, f".{os.path.basename(path)}")
            with open(aside, "wb") as file:
                pq.write_table(rows, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(aside, path)
            _sync(self.folder)

    @property
    def source(self) -> FileSource:
        """The files, as a source."""
        return FileSource("parquet", self.folder, None, self.schema)


def _latest(folder: str) -> int:
    """The moment of the last change that an earlier process has left."""
    moments = (name.partition("-")[0] for name in os.listdir(folder))
    return max((int(moment) for moment in moments if moment.isdigit()), default=0)


def _sync(folder: str) -> None:
    place = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(place)
    finally:
        os.close(place)


@dataclass(frozen=True)
class ParameterSource(Source):
    """What the user's source brings, and changes by hand."""

    given: Source
    folder: str
    operation: str | None = None
    """Column of the user's source that says what a row does; None if all rows add."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the user's source, and the mark of rows that end subscriptions."""
        shown = [field for field in self.given.schema if field.name != self.operation]
        return pa.schema([*shown, (REMOVED, pa.bool_())])

    @property
    def in_checkpoint(self) -> bool:
        """Changes by hand are files of the checkpoint."""
        return True

    @property
    def inbox(self) -> Inbox:
        """Where changes by hand go."""
        return Inbox(self.folder, self.schema)

    @property
    def frame(self) -> DataFrame | None:
        """The user's DataFrame, with the mark."""
        found = self.given.frame
        return None if found is None else found.selectExpr("*", f"{self._marks} AS `{REMOVED}`")

    @property
    def _marks(self) -> str:
        if self.operation is None:
            return "false"
        said = f"lower(`{self.operation}`)"
        ends, both = (", ".join(f"'{word}'" for word in words) for words in (ENDS, BOTH))
        made = f"CASE WHEN {said} IN ({both}) THEN array(true, false) WHEN {said} IN ({ends}) THEN array(true)"
        return f"explode({made} ELSE array(false) END)"

    def size(self) -> float | None:
        """Bytes of the user's source."""
        return self.given.size()

    def sample(self, stream: Stream, columns: Sequence[str], most: int, seed: int) -> Sample | None:
        """Some subscriptions of both; rows that end others do not count."""
        from weft.stats.sample import Sample  # late: tasks that read files need no sampling

        own = [name for name in columns if name not in (REMOVED, self.operation)]
        asked = [*own, *([] if self.operation is None else [self.operation])]
        given = self.given.sample(replace(stream, schema=self.given.schema), asked, max(most, SAMPLED), seed)
        if given is None:
            return None
        by_hand = self._changed(stream, own, seed)
        rows, more = self._added(given.rows).select(own), pa.table({}) if by_hand is None else by_hand.rows
        total = None if given.total is None else given.total * rows.num_rows / max(1, given.rows.num_rows)
        if not more.num_rows:
            return replace(given, rows=rows, total=total, parts=None, keys={})
        return Sample(pa.concat_tables([rows, more.select(own)]), None if total is None else total + more.num_rows)

    def _changed(self, stream: Stream, columns: Sequence[str], seed: int) -> Sample | None:
        """Subscriptions that were added by hand."""
        if not os.path.isdir(self.folder) or not columns:
            return None
        found = self.inbox.source.sample(stream, [*columns, REMOVED], SAMPLED, seed)
        return replace(found, rows=found.rows.filter(pc.invert(found.rows.column(REMOVED))))

    def _added(self, rows: pa.Table) -> pa.Table:
        if self.operation is None:
            return rows
        said = pc.utf8_lower(pc.cast(rows.column(self.operation), pa.string()))
        return rows.filter(pc.invert(pc.fill_null(pc.is_in(said, pa.array(ENDS)), False)))

    def describe(self) -> str:
        """The text of the user's source."""
        return self.given.describe()

    def open(self, stream: str, folder: str) -> ParameterReader:
        """A reader of both."""
        os.makedirs(self.folder, exist_ok=True)
        changes = self.inbox.source.open(f"{stream}-changes", folder)
        return ParameterReader(self.given.open(stream, folder), changes, self.given.schema, self.operation)


@dataclass(frozen=True)
class Parts(Piece):
    """All that a batch reads, in order: pieces of the user's source, then of changes by hand."""

    given: tuple[Piece, ...] = ()
    changes: tuple[Piece, ...] = ()


@dataclass(frozen=True)
class ParameterReader:
    """Reads both; a position is a pair of positions."""

    given: Reader
    changes: FolderReader
    declared: pa.Schema
    """Columns of the user's source."""
    operation: str | None

    def beginning(self) -> Position:
        """Nothing has been read."""
        return [self.given.beginning(), self.changes.beginning()]

    def discover(self) -> Position:
        """What is there now."""
        return [self.given.discover(), self.changes.discover()]

    def end(self, start: Position, known: Position) -> Position:
        """Where a batch ends.  Changes by hand before its start have been committed, so their files can go."""
        (mine, other), (last, latest) = _two(start), _two(known)
        self.changes.remove(other)
        return [self.given.end(mine, last), self.changes.end(other, latest)]

    def pieces(self, start: Position, end: Position) -> list[Piece]:
        """All that lies between two positions, as one piece; changes by hand come last."""
        (mine, other), (last, latest) = _two(start), _two(end)
        given, changes = self.given.pieces(mine, last), self.changes.pieces(other, latest)
        found = [*given, *changes]
        if not found:
            return []
        size = sum(piece.bytes for piece in found)
        stream = next((piece.stream for piece in given), changes[0].stream.removesuffix("-changes") if changes else "")
        return [Parts(found[0].file, None, size, stream, tuple(given), tuple(changes))]

    def check(self, position: Position) -> None:
        """Refuse if it is no longer known which rows were read."""
        mine, other = _two(position)
        self.given.check(mine)
        self.changes.check(other)

    def read(self, piece: Piece, columns: Sequence[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Rows of both."""
        assert isinstance(piece, Parts)
        own = [name for name in columns if name != REMOVED]
        asked = [*own, *([self.operation] if self.operation is not None else [])]
        for part in piece.given:
            for rows in self.given.read(part, asked, self.declared):
                yield self._mark(rows, part.file)
        for part in piece.changes:
            yield from self.changes.read(part, columns, schema)

    def _mark(self, rows: pa.RecordBatch, file: str) -> pa.RecordBatch:
        if self.operation is None:
            return rows.append_column(REMOVED, pa.array(np.zeros(rows.num_rows, dtype=np.bool_)))
        said = pc.fill_null(pc.utf8_lower(pc.cast(rows.column(self.operation), pa.string())), ADDS[0])
        ends, both, adds = (pc.is_in(said, pa.array(words)).to_numpy(False) for words in (ENDS, BOTH, ADDS))
        if not (known := ends | both | adds).all():
            raise _unknown(said[int(np.flatnonzero(~known)[0])].as_py(), self.operation, file)
        places = np.repeat(np.arange(rows.num_rows), np.where(both, 2, 1))
        again = np.append(False, places[1:] == places[:-1])
        marks = pa.array((ends | both)[places] & ~again)
        return rows.take(pa.array(places)).append_column(REMOVED, marks)


def _two(position: Position) -> tuple[Position, Position]:
    if isinstance(position, list | tuple) and len(position) == 2:
        return position[0], position[1]
    raise StateError(
        f"{position!r} is not a position of subscriptions",
        detail="the checkpoint was made for another kind of source.",
        hint="read from the same source as before, or start again from an empty checkpoint.",
    )


def _unknown(said: Any, column: str, file: str) -> SourceError:
    return SourceError(
        f'operation "{said}" in column "{column}" is unknown in {file}',
        detail=f"it adds ({', '.join(ADDS)}), ends ({', '.join(ENDS)}) or replaces ({', '.join(BOTH)}) a subscription.",
        hint="nothing of this batch was joined; repair the input and run again.",
    )
