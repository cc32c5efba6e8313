"""Where rows come from: folders of files, or tables given by hand.  How files are listed, cut and read."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from typing import Literal as OneOf

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from weft.errors import SourceError
from weft.expr.types import normalize_schema

Format = OneOf["parquet", "csv", "json", "arrow"]
ROWS = 131_072
"""Rows read at a time."""


@dataclass(frozen=True)
class FileSource:
    """Files of a folder (or of a glob pattern), each read once."""

    format: Format
    path: str
    max_files: int | None = None
    """At most this many files a batch; None is no limit."""
    declared: pa.Schema | None = None

    def __post_init__(self) -> None:
        if self.max_files is not None and (not isinstance(self.max_files, int) or self.max_files < 1):
            raise SourceError(f"max_files is {self.max_files!r}", hint="use a positive number, or None for no limit.")

    @property
    def schema(self) -> pa.Schema:
        """The declared schema, or that of the first file."""
        if self.declared is not None:
            return normalize_schema(self.declared)
        files = list_files(self.path)
        if not files:
            raise SourceError(
                f"no files at {self.path}",
                detail="without files there is nothing to learn the columns from.",
                hint="pass schema=pyarrow.schema([...]), or put the first file there.",
            )
        return normalize_schema(guarded(files[0], lambda: _schema_of(self.format, files[0])))

    def size(self) -> float | None:
        """Bytes that lie there now, as a hint for planning."""
        return float(sum(os.path.getsize(file) for file in list_files(self.path))) or None


@dataclass(frozen=True)
class TableSource:
    """Arrow tables, one per micro-batch."""

    tables: tuple[pa.Table, ...]

    def __post_init__(self) -> None:
        if not self.tables:
            raise SourceError("no batches given", hint="pass at least one table; it may have no rows.")
        for number, table in enumerate(self.tables):
            if not isinstance(table, pa.Table):
                raise SourceError(
                    f"batch {number} is a {type(table).__name__}", hint="pass a list of pyarrow tables: [table, ...]."
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

    def as_files(self, folder: str) -> FileSource:
        """The tables as files of a folder, one a batch; files that are already there stay."""
        os.makedirs(folder, exist_ok=True)
        for number, table in enumerate(self.tables):
            path, aside = (os.path.join(folder, f"{hidden}{number:09d}.arrow") for hidden in ("", "."))
            if os.path.exists(path):
                _same(table, path, number)
            else:
                with open(aside, "wb") as file:
                    with pa.ipc.new_file(file, table.schema) as writer:
                        writer.write_table(table)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(aside, path)
        return FileSource("arrow", folder, 1, self.schema)

    def size(self) -> float | None:
        """Bytes of all tables."""
        return float(sum(table.nbytes for table in self.tables)) or None


def _same(table: pa.Table, path: str, number: int) -> None:
    known = guarded(path, lambda: pa.ipc.open_file(pa.memory_map(path)).read_all())
    if not (known.schema.equals(table.schema) and all(map(_equal, known.columns, table.columns))):
        raise SourceError(
            f"batch {number} is another table than in the run before",
            detail=f"the checkpoint has read {known.num_rows} rows as batch {number}, in {path}.",
            hint="pass the tables of earlier runs again, and new ones after them.",
        )


def _equal(a: pa.ChunkedArray, b: pa.ChunkedArray) -> bool:
    """Whether two columns hold the same values; to Arrow, NaN is not even equal to itself."""
    if a.equals(b) or not pa.types.is_floating(a.type) or len(a) != len(b):
        return bool(a.equals(b))
    holes, other = (pc.fill_null(pc.is_nan(column), False) for column in (a, b))
    filled, others = (pc.if_else(pc.fill_null(pc.is_nan(column), False), 0.0, column) for column in (a, b))
    return bool(holes.equals(other) and filled.equals(others))


def list_files(path: str) -> list[str]:
    """Visible files at a folder, a file or a glob pattern, in name order."""
    if os.path.isdir(path):
        found = [entry.path for entry in os.scandir(path) if entry.is_file()]
    elif os.path.isfile(path):
        found = [path]
    else:
        found = [file for file in glob.glob(path) if os.path.isfile(file)]
    return sorted(file for file in found if not os.path.basename(file).startswith((".", "_")))


@dataclass(frozen=True)
class Piece:
    """A part of a file that one task reads: some row groups of Parquet, or all of it."""

    file: str
    groups: tuple[int, ...] | None
    bytes: int
    stream: str = ""


def pieces(kind: Format, files: Sequence[str], stream: str = "") -> list[Piece]:
    """The parts into which files can be cut."""
    found = []
    for file in files:
        found += guarded(file, lambda file=file: _cut(kind, file, stream))
    return found


def shares(parts: Sequence[Piece], tasks: int) -> list[list[Piece]]:
    """Parts dealt to at most `tasks` tasks, the largest first, each to the least loaded task."""
    load = [0] * tasks
    dealt: list[list[Piece]] = [[] for _ in range(tasks)]
    for part in sorted(parts, key=lambda p: (-p.bytes, p.file, p.groups or ())):
        task = load.index(min(load))
        dealt[task].append(part)
        load[task] += part.bytes
    return [sorted(share, key=lambda p: (p.file, p.groups or ())) for share in dealt if share]


def read_piece(kind: Format, piece: Piece, columns: Sequence[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows of a part, only the wanted columns."""
    try:
        yield from _READERS[kind](piece, list(columns), schema)
    except (pa.ArrowException, OSError, KeyError) as error:
        raise _unreadable(piece.file, error) from error


