"""Lists files, cuts them into parts and reads them, in every format."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from typing import Literal as OneOf

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from weft.errors import SourceError
from weft.host.sources.partitions import read_with, values_of, walk
from weft.host.sources.remote import RemoteFolder
from weft.host.sources.source import Piece
from weft.host.sources.unreadable import say_unreadable

Format = OneOf["parquet", "csv", "csv with ;", "csv with tabs", "csv with |", "json", "arrow"]
DELIMITERS: dict[Format, str] = {"csv": ",", "csv with ;": ";", "csv with tabs": "\t", "csv with |": "|"}
"""What parts the values of a line, in the formats that have a header line."""
READ_ROWS = 131_072
"""Rows read at a time."""


At = RemoteFolder | None
"""Where files are: in a folder that is said by a URL, or on this machine."""

Reader = Callable[[Piece, list[str], pa.Schema, At], Iterator[pa.RecordBatch]]
Rows = Callable[[Any, list[str], pa.Schema], Iterator[pa.RecordBatch]]


def list_files(path: str, at: At = None, *, deep: bool = False) -> list[str]:
    """Visible files at a folder, a file or a glob pattern, in name order; `deep` looks into the folders of a folder."""
    if at is not None:
        return at.list(deep=deep)
    if os.path.isdir(path):
        found = [*walk(path)] if deep else [entry.path for entry in os.scandir(path) if entry.is_file()]
    elif os.path.isfile(path):
        found = [path]
    else:
        found = [file for file in glob.glob(path) if os.path.isfile(file)]
    return sorted(file for file in found if not os.path.basename(file).startswith((".", "_")))


def size_of(file: str, at: At) -> int:
    """Bytes of a file."""
    return os.path.getsize(file) if at is None else at.size(file)


def stamp_of(file: str, at: At) -> tuple[int, int]:
    """Bytes of a file, and when it was written: another version of it has another stamp."""
    if at is not None:
        return at.stamp(file)
    about = os.stat(file)
    return about.st_size, about.st_mtime_ns


def pieces(kind: Format, files: Sequence[str], stream: str = "", at: At = None, root: str = "") -> list[Piece]:
    """The files, cut into parts that can be read on their own; folders below `root` say columns."""
    found: list[Piece] = []
    for file in files:
        found += guard(file, lambda file=file: _cut(kind, file, stream, at), kind)
    return [replace(piece, root=root) for piece in found]


def shares(parts: Sequence[Piece], tasks: int) -> list[list[Piece]]:
    """Parts divided among at most `tasks` tasks: the largest first, each to the least loaded task."""
    load = [0] * tasks
    dealt: list[list[Piece]] = [[] for _ in range(tasks)]
    for part in sorted(parts, key=lambda p: (-p.bytes, p.file, p.groups or ())):
        task = load.index(min(load))
        dealt[task].append(part)
        load[task] += part.bytes
    return [sorted(share, key=lambda p: (p.file, p.groups or ())) for share in dealt if share]


def read_piece(
    kind: Format, piece: Piece, columns: Sequence[str], schema: pa.Schema, at: At = None
) -> Iterator[pa.RecordBatch]:
    """Rows of a part, with the wanted columns only."""
    values = values_of(piece.file, piece.root)
    try:
        yield from read_with(values, piece.file, columns, schema, lambda own: _READERS[kind](piece, own, schema, at))
    except (pa.ArrowException, OSError, KeyError) as error:
        raise say_unreadable(kind, piece.file, error, lambda: _header(kind, piece.file, at)) from error


def _cut(kind: Format, file: str, stream: str, at: At) -> list[Piece]:
    if kind != "parquet":
        return [Piece(file, None, size_of(file, at), stream)]
    with open_parquet(file, at) as parquet:
        meta, version = parquet.metadata, _version(parquet)
        sizes = (meta.row_group(i).total_byte_size for i in range(meta.num_row_groups))
        return [Piece(file, (i,), size, stream, version=version) for i, size in enumerate(sizes)]


def _version(parquet: pa.parquet.ParquetFile) -> str:
    """What tells versions of a file apart: its footer, which says where every column of every row group lies."""
    footer = pa.BufferOutputStream()
    parquet.metadata.write_metadata_file(footer)
    return hashlib.blake2b(footer.getvalue(), digest_size=8).hexdigest()


def open_parquet(file: str, at: At) -> pa.parquet.ParquetFile:
    """A Parquet file; one elsewhere is read by this thread alone, so that what fails is raised here."""
    if at is None:
        return pa.parquet.ParquetFile(file, memory_map=True, page_checksum_verification=True)
    return pa.parquet.ParquetFile(at.open(file), pre_buffer=False, page_checksum_verification=True)


def _parquet(piece: Piece, columns: list[str], _schema: pa.Schema, at: At) -> Iterator[pa.RecordBatch]:
    with open_parquet(piece.file, at) as file:
        if piece.version and piece.version != _version(file):
            raise _changed(piece.file)
        present = [name for name in columns if name in file.schema_arrow.names]
        if len(present) < len(columns):
            present = file.schema_arrow.names  # read all: the error about the missing column lists them
        groups = list(piece.groups) if piece.groups is not None else None
        yield from file.iter_batches(READ_ROWS, row_groups=groups, columns=present, use_threads=False)


def read_text(kind: Format, text: bytes, columns: Sequence[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows of some lines of CSV (the first is the header) or JSON; raises what Arrow raises."""
    yield from (_rows_of_csv(kind) if kind in DELIMITERS else _json_rows)(pa.BufferReader(text), list(columns), schema)


def _open_text(file: str, at: At) -> Any:
    return file if at is None else at.open_text(file)


