"""Finds the records that cannot be read, and says what becomes of them.

All records of a chunk are read together, which is fast.  If that fails, each half is read alone, and so on: a bad
record among n costs about log n further tries.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal as OneOf

import pyarrow as pa
import pyarrow.parquet as pq

from weft.errors import SourceError
from weft.host.sources.kafka.positions import Stretch
from weft.host.sources.kafka.values import READ_ERRORS, Format

Policy = OneOf["fail", "skip", "sink"]
BAD = pa.schema(
    [
        ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("timestamp", pa.timestamp("ms")),
        ("key", pa.binary()), ("value", pa.binary()), ("error", pa.string()),
    ]
)  # fmt: skip
"""What is kept of a bad record."""


@dataclass(frozen=True)
class Sifted:
    """Rows of the records that can be read, and what is wrong with the others."""

    rows: pa.RecordBatch
    good: Sequence[int]
    """The record that each row is from."""
    bad: dict[int, str]
    """Record -> what is wrong with it."""


def sift(form: Format, values: Sequence[bytes], columns: pa.Schema) -> Sifted:
    """Read some values."""
    try:
        return Sifted(form.read(values, columns), range(len(values)), {})
    except READ_ERRORS as error:
        if len(values) == 1:
            empty = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in columns], names=columns.names)
            return Sifted(empty, (), {0: str(error).splitlines()[0]})
    half = len(values) // 2
    first, second = sift(form, values[:half], columns), sift(form, values[half:], columns)
    return Sifted(
        pa.concat_batches([first.rows, second.rows]),
        [*first.good, *(half + at for at in second.good)],
        first.bad | {half + at: said for at, said in second.bad.items()},
    )


def refuse(part: Stretch, offset: int, why: str) -> SourceError:
    """The error about a record that cannot be read."""
    return SourceError(
        f"the record at offset {offset} of {part.file} cannot be read",
        detail=f"{why.rstrip('.')}.",
        hint='nothing of this batch was joined; leave such records out with weft.read.kafka(..., bad="skip"), '
        'or keep them apart with bad="sink".',
    )


def keep_apart(folder: str, part: Stretch, rows: pa.Table) -> None:
    """Write the bad records of a part.  Its name follows from the part, so a task that is run again replaces it."""
    final = Path(folder, f"{part.topic}-{part.partition:05d}-{part.start:020d}-{part.end:020d}.parquet")
    final.parent.mkdir(parents=True, exist_ok=True)
    aside = final.with_name(f".{final.name}.{os.getpid()}.tmp")
    pq.write_table(rows, aside)
    os.replace(aside, final)
