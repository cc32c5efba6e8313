"""Columns that are in the names of folders: `year=2024/month=1/part.parquet`, as Hive has it and Spark writes it.

A folder says its column for all rows of the files in it and below it; a column of that name in a file does not count.
What must hold: a folder whose value does not fit the type of its column is an error that names the file, and so is what
is left out with `bad_files="skip"`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from urllib.parse import unquote

import pyarrow as pa

from weft.errors import SourceError
from weft.expr.types import sql_name

NULL = "__HIVE_DEFAULT_PARTITION__"
"""How NULL is written in the name of a folder."""
_WHOLE = re.compile(r"-?[0-9]{1,18}")

Values = Mapping[str, str | None]
"""Columns that folders say, as texts."""


def is_hidden(folder: str) -> bool:
    """Whether nobody looks into a folder of this name; a column may begin with `_`."""
    return folder.startswith(".") or (folder.startswith("_") and "=" not in folder)


def walk(path: str) -> Iterator[str]:
    """The files of a folder and of all below it."""
    for entry in os.scandir(path):
        if entry.is_file():
            yield entry.path
        elif entry.is_dir() and not is_hidden(entry.name):
            yield from _walk_below(entry.path)


def _walk_below(path: str) -> Iterator[str]:
    try:
        yield from walk(path)
    except FileNotFoundError:  # it went while we looked
        return


def values_of(file: str, root: str) -> Values:
    """What the folders between a root and a file say; nothing if there is no root."""
    if not root:
        return {}
    folders = (folder.partition("=") for folder in file.removeprefix(root).split("/")[:-1] if "=" in folder)
    return {_decode(name, file): None if value == NULL else _decode(value, file) for name, _, value in folders}


def _decode(text: str, file: str) -> str:
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError as error:
        raise _bad(file, f'"{text}" in its name is not UTF-8 behind the signs of per cent') from error


def with_fields(schema: pa.Schema, files: Iterable[str], root: str) -> pa.Schema:
    """The columns of the files and of their folders: whole numbers, if all are."""
    said: dict[str, set[str]] = {}
    for file in files:
        for name, value in values_of(file, root).items():
            said.setdefault(name, set()).update([] if value is None else [value])
    for name, values in said.items():
        whole = bool(values) and all(map(_WHOLE.fullmatch, values))
        field, at = pa.field(name, pa.int64() if whole else pa.string()), schema.get_field_index(name)
        schema = schema.append(field) if at < 0 else schema.set(at, field)
    return schema


def read_with(
    values: Values,
    file: str,
    columns: Sequence[str],
    schema: pa.Schema,
    read: Callable[[list[str]], Iterator[pa.RecordBatch]],
) -> Iterator[pa.RecordBatch]:
    """What `read` gives of the columns of a file, with those that its folders say."""
    said = {name: _value(name, values[name], schema.field(name).type, file) for name in columns if name in values}
    if not said:
        yield from read(list(columns))
        return
    own = [name for name in columns if name not in said]
    counted = own or [name for name in schema.names if name not in values][:1]
    for rows in read(counted):
        kept = {name: rows.column(name) for name in rows.schema.names if own and name not in said}
        yield pa.RecordBatch.from_pydict(kept | {name: pa.repeat(value, len(rows)) for name, value in said.items()})


def _value(name: str, text: str | None, kind: pa.DataType, file: str) -> pa.Scalar:
    try:
        return pa.scalar(text, pa.string()).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _bad(file, f'its folder says "{text}", and column "{name}" has type {sql_name(kind)}') from error


def _bad(file: str, what: str) -> SourceError:
    return SourceError(
        f"file {file} cannot be read",
        detail=f"{what}.",
        hint="nothing of this batch was joined; rename the folder, give the type with schema=, "
        'or declare its stream or table with bad_files="skip" to leave such files out.',
    )
