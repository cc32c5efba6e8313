"""Results as a folder of Parquet files that holds exactly what was committed.

Files are renamed into it after the commit of the manifest that names them.  A repeated publication uses the same names
and replaces them.  A folder belongs to one query of one checkpoint; a marker file says to which.  An empty file with
the schema makes the folder readable from the start.  All files of a folder have the same columns: a query that was
replaced by one with other columns needs another folder.

Small files of earlier batches are merged, see `weft.host.results.merging`.  That comes before the files of a batch are
placed, and takes files of earlier batches only: theirs are gone from the checkpoint, so they cannot be placed again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from weft.errors import SinkError
from weft.host.results.folder import LocalFolder, open_folder
from weft.host.results.merging import MANY, merge_files
from weft.host.results.part import Part
from weft.host.results.sink import Results, Sink

MARKER = "_weft.json"
EMPTY = "empty.parquet"


class ParquetSink(Sink):
    """A folder of Parquet files."""

    deep: ClassVar[bool] = False
    """Whether there are folders inside."""

    def __init__(self, query: str, schema: pa.Schema, path: str | os.PathLike[str], merge: bool = True) -> None:
        self.query, self.schema, self.target = query, schema, open_folder(path)
        self.folder = self.target.path.absolute() if isinstance(self.target, LocalFolder) else None
        self.address = None if self.folder is not None else f"to {self.target}"
        self._merges, self._placed = merge, MANY
        """Whether small files are merged; and how many may have been placed since that was last tried."""

    def check(self, owner: str, *, published: bool, last: int) -> None:
        """Refuse if the folder holds anything else, or lacks what was committed before, or has other columns."""
        found, files = self._read_marker(), self._files()
        self._refuse_strangers(found, self._mark(owner), files)
        self._refuse_a_loss(found, owner, published)
        self._refuse_newer(files, last)
        if self.holds_results() and not self._has_columns(files[0]):
            self._refuse_columns(files[0])

    def claim(self, owner: str, *, published: bool, last: int) -> None:
        """Make the folder ours, or refuse as :meth:`check` does."""
        self._make()
        self.check(owner, published=published, last=last)
        self.target.clean()
        # The marker comes first: if a run dies here, the next one must find that the folder is its own.
        if self._read_marker() is None:
            self.target.write_bytes(MARKER, json.dumps(self._mark(owner)).encode())
        if EMPTY not in self._files() or not self._has_columns(EMPTY):
            self._write_empty()

    def __str__(self) -> str:
        return f"into {self.target}"

    def holds_results(self) -> bool:
        """Whether there are results in the folder."""
        return any(name != EMPTY for name in self._files())

    def take(self, results: Results) -> None:
        """Put the files of a batch in place; doing it again changes nothing."""
        self._merge(results)
        try:
            for _ in self._place_all(results.files):
                results.on_placed()
        except OSError as error:
            raise SinkError(
                f"results cannot be put into folder {self.target}",
                detail=f"{error}.",
                hint="they are safe in the checkpoint; repair the folder and run again.",
            ) from error
        self.target.sync()  # the staged files are removed after this

    def _merge(self, results: Results) -> None:
        """Merge files of earlier batches, if there may be many."""
        self._placed += len(results.files)
        if self._merges and self._placed >= MANY and self.folder is not None:
            while merge_files(self.folder, results.batch):
                pass
            self._placed = 0

    def _mark(self, owner: str) -> dict[str, str]:
        return {"checkpoint": owner, "query": self.query}

    def _make(self) -> None:
        try:
            self.target.begin()
        except OSError as error:
            raise self._unusable(error) from error

    def _read_marker(self) -> dict[str, str] | None:
        """Whose folder it is; None if nobody's."""
        try:
            marker = self.target.read(MARKER)
            found: dict[str, str] | None = None if marker is None else json.loads(_content(marker))
        except (OSError, ValueError) as error:
            raise self._unusable(error) from error
        return found

    def _files(self) -> list[str]:
        """All visible files, in order of their names; none if there is no folder."""
        try:
            return self.target.names(deep=self.deep)
        except OSError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> SinkError:
        hint = f"choose a folder that can be written; remove {MARKER} if it is damaged."
        return SinkError(f"folder {self.target} cannot be used for results", detail=f"{error}.", hint=hint)

    def _has_columns(self, name: str) -> bool:
        """Whether a file has the columns of the query."""
        return self._read_schema(name).equals(_as_written(self.schema))

    def _read_schema(self, name: str) -> pa.Schema:
        try:
            return pq.read_schema(self.target.read(name))
        except (OSError, pa.ArrowException) as error:
            raise self._unusable(error) from error

    def _refuse_columns(self, name: str) -> None:
        raise SinkError(
            f"folder {self.target} holds results with other columns",
            detail=f"they have {_say(self._read_schema(name))}; "
            f'query "{self.query}" now gives {_say(_as_written(self.schema))}.',
            hint="let the query write to another folder; the earlier results stay in this one.",
        )

    def _refuse_strangers(self, found: Mapping[str, str] | None, mine: Mapping[str, str], files: Sequence[str]) -> None:
        if found != mine and (found is not None or files):
            raise SinkError(
                f"folder {self.target} already holds other results",
                detail=f"it belongs to {_whose(found)}; this is {_whose(mine)}.",
                hint="choose an empty folder, or remove this one.",
            )

    def _refuse_a_loss(self, found: Mapping[str, str] | None, owner: str, published: bool) -> None:
        if found is None and published:
            raise SinkError(
                f"folder {self.target} lacks the results of earlier batches",
                detail=f'checkpoint {owner} has committed batches, and query "{self.query}" did not write them here.',
                hint="bring the folder back, or start again from an empty checkpoint.",
            )

    def _refuse_newer(self, files: Sequence[str], last: int) -> None:
        """Refuse results that are newer than the checkpoint: they were written by one that no longer exists."""
        parts = (Part.of(os.path.basename(name)) for name in files)
        newer = [part for part in parts if part is not None and part.last > last]
        if newer:
            mixed = any(part.first <= last for part in newer)
            raise SinkError(
                f"folder {self.target} holds results of batches that the checkpoint does not know",
                detail=f"the checkpoint ends with batch {last}, perhaps after a backup was restored; newer: "
                f"{newer[0].name}" + (f" and {len(newer) - 1} more." if newer[1:] else "."),
                hint="restore this folder from the same backup: a file holds results of older batches too."
                if mixed
                else "remove these files: their batches will be run again. File names begin with the batch number.",
            )

    def _write_empty(self) -> None:
        self.target.write(EMPTY, self.schema.empty_table())

    def _place_all(self, sources: Sequence[Path]) -> Iterator[None]:
        """Put files in place, one after the other."""
        return map(self._place, sources)

    def _place(self, source: Path) -> None:
        self.target.put(source, source.name)


def _content(opened: Any) -> bytes:
    content: bytes = opened.read_bytes() if isinstance(opened, Path) else opened.read()
    return content


def _as_written(schema: pa.Schema) -> pa.Schema:
    """The schema as a Parquet file gives it back: some types become others."""
    file = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), file)
    return pq.read_schema(pa.BufferReader(file.getvalue()))


def _say(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _whose(marker: Mapping[str, str] | None) -> str:
    if marker is None:
        return "another program"
    return f'query "{marker.get("query")}" of checkpoint {marker.get("checkpoint")}'
