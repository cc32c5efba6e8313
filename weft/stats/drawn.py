"""Rows drawn from running streams, in bounded memory: so predicates can be measured that today's plan does not ask.

A task of wave 0 draws at most `most` rows of what it reads, each with the same chance, and sends them to the driver as
plain data beside its counters.  The driver keeps at most as many rows of an epoch as it is told to, so of an epoch with
many batches each task draws less.

How many values a key has is seen by pairs of drawn rows that agree.  Of n rows there are n^2 / 2 pairs, so twice the
rows tell four times as much: samples of a few hundred rows say hardly anything about a key with a million values.

What must hold: the same rows and the same seed give the same sample, so a batch that is run again reports the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

ROWS = 4_000
"""Rows of a stream that are drawn in an epoch, by all its tasks; about so many."""
LEAST = 200
"""But so many by each task: tasks may have very different rows."""
BYTES = 1 << 20
"""What one task draws of a stream is not larger than this."""

Part = tuple[int, int]
"""One of so many parts of a sample."""
Plain = tuple[int, bytes]
"""Rows that were read, and those that were drawn of them, as Arrow."""


def rows_of_task(workers: int, batches: int = 1) -> int:
    """How many rows a task draws, where a stream is read by about so many tasks, and an epoch has so many batches."""
    return max(LEAST, ROWS // (workers * max(1, batches)))


class Drawing:
    """What one task draws of one stream."""

    def __init__(self, most: int, seed: int) -> None:
        self._most, self._random = most, np.random.default_rng(seed)
        self._parts: list[tuple[int, pa.RecordBatch]] = []

    def see(self, rows: pa.RecordBatch) -> None:
        """Draw from some rows."""
        if self._most and rows.num_rows:
            self._most = min(self._most, max(1, int(BYTES * rows.num_rows / max(1, rows.nbytes))))
            self._parts.append((rows.num_rows, _draw(rows, self._most, self._random)))

    def plain(self) -> list[Plain]:
        """The sample as plain data; nothing if there were no rows."""
        if not self._parts:
            return []
        total = sum(count for count, _ in self._parts)
        shares = ((rows, round(min(self._most, total) * count / total)) for count, rows in self._parts)
        drawn = pa.Table.from_batches([_draw(rows, most, self._random) for rows, most in shares])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, drawn.schema) as writer:
            writer.write_table(drawn)
        return [(total, sink.getvalue().to_pybytes())]


def _draw(rows: pa.RecordBatch, most: int, random: np.random.Generator) -> pa.RecordBatch:
    if rows.num_rows <= most:
        return rows
    return rows.take(pa.array(np.sort(random.choice(rows.num_rows, most, replace=False))))


@dataclass
class Drawn:
    """The sample of one stream over many batches."""

    most: int
    seen: int = 0
    """Rows that it was drawn from."""
    _parts: list[tuple[int, pa.Table]] = field(default_factory=list)

    def add(self, found: Sequence[Any]) -> None:
        """Take what tasks have drawn."""
        for count, rows in found:
            with pa.ipc.open_stream(rows) as reader:
                self._parts.append((count, reader.read_all()))
            self.seen += count
        if sum(part.num_rows for _, part in self._parts) > 4 * self.most:
            self._parts = [(self.seen, self.rows(seed=self.seen))]

    def rows(self, seed: int = 0, without: Part | None = None) -> pa.Table:
        """At most `most` rows, each with the same chance; columns that not all parts have are left out."""
        random = np.random.default_rng(seed)
        names = [name for name in self._parts[0][1].column_names if all(name in p.column_names for _, p in self._parts)]
        want = [min(part.num_rows, self.most * count / max(1, self.seen)) for count, part in self._parts]
        drawn = [
            part.select(names).take(pa.array(np.sort(random.choice(part.num_rows, _round(n, random), replace=False))))
            for (_, part), n in zip(self._parts, want, strict=True)
        ]
        found = pa.concat_tables(drawn)
        if without is None:
            return found
        which, of = without
        return found.filter(pa.array(np.arange(found.num_rows) % of != which))


def _round(n: float, random: np.random.Generator) -> int:
    """A whole number that is `n` on average: many small parts must not all be rounded down to nothing."""
    return int(n) + int(random.random() < n - int(n))
