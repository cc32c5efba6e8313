"""Merges the small result files of many batches, in generations.

A generation of a folder is the set of its files.  The next one is built inside of a hidden folder beside it: files that
stay are linked, the merged ones are written as one file.  Then the two folders change places in one step of the file
system.  It lies one level deeper than the folder, since some readers find hidden folders too: `out/*/*.parquet`.
What must hold: whoever lists the folder sees one generation, never a mix of two, so no row twice and none missing; and
at any moment, also after a crash, the folder itself is whole, and the hidden one can be thrown away.

A reader that has listed the folder before and opens a file after that may find the file gone: it lists again.
A reader may also have opened the folder and not listed it yet.  So the earlier generation stays for a while, under a
hidden name: a list of a folder that is being removed would lack files, and the reader could not know.

A file that was merged has a level, one more than that of its parts.  It is merged again when there are many of its
level, until it is large: so a row is written a few times, and the number of files grows with the bytes, not with the
batches.  Rejected: to replace one file and then remove the others, since a reader may look in between.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from weft.host.results.part import Part
from weft.host.state.durable import sync_folder

MANY = 64
"""So many files of one level are merged."""
LARGE = 16 << 20
"""Files of this many bytes are not merged any more."""
AT_ONCE = 128 << 20
"""Bytes that are merged between two batches, at most."""
RETIRED = 60.0
"""Seconds that an earlier generation stays."""
GROUP = 262_144
"""Rows of a row group, at most."""
NEXT = "next"
"""The generation that is being built; earlier ones are named by the time at which they went."""
_EXCHANGE, _HERE = 2, -100
"""Of Linux's renameat2: change places, and paths that count from the working directory."""


def merge_files(folder: Path, before: int) -> bool:
    """Merge files of batches before a given one, if there are many; return whether anything was merged."""
    others = others_of(folder)
    beside = others / NEXT
    try:
        parts = _choose(folder, before)
        if not parts:
            return False
        _remove_retired(folder, RETIRED)
        shutil.rmtree(beside, ignore_errors=True)
        _build(folder, beside, parts)
        if _exchange(folder, beside):
            beside.rename(others / str(time.time_ns()))
            return True
    except OSError:  # a full disk, no links, a folder that is gone or cannot be moved: what is there stays as it is
        pass
    shutil.rmtree(beside, ignore_errors=True)
    return False


def throw_away(folder: Path) -> None:
    """Remove what is left of other generations of a folder."""
    shutil.rmtree(others_of(folder), ignore_errors=True)


def _remove_retired(folder: Path, seconds: float) -> None:
    """Remove earlier generations that changed places with a later one so many seconds ago."""
    for place in others_of(folder).glob("[0-9]*"):
        if time.time_ns() - int(place.name) >= seconds * 1e9:
            shutil.rmtree(place, ignore_errors=True)


def others_of(folder: Path) -> Path:
    """Where other generations of a folder are; after a crash, what is there can be thrown away."""
    place = Path(os.path.realpath(folder))
    return place.with_name(f".{place.name}.weft")


def _choose(folder: Path, before: int) -> list[Part]:
    """The oldest small files of a level that has many of them."""
    levels: dict[int, list[tuple[Part, int]]] = {}
    for entry in os.scandir(folder):
        part = Part.of(entry.name)
        if entry.is_dir():
            return []  # a folder inside cannot be linked
        if part is not None and part.last < before and (size := entry.stat().st_size) < LARGE:
            levels.setdefault(part.level, []).append((part, size))
    for level in sorted(levels):
        if len(levels[level]) >= MANY:
            return list(_take(sorted(levels[level], key=lambda found: (found[0].last, found[0].name))))
    return []


def _take(found: Sequence[tuple[Part, int]]) -> Iterator[Part]:
    room = AT_ONCE
    for part, size in found:
        room -= size
        if room < 0:
            return
        yield part


def _build(folder: Path, beside: Path, parts: Sequence[Part]) -> None:
    """The next generation: one file instead of some."""
    beside.mkdir(parents=True)
    shutil.copystat(folder, beside)
    gone = {part.name for part in parts}
    for entry in os.scandir(folder):
        if entry.name not in gone:
            os.link(entry.path, beside / entry.name)
    made = beside / Part.merged(parts).name
    _write(made, [folder / part.name for part in parts])
    with open(made, "rb") as file:
        os.fsync(file.fileno())
    sync_folder(beside)


def _write(made: Path, files: Sequence[Path]) -> None:
    schema = pq.read_schema(files[0])
    with pq.ParquetWriter(made, schema, use_dictionary=False) as writer:
        for table in _tables(files, schema):
            writer.write_table(table, row_group_size=GROUP)


def _tables(files: Sequence[Path], schema: pa.Schema) -> Iterator[pa.Table]:
    """The rows of files, in portions of a row group."""
    waiting: list[pa.RecordBatch] = []
    for path in files:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(GROUP):
                waiting.append(batch)
                if sum(rows.num_rows for rows in waiting) >= GROUP:
                    yield pa.Table.from_batches(waiting, schema)
                    waiting = []
    yield pa.Table.from_batches(waiting, schema)


def _exchange(one: Path, other: Path) -> bool:
    """Let two folders change places in one step; return whether the file system could."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    paths = [os.fsencode(os.path.realpath(path)) for path in (one, other)]
    if call is None or call(_HERE, paths[0], _HERE, paths[1], _EXCHANGE) != 0:
        return False
    sync_folder(one.parent)
    sync_folder(other.parent)
    return True
