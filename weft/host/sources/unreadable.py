"""What is said of files that cannot be read: which column it is, whether it has another format, why none is there."""

from __future__ import annotations

import difflib
import glob
import os
import re
from collections.abc import Callable, Sequence

from weft.errors import SourceError

_ENDINGS = {"csv": "csv", "tsv": "csv", "json": "json", "jsonl": "json", "ndjson": "json",
            "parquet": "parquet", "pq": "parquet"}  # fmt: skip
"""How a file's name ends -> the function that reads it."""
_COMPRESSED = re.compile(r"\.(gz|bz2|zst|lz4|br)$", re.IGNORECASE)
_IN_COLUMN = re.compile(r"^In CSV column #(\d+): (?:Row #(\d+): )?CSV conversion error to (\S+): (.*)$")
_ARRAY = "Column() changed from object to array"
_REST = 'repair the file and run again, or declare its stream or table with bad_files="skip" to leave such files out.'


def say_unreadable(
    kind: str, file: str, error: Exception, header: Callable[[], Sequence[str]] = tuple[str, ...]
) -> SourceError:
    """The error for a file that should have been of a kind; `header` gives its columns, if it has a header line."""
    text = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
    found = _IN_COLUMN.match(text)
    return SourceError(
        f"file {file} cannot be read",
        detail=f"{text if found is None else _say_column(found, header())}.",
        hint=f"nothing of this batch was joined; {_advice(kind, file, text, found)}{_REST}",
    )


def _say_column(found: re.Match[str], names: Sequence[str]) -> str:
    """The column by its name, and the row as an editor numbers it."""
    number, row, kind, what = found.groups()
    column = f'"{names[int(number)]}"' if int(number) < len(names) else f"number {int(number) + 1}"
    return f"column {column}{f', row {row}' if row else ''}: {what}, and the column has type {kind}"


def _advice(kind: str, file: str, text: str, found: re.Match[str] | None) -> str:
    other = _ENDINGS.get(_COMPRESSED.sub("", file).rpartition(".")[2].lower(), kind)
    if other != kind and kind in _ENDINGS:
        return f"its name says that it is no {kind}: read such files with weft.read.{other}; else "
    if found is not None and "UTF8" not in text:
        return "without a schema, types are those of the first file: give others with schema=; or "
    if _ARRAY in text:
        return "write one JSON object a line, and no list around them; "
    return ""


def refuse_nothing(path: str, *, local: bool) -> SourceError:
    """The error where the columns should be read from the first file, and there is none."""
    detail, hint = "the columns are read from the first file, and there is none.", "put the first file there."
    if local and not os.path.isdir(path) and not glob.has_magic(path):
        detail, near = "there is no such folder.", _near(path)
        hint = f'did you mean "{near}"?' if near else "relative paths count from the folder you are in."
    elif local and (inside := _folders_in(path)):
        detail = f'the folder has only folders, such as "{inside[0]}", and these are not looked into.'
        pattern = f'name the files by a pattern: "{_pattern(path)}".'
        hint = (
            f"look into them with partitions=True, which makes them columns; or {pattern}"
            if "=" in inside[0]
            else pattern
        )
    later = "Or pass schema=pyarrow.schema([...]), and files may come later."
    return SourceError(f"no files at {path}", detail=detail, hint=f"{hint} {later}")


def _pattern(path: str) -> str:
    """A pattern for the files below a folder, as deep as its first folders go."""
    below = path
    while inside := _folders_in(below):
        path, below = os.path.join(path, "*"), os.path.join(below, inside[0])
    return os.path.join(path, "*")


def _near(path: str) -> str | None:
    """A folder beside this one, with a name that is much like it."""
    above, name = os.path.split(path)
    found = difflib.get_close_matches(name, _folders_in(above), 1)
    return os.path.join(above, found[0]) if found else None


def _folders_in(path: str) -> list[str]:
    if not os.path.isdir(path):
        return []
    return sorted(entry.name for entry in os.scandir(path) if entry.is_dir() and not entry.name.startswith((".", "_")))