def _text_rows(rows: Rows, file: str, columns: list[str], schema: pa.Schema, at: At) -> Iterator[pa.RecordBatch]:
    """Rows of text.  What is wrong with them is no OSError: such an error is the store's."""
    try:
        yield from rows(_open_text(file, at), columns, schema)
    except OSError as error:
        if at is None or isinstance(error, FileNotFoundError):
            raise
        raise at.unreachable(error) from error


def _csv(kind: Format) -> Reader:
    rows = _rows_of_csv(kind)

    def read(piece: Piece, columns: list[str], schema: pa.Schema, at: At) -> Iterator[pa.RecordBatch]:
        if size_of(piece.file, at):
            yield from _text_rows(rows, piece.file, columns, schema, at)

    return read


def _rows_of_csv(kind: Format) -> Rows:
    def rows(text: Any, columns: list[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        convert = csv_values({name: schema.field(name).type for name in columns})
        read = pa.csv.ReadOptions(use_threads=False)
        yield from pa.csv.open_csv(text, read_options=read, parse_options=_lines_of(kind), convert_options=convert)

    return rows


def csv_values(types: Mapping[str, pa.DataType]) -> Any:
    """How CSV becomes the values of these columns, or of all if there are none: nothing at all is NULL, and no word is.

    Arrow's own list of words for NULL has `NA`, which may be a country, and `null`, which may be a name.
    """
    return pa.csv.ConvertOptions(
        column_types=dict(types),
        include_columns=list(types),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )


def _lines_of(kind: Format) -> Any:
    """Text in quotes may go over several lines, wherever Arrow cuts a file into blocks."""
    return pa.csv.ParseOptions(delimiter=DELIMITERS[kind], newlines_in_values=True)


def _json(piece: Piece, columns: list[str], schema: pa.Schema, at: At) -> Iterator[pa.RecordBatch]:
    if size_of(piece.file, at):
        yield from _text_rows(_json_rows, piece.file, columns, schema, at)


def _json_rows(text: Any, columns: list[str], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    wanted = pa.schema([schema.field(name) for name in columns])
    parse = pa.json.ParseOptions(explicit_schema=wanted, unexpected_field_behavior="ignore")
    yield from pa.json.read_json(text, _long_lines(), parse).to_batches()


def _long_lines() -> Any:
    """A line of JSON may be that long, wherever it stands."""
    return pa.json.ReadOptions(use_threads=False, block_size=64 << 20)


def _arrow(piece: Piece, columns: list[str], _schema: pa.Schema, _at: At) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(piece.file) as file:
        table = pa.ipc.open_file(file).read_all()
    yield from table.select(columns).to_batches(max_chunksize=READ_ROWS)


_READERS: dict[str, Reader] = {
    "parquet": _parquet,
    **{kind: _csv(kind) for kind in DELIMITERS},
    "json": _json,
    "arrow": _arrow,
}


def read_schema(kind: Format, file: str, at: At = None) -> pa.Schema:
    """The columns of a file."""
    return guard(file, lambda: _columns_of(kind, file, at), kind)


def _columns_of(kind: Format, file: str, at: At) -> pa.Schema:
    if kind == "parquet":
        return pa.parquet.read_schema(file if at is None else at.open(file))
    if kind in DELIMITERS:
        return _parted(kind, file, _text_only(_open_csv(kind, file, at).schema))
    return pa.json.read_json(_open_text(file, at), _long_lines()).schema


def _open_csv(kind: Format, file: str, at: At) -> Any:
    return pa.csv.open_csv(_open_text(file, at), parse_options=_lines_of(kind), convert_options=csv_values({}))


def _text_only(schema: pa.Schema) -> pa.Schema:
    """The schema of CSV, if all of it is text: Arrow takes bytes in another encoding for binary values."""
    for field in schema:
        if pa.types.is_binary(field.type):
            raise pa.ArrowInvalid(f'column "{field.name}" is not in UTF-8')
    return schema


def _parted(kind: Format, file: str, schema: pa.Schema) -> pa.Schema:
    """The schema of CSV, unless its only column is a line that other signs part."""
    signs = [repr(sign) for sign in DELIMITERS.values() if sign != DELIMITERS[kind] and sign in schema.names[0]]
    if len(schema) > 1 or not signs:
        return schema
    raise SourceError(
        f'file {file} has one column, "{schema.names[0]}"',
        detail=f"values are parted by {DELIMITERS[kind]!r}.",
        hint=f"say what parts them: weft.read.csv(path, delimiter={signs[0]}); or pass schema= if it is one column.",
    )


def _header(kind: Format, file: str, at: At) -> list[str]:
    """The columns of a file with a header line; none if even that cannot be read."""
    with contextlib.suppress(pa.ArrowException, OSError):
        return _open_csv(kind, file, at).schema.names if kind in DELIMITERS else []
    return []


def guard(file: str, read: Any, kind: str = "") -> Any:
    """What `read` returns.  If the file cannot be read, raise an error that names it."""
    try:
        return read()
    except (pa.ArrowException, OSError) as error:
        raise say_unreadable(kind, file, error) from error


def names_file(error: SourceError, file: str) -> bool:
    """Whether an error says that a file cannot be read, or does not hold what it should."""
    return error.message == f"file {file} cannot be read" or error.message.endswith(f" in {file}")


def _changed(file: str) -> SourceError:
    return SourceError(
        f"file {file} has changed while a batch was reading it",
        detail="some of its parts would be of one version, and others of another.",
        hint="nothing of this batch was joined: run again. Write new rows to a new file, not to one that is there.",
    )
