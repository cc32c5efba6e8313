"""A source that is read again when it changes: a table is what its files say now.

Of files, the driver looks at names, sizes and times.  When they differ from the last look it reads all of them, and
writes what has changed since then as a file of the checkpoint: rows that are new count +1, rows that are gone -1.
These files are the source, read like those of any folder.  So a batch that is run again has the same rows, whatever
happens to the user's files.

What must hold: the sum of all files of changes is what the user's files said at the last look.  It is worked out from
them alone, so a process that dies after writing one loses nothing.  Files that change while they are read are looked at
again; where there is no file at all, the table stays as it is, since somebody may be about to replace it.

A source that is no folder of files can be read again too, if it says how: see `Source.whole`.

Where bad files may be left out, one that could never be read is.  One that could be read at the last look must not take
its rows out of the table: then the table stays as it was, until the file is repaired or gone.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from weft.errors import SourceError
from weft.host.sources.files import list_files
from weft.host.sources.folders import FileSource, FolderReader
from weft.host.sources.source import CanLeaveOut, Piece, Position, Source, Whole
from weft.host.sources.tables import write_rows
from weft.observe.notice import Notice

if TYPE_CHECKING:
    from weft.query.model import Stream
    from weft.stats.sample import Sample

CHANGE = "#change"
"""Column of the source that says how often a row is new; below zero, how often it is gone."""
TRIES = 50
"""So often files are read at the first look, if they change meanwhile."""
PAUSE = 0.1
"""Seconds after which files that changed are looked at again."""
_LOOK = b"weft look"
_GOOD = b"weft good files"
_ROW = "#row"


@dataclass(frozen=True)
class RefreshedSource(Source):
    """The rows of another source, read again when they change."""

    given: Source
    """One that can be read as a whole."""
    key: tuple[str, ...] = ()
    """Columns that name a row: of several rows with one key, the last one counts."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the given source, and how rows change."""
        return self.given.schema.append(pa.field(CHANGE, pa.int64()))

    @property
    def in_checkpoint(self) -> bool:
        """Changes are files of the checkpoint."""
        return True

    @property
    def bad_files(self) -> str:
        """What happens if a file cannot be read."""
        return str(getattr(self.given, "bad_files", "fail"))

    def size(self) -> float | None:
        """Bytes of the given source."""
        return self.given.size()

    def sample(self, stream: Stream, columns: Sequence[str], most: int, seed: int) -> Sample | None:
        """Rows as they are now."""
        return self.given.sample(stream, columns, most, seed)

    def describe(self) -> str:
        """The text of the given source."""
        return f"{self.given.describe()}, read again when it changes"

    def open(self, stream: str, folder: str) -> RefreshedReader:
        """A reader of what changes."""
        changes = os.path.join(folder, f"{stream}.changes")
        os.makedirs(changes, exist_ok=True)
        source, whole = FileSource("arrow", changes, None, self.schema), self.given.whole()
        assert whole is not None, "the session refuses sources that are read once"
        return RefreshedReader(stream, self.given.describe(), whole, self.key, changes, source.open(stream, folder))


