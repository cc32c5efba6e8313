"""A bounded sample of a source, for `Session.analyze`.

The cost is bounded, however large the input: for each row of the sample at most SCAN rows are decoded, or SCAN times
LINE bytes of text.  A smaller source is read whole, and every row has the same chance to be in the sample.  Of a larger
source only some parts are read, spread over the whole of it: row groups of Parquet (the beginnings of huge ones), and
stretches of lines of text.  Then every row of these parts has the same chance, and the sample says which row is from
which part, since neighbours are often alike.

The number of all rows is exact for Parquet (from its footers) and for tables; for text it is estimated from bytes.  The
same seed draws the same rows.
Rejected: the first rows of the first file.  Data drifts, and its oldest hour says little about the rest.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeVar

import numpy as np
import pyarrow as pa

from weft.host.ingest import conform, event_times
from weft.host.sources.files import DELIMITERS, At, Format, guard, open_parquet, read_piece, read_text, size_of
from weft.host.sources.partitions import read_with, values_of
from weft.host.sources.source import Piece
from weft.kernels.codes import Ints
from weft.query.model import TIME, Stream
from weft.stats.sample import Sample

SCAN = 16
"""At most this many rows are decoded for each row of the sample."""
LINE = 40
"""Assumed bytes of a row of text, before any row is read."""
PARTS = 8
"""A large source is sampled in at least this many parts, if it has them."""
STRETCH = 1 << 14
"""Bytes of the smallest stretch of text."""
Part = TypeVar("Part")


def draw_from_files(
    kind: Format,
    files: Sequence[str],
    stream: Stream,
    columns: Sequence[str],
    most: int,
    seed: int,
    at: At = None,
    root: str = "",
) -> Sample:
    """At most `most` rows of some files, in feed order, with their event times; folders below `root` say columns."""
    reader = replace(_reader(stream, columns, most, seed, at), root=root)
    return reader.parquet(files) if kind == "parquet" else reader.text(kind, files)


def draw_from_tables(
    tables: Sequence[pa.Table], stream: Stream, columns: Sequence[str], most: int, seed: int
) -> Sample:
    """At most `most` rows of some tables, in feed order, with their event times."""
    return _reader(stream, columns, most, seed).tables(tables)


def _reader(stream: Stream, columns: Sequence[str], most: int, seed: int, at: At = None) -> _Reader:
    random = np.random.default_rng([seed, zlib.crc32(stream.name.encode())])
    return _Reader(stream, tuple(columns), most, random, at)


@dataclass(frozen=True)
class _Group:
    """A row group, or its beginning."""

    file: str
    number: int
    rows: int


@dataclass(frozen=True)
class _Stretch:
    """The lines of a file that begin between two offsets; all of a file if `end` is None."""

    file: str
    start: int
    end: int | None
    bytes: int


@dataclass(frozen=True)
class _Reader:
    stream: Stream
    columns: tuple[str, ...]
    most: int
    random: np.random.Generator
    at: At = None
    root: str = ""

    # --------------------------------------------------------------------------------------------- tables

    def tables(self, tables: Sequence[pa.Table]) -> Sample:
        """Rows from anywhere: tables are in memory."""
        total = sum(table.num_rows for table in tables)
        chosen, start = self._choose(total), 0
        found: list[pa.RecordBatch] = []
        for number, table in enumerate(tables):
            mine = chosen[(chosen >= start) & (chosen < start + table.num_rows)] - start
            rows = self._table([*self._conform(table.to_batches(), f" in batch {number}")])
            found += rows.take(pa.array(mine)).to_batches()
            start += table.num_rows
        return self._sample(found, total)

    # -------------------------------------------------------------------------------------------- Parquet

    def parquet(self, files: Sequence[str]) -> Sample:
        """Row groups spread over all files."""
        groups = [group for file in files for group in guard(file, lambda f=file: _groups(f, self.at))]
        total = sum(group.rows for group in groups)
        if total > SCAN * self.most:
            longest = -(-SCAN * self.most // PARTS)
            groups = [_Group(group.file, group.number, min(group.rows, longest)) for group in groups]
            groups = self._spread(groups, [group.rows for group in groups], SCAN * self.most)
        read = sum(group.rows for group in groups)
        chosen, start = self._choose(read), 0
        found: list[pa.RecordBatch] = []
        parts: list[Ints] = []
        for number, group in enumerate(groups):
            mine = chosen[(chosen >= start) & (chosen < start + group.rows)] - start
            if len(mine):
                found += self._rows_of(group, mine)
                parts.append(np.full(len(mine), number, dtype=np.int64))
            start += group.rows
        return self._sample(found, total, read, parts)

    def _rows_of(self, group: _Group, wanted: Ints) -> Iterator[pa.RecordBatch]:
        """Rows of a group by their numbers; nothing is decoded beyond the last of them."""
        start = 0
        piece = Piece(group.file, (group.number,), 0, root=self.root)
        for batch in read_piece("parquet", piece, self.columns, self.stream.schema, self.at):
            mine = wanted[(wanted >= start) & (wanted < start + batch.num_rows)] - start
            yield from (rows.take(pa.array(mine)) for rows in self._conform([batch], f" in {group.file}"))
            start += batch.num_rows
            if start > wanted[-1]:
                return

    # ----------------------------------------------------------------------------------------------- text

    def text(self, kind: Format, files: Sequence[str]) -> Sample:
        """Stretches of lines spread over all files."""
        sizes = {file: size_of(file, self.at) for file in files}
        bound = max(4 * PARTS * STRETCH, SCAN * LINE * self.most)
        stretches = [_Stretch(file, 0, None, size) for file, size in sizes.items()]
        if sum(sizes.values()) > bound:
            step = max(STRETCH, bound // (4 * PARTS))
            stretches = [part for file, size in sizes.items() for part in _stretches(file, size, step)]
            stretches = self._spread(stretches, [part.bytes for part in stretches], bound)
        found, parts, seen, rows = [], [], 0, 0
        for number, part in enumerate(stretches):
            batches = list(self._conform(self._lines(kind, part), f" in {part.file}"))
            found += batches
            count = sum(batch.num_rows for batch in batches)
            parts.append(np.full(count, number, dtype=np.int64))
            seen, rows = seen + part.bytes, rows + count
        whole = seen == sum(sizes.values())
        total = float(rows) if whole else rows * sum(sizes.values()) / max(1, seen)
        chosen = self._choose(rows)
        table = self._table(found).take(pa.array(chosen))
        numbers = np.concatenate(parts)[chosen] if parts else np.empty(0, dtype=np.int64)
        return self._sample(table.to_batches(), total, rows, [numbers])

    def _lines(self, kind: Format, part: _Stretch) -> Iterable[pa.RecordBatch]:
        whole = Piece(part.file, None, part.bytes, root=self.root)
        if part.end is None:
            return read_piece(kind, whole, self.columns, self.stream.schema, self.at)
        text = guard(part.file, lambda: _cut(part, self.at, header=kind in DELIMITERS))
        try:
            return list(self._parse(kind, part.file, text)) if text else []
        except (pa.ArrowException, KeyError):
            # Line numbers within a stretch would mislead.  Reading the whole file raises the right error, if any.
            for _ in read_piece(kind, whole, self.columns, self.stream.schema, self.at):
                pass
            return []

    def _parse(self, kind: Format, file: str, text: bytes) -> Iterator[pa.RecordBatch]:
        schema = self.stream.schema
        values = values_of(file, self.root)
        return read_with(values, file, self.columns, schema, lambda own: read_text(kind, text, own, schema))

    # ------------------------------------------------------------------------------------------------ all

    def _choose(self, rows: int) -> Ints:
        """The numbers of the rows that are kept, out of so many, in order."""
        if rows <= self.most:
            return np.arange(rows, dtype=np.int64)
        return np.sort(self.random.choice(rows, self.most, replace=False, shuffle=False).astype(np.int64))

    def _spread(self, parts: Sequence[Part], sizes: Sequence[int], bound: int) -> list[Part]:
        """One part from each of several equal stretches of the input, as many as fit the bound."""
        fit = max(1, min(len(parts), int(bound / (sum(sizes) / len(parts)))))
        edges = np.linspace(0, len(parts), fit + 1).astype(np.int64)
        picked = [int(self.random.integers(low, high)) for low, high in pairwise(edges)]
        used = 0
        kept: list[int] = []
        for at in self.random.permutation(picked):
            if not kept or used + sizes[at] <= bound:
                kept.append(int(at))
                used += sizes[at]
        return [parts[at] for at in sorted(kept)]

    def _conform(self, batches: Iterable[pa.RecordBatch], where: str) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield conform(batch, self.stream, self.columns, where)

    def _table(self, batches: Sequence[pa.RecordBatch]) -> pa.Table:
        schema = pa.schema([pa.field(name, self.stream.schema.field(name).type) for name in self.columns])
        return pa.Table.from_batches(batches, schema).combine_chunks()

    def _sample(
        self, batches: Sequence[pa.RecordBatch], total: float, read: float | None = None, parts: Sequence[Ints] = ()
    ) -> Sample:
        rows = self._table(batches)
        if self.stream.event_time is not None:
            times = [event_times(chunk, self.stream) for chunk in rows.column(self.stream.event_time).chunks]
            rows = rows.append_column(TIME, pa.chunked_array(times, pa.int64()))
        if read is None or read >= total:
            return Sample(rows, total)
        return Sample(rows, total, read, np.concatenate(parts) if parts else None)


def _groups(file: str, at: At) -> list[_Group]:
    with open_parquet(file, at) as parquet:
        meta = parquet.metadata
        return [_Group(file, number, meta.row_group(number).num_rows) for number in range(meta.num_row_groups)]


def _stretches(file: str, size: int, step: int) -> list[_Stretch]:
    """A file in steps; a compressed one can only be read from its beginning, and all of it."""
    if file.endswith((".gz", ".bz2", ".zst", ".lz4", ".br")):
        return [_Stretch(file, 0, None, size)]
    return [_Stretch(file, at, min(at + step, size), min(step, size - at)) for at in range(0, size, step)]


def _cut(part: _Stretch, at: At, header: bool) -> bytes:
    """Whole lines of a stretch, after the header of the file."""
    assert part.end is not None
    with open(part.file, "rb") if at is None else at.buffered(part.file, STRETCH) as file:
        first = file.readline() if header else b""
        start = max(part.start, len(first))
        if start > part.start or start == 0:
            file.seek(start)
        else:
            file.seek(start - 1)
            file.readline()  # the rest of a line that began before
        text = file.read(max(0, part.end - file.tell()))
        if text and not text.endswith(b"\n"):
            text += file.readline()
        return first + text if text else b""
