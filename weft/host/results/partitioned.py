"""Results as Parquet files in one folder for each value of some columns: `day=2026-01-01/...parquet`.

The columns are in the names of the folders and not in the files, as Hive has it and DuckDB, Spark and Arrow read it.
What must hold is as for a plain folder (`weft.host.results.parquet`): a file appears whole, after the commit of its
batch, and publishing again replaces it by itself, since its name follows from that of the staged file.  Small files are
not merged, and an empty folder has no file that shows the columns: readers take them from the first file.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from weft.errors import SinkError
from weft.host.results.parquet import ParquetSink

BY = "partition by"
"""What the marker of such a folder says."""


class PartitionedFolder(ParquetSink):
    """A folder with a folder for each value."""

    deep: ClassVar[bool] = True

    def __init__(self, query: str, schema: pa.Schema, path: str | os.PathLike[str], by: str | Sequence[str]) -> None:
        self.by = (by,) if isinstance(by, str) else tuple(by)
        missing = [name for name in self.by if name not in schema.names]
        if missing or not self.by or len(self.by) == len(schema.names):
            raise SinkError(
                f'results of query "{query}" cannot be partitioned by {", ".join(self.by) or "nothing"}',
                detail=f"its columns are: {', '.join(schema.names)}.",
                hint="name some of them, and leave at least one for the files.",
            )
        self.whole, self._known = schema, True
        super().__init__(query, pa.schema([field for field in schema if field.name not in self.by]), path, merge=False)

    @classmethod
    def again(cls, query: str, path: str, by: str) -> PartitionedFolder:
        """The sink of a folder that exists, for files that are left; their columns are read from them."""
        names = by.split(", ")
        made = cls(query, pa.schema([*((name, pa.null()) for name in names), ("rest", pa.null())]), path, names)
        made._known = False
        return made

    def _place(self, source: Path) -> None:
        """Put the rows of a file into the folders of their values."""
        for part in self._split(source):
            with open(part, "rb") as written:
                os.fsync(written.fileno())
            self.target.put(part, str(part.relative_to(_aside(source))))

    def _split(self, source: Path) -> list[Path]:
        """Write the rows of a file apart, by their values, beside it."""
        aside = _aside(source)
        shutil.rmtree(aside, ignore_errors=True)
        rows = pq.read_table(source, schema=self.whole if self._known else None)
        kinds = pa.schema([rows.schema.field(name) for name in self.by])
        ds.write_dataset(
            rows, aside, format="parquet", use_threads=False,
            basename_template=f"{source.stem}-{{i}}.parquet", partitioning=ds.partitioning(kinds, flavor="hive"),
        )  # fmt: skip
        return sorted(aside.rglob("*.parquet"))

    def _mark(self, owner: str) -> dict[str, str]:
        return {**super()._mark(owner), BY: ", ".join(self.by)}

    def _write_empty(self) -> None:
        """Nothing: a file beside the folders has no value, and readers refuse it."""


def _aside(source: Path) -> Path:
    return source.with_name(f"{source.stem}.parts")
