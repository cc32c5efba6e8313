"""Arrow tables as a source: they become files of the checkpoint, one per batch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from weft.errors import SourceError
from weft.expr.types import normalize_schema
from weft.host.sources.files import guard
from weft.host.sources.folders import FileSource, FolderReader
from weft.host.sources.source import Source
from weft.host.state.durable import published

if TYPE_CHECKING:
    from weft.query.model import Stream
    from weft.stats.sample import Sample


@dataclass(frozen=True)
class TableSource(Source):
    """Arrow tables, one per micro-batch."""

    tables: tuple[pa.Table, ...]

    def __post_init__(self) -> None:
        if not self.tables:
            raise SourceError("no batches given", hint="pass at least one table; it may have no rows.")
        for number, table in enumerate(self.tables):
            if isinstance(table, pa.ChunkedArray | pa.Array):
                hint = "wrap the table in a list, one table a batch: weft.read.batches([table])."
                raise SourceError("weft.read.batches was given a table, not a list of tables", hint=hint)
            if not isinstance(table, pa.Table):
                raise SourceError(
                    f"batch {number} is a {type(table).__name__}",
                    hint=f"pass a list of pyarrow tables: {_made(table)}.",
                )
            if normalize_schema(table.schema) != self.schema:
                raise SourceError(
                    f"batch {number} has another schema than the first",
                    detail=f"first: {_brief(self.tables[0].schema)}; this one: {_brief(table.schema)}.",
                    hint="cast it: table.cast(first.schema).",
                )

    @property
    def schema(self) -> pa.Schema:
        """The schema of all tables."""
        return normalize_schema(self.tables[0].schema)

    @property
    def in_checkpoint(self) -> bool:
        """Tables are written as files of the checkpoint."""
        return True

    def size(self) -> float | None:
        """Bytes of all tables."""
        return float(sum(table.nbytes for table in self.tables)) or None

    def sample(self, stream: Stream, columns: Sequence[str], most: int, seed: int) -> Sample:
        """Rows from anywhere: tables are in memory."""
        from weft.host.sources.sampling import draw_from_tables

        return draw_from_tables(self.tables, stream, columns, most, seed)

    def open(self, stream: str, folder: str) -> FolderReader:
        """A reader of the tables, written as files into a folder of their own."""
        return self.as_files(os.path.join(folder, f"{stream}.batches")).open(stream, folder)

    def as_files(self, folder: str) -> FileSource:
        """Write the tables as files of a folder, one per batch; files that are already there stay."""
        os.makedirs(folder, exist_ok=True)
        for number, table in enumerate(self.tables):
            path = os.path.join(folder, f"{number:09d}.arrow")
            if os.path.exists(path):
                _check_same(table, path, number)
            else:
                write_rows(table, path)
        return FileSource("arrow", folder, 1, self.schema)


def batches(tables: Sequence[pa.Table]) -> TableSource:
    """Arrow tables, one per micro-batch."""
    return TableSource(tuple(tables))


def write_rows(table: pa.Table, path: str) -> None:
    """Write rows to a file that appears whole, and is on the disk then."""
    aside = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}")
    with open(aside, "wb") as file:
        with pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)
    published(Path(path))


def _check_same(table: pa.Table, path: str, number: int) -> None:
    known = guard(path, lambda: pa.ipc.open_file(pa.memory_map(path)).read_all())
    if not (known.schema.equals(table.schema) and all(map(_equal, known.columns, table.columns))):
        raise SourceError(
            f"batch {number} is another table than in the run before",
            detail=f"the checkpoint has read {known.num_rows} rows as batch {number}, in {path}.",
            hint="pass the same tables as in earlier runs, and new ones after them.",
        )


def _equal(a: pa.ChunkedArray, b: pa.ChunkedArray) -> bool:
    """Whether two columns hold the same values.  Arrow says that NaN differs from NaN; here they are equal."""
    if a.equals(b) or not pa.types.is_floating(a.type) or len(a) != len(b):
        return bool(a.equals(b))
    holes, other = (pc.fill_null(pc.is_nan(column), False) for column in (a, b))
    filled, others = (pc.if_else(pc.fill_null(pc.is_nan(column), False), 0.0, column) for column in (a, b))
    return bool(holes.equals(other) and filled.equals(others))


def _brief(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _made(given: object) -> str:
    """How a list of tables is made of what was given for one."""
    if isinstance(given, dict):
        return "[pyarrow.Table.from_pylist(rows)]"
    return {"pandas": "[pyarrow.Table.from_pandas(df), ...]", "polars": "[df.to_arrow(), ...]"}.get(
        type(given).__module__.partition(".")[0], "[table, ...]"
    )
