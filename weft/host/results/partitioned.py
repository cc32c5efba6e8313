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

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from weft.errors import SinkError
from weft.host.results.parquet import ParquetSink
from weft.host.results.sink import Results
from weft.host.state.durable import sync_folder

BY = "partition by"
"""What the marker of such a folder says."""


class PartitionedFolder(ParquetSink):
    """A folder with a folder for each value."""

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

    def take(self, results: Results) -> None:
        """Put the rows of a batch into the folders of their values; doing it again changes nothing."""
        for source in results.files:
            try:
                for part in self._split(source):
                    self._place_part(source, part)
            except OSError as error:
                raise SinkError(
                    f"results cannot be put into folder {self.path}",
                    detail=f"{error}.",
                    hint="they are safe in the checkpoint; repair the folder and run again.",
                ) from error
            results.on_placed()
        sync_folder(self.path)

    def _split(self, source: Path) -> list[Path]:
        """Write the rows of a file apart, by their values, beside it."""
        aside = source.with_name(f"{source.stem}.parts")
        shutil.rmtree(aside, ignore_errors=True)
        rows = pq.read_table(source, schema=self.whole if self._known else None)
        kinds = pa.schema([rows.schema.field(name) for name in self.by])
        ds.write_dataset(
            rows, aside, format="parquet", use_threads=False,
            basename_template=f"{source.stem}-{{i}}.parquet", partitioning=ds.partitioning(kinds, flavor="hive"),
        )  # fmt: skip
        return sorted(aside.rglob("*.parquet"))

    def _place_part(self, source: Path, part: Path) -> None:
        folder = self.path / part.relative_to(source.with_name(f"{source.stem}.parts")).parent
        folder.mkdir(parents=True, exist_ok=True)
        aside = folder / f".{part.name}.tmp"
        shutil.copyfile(part, aside)
        with open(aside, "rb") as copied:
            os.fsync(copied.fileno())
        os.replace(aside, folder / part.name)
        sync_folder(folder)

    def _mark(self, owner: str) -> dict[str, str]:
        return {**super()._mark(owner), BY: ", ".join(self.by)}

    def _files(self) -> list[str]:
        """All files of results, with their folders."""
        found = [path.relative_to(self.path) for path in self.path.rglob("*") if path.is_file()]
        return sorted(str(path) for path in found if not any(part.startswith((".", "_")) for part in path.parts))

    def _write_empty(self) -> None:
        """Nothing: a file beside the folders has no value, and readers refuse it."""