def _cut(kind: Format, file: str, stream: str) -> list[Piece]:
    if kind != "parquet":
        return [Piece(file, None, os.path.getsize(file), stream)]
    with pa.parquet.ParquetFile(file) as parquet:
        meta = parquet.metadata
        return [Piece(file, (i,), meta.row_group(i).total_byte_size, stream) for i in range(meta.num_row_groups)]


def _parquet(piece: Piece, columns: list[str], _schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    with pa.parquet.ParquetFile(piece.file, memory_map=True, page_checksum_verification=True) as file:
        present = [name for name in columns if name in file.schema_arrow.names]
        if len(present) < len(columns):
            present = file.schema_arrow.names  # the missing column is reported with all that exist
        groups = list(piece.groups) if piece.groups is not None else None
        yield from file.iter_batches(ROWS, row_groups=groups, columns=present, use_threads=False)


def read_text(kind: Format, text: bytes, columns: Sequence[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows of some lines of CSV (the first is the header) or JSON; raises what Arrow raises."""
    yield from (_csv_rows if kind == "csv" else _json_rows)(pa.BufferReader(text), list(columns), schema)


def _csv(piece: Piece, columns: list[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    if os.path.getsize(piece.file):
        yield from _csv_rows(piece.file, columns, schema)


def _csv_rows(text: Any, columns: list[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    convert = pa.csv.ConvertOptions(
        column_types={name: schema.field(name).type for name in columns},
        include_columns=columns,
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    read = pa.csv.ReadOptions(use_threads=False)
    yield from pa.csv.open_csv(text, read_options=read, convert_options=convert)


def _json(piece: Piece, columns: list[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    if os.path.getsize(piece.file):
        yield from _json_rows(piece.file, columns, schema)


def _json_rows(text: Any, columns: list[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    wanted = pa.schema([schema.field(name) for name in columns])
    parse = pa.json.ParseOptions(explicit_schema=wanted, unexpected_field_behavior="ignore")
    yield from pa.json.read_json(text, pa.json.ReadOptions(use_threads=False, block_size=64 << 20), parse).to_batches()


def _arrow(piece: Piece, columns: list[str], _schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(piece.file) as file:
        table = pa.ipc.open_file(file).read_all()
    yield from table.select(columns).to_batches(max_chunksize=ROWS)


_READERS: dict[str, Any] = {"parquet": _parquet, "csv": _csv, "json": _json, "arrow": _arrow}


def _schema_of(kind: Format, file: str) -> pa.Schema:
    if kind == "parquet":
        return pa.parquet.read_schema(file)
    if kind == "csv":
        return pa.csv.open_csv(file).schema
    return pa.json.read_json(file).schema


def guarded(file: str, read: Any) -> Any:
    """What `read` gives; if the file cannot be read, an error that names it."""
    try:
        return read()
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(file, error) from error


def _unreadable(file: str, error: Exception) -> SourceError:
    return SourceError(
        f"file {file} cannot be read",
        detail=f"{str(error).splitlines()[0].rstrip('.') if str(error) else type(error).__name__}.",
        hint="nothing of this batch was joined; repair the file, or put an empty one in its place, and run again.",
    )


def _brief(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
