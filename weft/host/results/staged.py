"""Results of one worker in one wave, written as Parquet into the staging folder of the batch.

A file is written under a temporary name and renamed when it is complete.  Its name depends on batch, query, wave and
worker only, so a task that is run again replaces it.  Every run has a folder of its own: a worker left over from a
killed run may still be writing.  Rows leave memory with each row group.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from weft.host.batch import Batch
from weft.host.state.durable import sync_file
from weft.host.state.place import Place
from weft.host.weights import repeat
from weft.topology.model import Topology

GROUP = 262_144
"""Rows of a row group, at most."""
GROUP_BYTES = 64 << 20


class StagedResults:
    """Parquet files of one task, one per query that has results."""

    def __init__(self, place: Place, folder: str, batch: Batch, worker: int, wave: int, topology: Topology) -> None:
        self.place, self.folder = place, place.folder / folder
        self.run, self.worker, self.wave = batch.run.strip("-"), worker, wave
        self.prefix = f"{batch.number:012d}" + (f"-{batch.job}" if batch.job else "")
        self.schemas = {emit.query: emit.schema for emit in topology.emits}
        self.writers: dict[str, pq.ParquetWriter] = {}
        self.waiting: dict[str, list[pa.RecordBatch]] = {}
        self.size: dict[str, tuple[int, int]] = {}
        """Query -> rows and bytes that are not written yet."""
        self.counts: dict[str, int] = {}

    def write(self, query: str, rows: pa.RecordBatch) -> None:
        """Take some result rows, each as often as its weight says."""
        rows = repeat(rows, query)
        waiting = self.waiting.setdefault(query, [])
        waiting.append(rows)
        self.counts[query] = self.counts.get(query, 0) + rows.num_rows
        count, size = self.size.get(query, (0, 0))
        self.size[query] = count, size = count + rows.num_rows, size + rows.get_total_buffer_size()
        if count >= GROUP or size >= GROUP_BYTES:
            self._flush(query)

    def close(self) -> list[dict[str, Any]]:
        """Finish all files, and return what was written."""
        for query in self.waiting:
            self._flush(query)
        files = []
        for query, writer in self.writers.items():
            writer.close()
            sync_file(self._aside(query))
            os.replace(self._aside(query), self._final(query))
            self.place.keep(str(self._final(query).relative_to(self.place.folder)))
            files.append({"query": query, "file": f"{self.run}/{self._final(query).name}", "rows": self.counts[query]})
        return files

    def _flush(self, query: str) -> None:
        if not self.waiting[query]:
            return
        table = pa.Table.from_batches(self.waiting[query], schema=self.schemas[query])
        self.waiting[query], self.size[query] = [], (0, 0)
        if query not in self.writers:
            self._final(query).parent.mkdir(parents=True, exist_ok=True)
            self.writers[query] = pq.ParquetWriter(self._aside(query), self.schemas[query], use_dictionary=False)
        self.writers[query].write_table(table, row_group_size=GROUP)

    def _final(self, query: str) -> Path:
        return self.folder / query / self.run / f"{self.prefix}-{self.wave}-{self.worker:04d}.parquet"

    def _aside(self, query: str) -> Path:
        final = self._final(query)
        return final.with_name(f".{final.name}.{os.getpid()}.tmp")