class RefreshedReader:
    """Finds changes and reads them; a position is how many files of changes have been read."""

    def __init__(
        self, table: str, name: str, whole: Whole, key: tuple[str, ...], folder: str, changes: FolderReader
    ) -> None:
        self._table, self._name, self._whole, self._key = table, name, whole, key
        self._folder, self._changes = folder, changes
        self._last: str | None = None
        self._said: list[Notice] = []
        self._told = False
        """Whether a batch has told what was said; it may be run again."""

    def beginning(self) -> Position:
        """Nothing has been read."""
        return self._changes.beginning()

    def discover(self) -> Position:
        """Look whether the rows have changed, and note what has.

        What changes while it is read is left for the next look; only the first look is made until it succeeds.
        """
        if self._told:
            self._said, self._told = [], False
        tries = 1
        while not self._catch_up() and not list_files(self._folder):
            if tries == TRIES:
                raise SourceError(
                    f"the rows of {self._name} change all the time",
                    detail=f"they were read {TRIES} times, and were others each time afterwards.",
                    hint="write a new file under another name, and rename it when it is whole.",
                )
            tries += 1
            time.sleep(PAUSE)
        return self._changes.discover()

    def _catch_up(self) -> bool:
        """Note what has changed since the last look; return False if the rows changed while they were read."""
        look = self._whole.look()
        if look in (None, self._last):
            return True
        try:
            rows, good, bad = self._read()
        except SourceError:
            time.sleep(PAUSE)  # somebody may be writing it
            if self._whole.look() == look:
                raise
            return False
        if bad:
            time.sleep(PAUSE)
        if self._whole.look() != look:
            return False
        if spoiled := {file: why for file, why in bad.items() if file in self._known_good()}:
            self._last = look
            self._said.append(_say_spoiled(self._table, spoiled))
            return True
        if bad:
            self._said.append(_say_left_out(self._table, bad))
        self._note(_last_of_keys(rows, self._key), str(look), good)
        return True

    def _read(self) -> tuple[pa.Table, Sequence[str], Mapping[str, SourceError]]:
        """The rows as they are now, the files that they are from, and those that cannot be read, if that may be."""
        return self._whole.read_good() if isinstance(self._whole, CanLeaveOut) else (self._whole.read(), (), {})

    def notices(self) -> Sequence[Notice]:
        """Files that were left out since the last batch, and whether the table stays as it was because of some."""
        self._told = True
        return self._said

    def end(self, start: Position, known: Position) -> Position:
        """Where a batch ends."""
        return self._changes.end(start, known)

    def pieces(self, start: Position, end: Position) -> list[Piece]:
        """What lies between two positions."""
        return self._changes.pieces(start, end)

    def check(self, position: Position) -> None:
        """Refuse if it is no longer known which rows were read."""
        self._changes.check(position)

    def read(self, piece: Piece, columns: Sequence[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Rows of a part."""
        return self._changes.read(piece, columns, schema)

    def _known_good(self) -> Sequence[str]:
        """The files that the table is made of."""
        known = list_files(self._folder)[-1:]
        return [str(file) for one in known for file in _noted(self._open(one), _GOOD)]

    def _note(self, rows: pa.Table, look: str, good: Sequence[str]) -> None:
        """Write what has changed since the last look, if anything has."""
        known = [self._open(file) for file in list_files(self._folder)]
        if known and (known[-1].schema.metadata or {}).get(_LOOK) == look.encode():
            self._last = look
            return
        names = rows.schema.names
        before = [table.select([*names, CHANGE]).replace_schema_metadata() for table in known]
        gone = [table.set_column(len(names), CHANGE, pc.negate(table[CHANGE])) for table in before]
        changed = _add_up(pa.concat_tables([_counted(rows, 1), *gone]))
        if changed.num_rows or not known or [*good] != _noted(known[-1], _GOOD):
            path = os.path.join(self._folder, f"{len(known):09d}.arrow")
            noted = {_LOOK: look.encode(), _GOOD: json.dumps([*good]).encode()}
            write_rows(changed.replace_schema_metadata(noted), path)
        self._last = look

    def _open(self, file: str) -> pa.Table:
        with pa.memory_map(file) as source:
            return pa.ipc.open_file(source).read_all()


def _noted(changes: pa.Table, what: bytes) -> list[object]:
    """A list that is noted in a file of changes."""
    return list(json.loads((changes.schema.metadata or {}).get(what, b"[]")))


def _say_left_out(table: str, bad: Mapping[str, SourceError]) -> Notice:
    file, why = list(bad.items())[-1]
    return Notice(
        "bad-files",
        f'{len(bad)} file{"s" * (len(bad) != 1)} of table "{table}" left out, the last one {file}',
        f"{why.detail or why.message}",
        "rows of these files are not in the table until they are repaired.",
        'bad_files="fail"',
    )


def _say_spoiled(table: str, bad: Mapping[str, SourceError]) -> Notice:
    file, why = list(bad.items())[-1]
    return Notice(
        "bad-files",
        f'table "{table}" stays as it was: {file} could be read before, and cannot be any more',
        f"{why.detail or why.message}",
        "no change of its other files counts until this one is repaired, or removed with its rows.",
        'bad_files="fail"',
    )


def _counted(rows: pa.Table, count: int) -> pa.Table:
    return rows.append_column(CHANGE, pa.array(np.full(rows.num_rows, count, dtype=np.int64)))


def _add_up(rows: pa.Table) -> pa.Table:
    """Equal rows as one, without those that are neither new nor gone."""
    names = [name for name in rows.schema.names if name != CHANGE]
    summed = rows.group_by(names, use_threads=False).aggregate([(CHANGE, "sum")])
    summed = summed.rename_columns([*names, CHANGE]).cast(rows.schema)
    return summed.filter(pc.not_equal(summed[CHANGE], 0))


def _last_of_keys(rows: pa.Table, key: tuple[str, ...]) -> pa.Table:
    """The last row of every key."""
    if not key:
        return rows
    numbered = rows.append_column(_ROW, pa.array(np.arange(rows.num_rows)))
    last = numbered.group_by(list(key), use_threads=False).aggregate([(_ROW, "max")])
    return rows.take(last[f"{_ROW}_max"].combine_chunks().sort())
