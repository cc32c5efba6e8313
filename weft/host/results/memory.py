"""Results in memory, for as long as the session lives."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from weft.host.results.sink import Results, Sink


class MemorySink(Sink):
    """Keeps the results of a session in memory."""

    def __init__(self, query: str, schema: pa.Schema) -> None:
        self.query, self.schema = query, schema
        self._tables: dict[str, pa.Table] = {}
        """By the names of files, which are the same when a batch is repeated."""

    def take(self, results: Results) -> None:
        """Keep the rows of a batch; doing it again changes nothing."""
        self._tables |= {path.name: pq.read_table(path, schema=self.schema) for path in results.files}
        results.on_placed()

    def __str__(self) -> str:
        return "kept in memory"

    def table(self) -> pa.Table:
        """All results so far."""
        return pa.concat_tables([self.schema.empty_table(), *self._tables.values()])
