"""Results as rows of a table in Spark's catalog, each batch once.

A batch is written before it is committed, and is written again if it is run again.  Two kinds of tables forgive that.
A Delta table remembers, for each writer, the number of its last batch: Weft gives it both with every write (its options
`txnAppId` and `txnVersion`), and it ignores what it has.  A table of files is partitioned by the number of the batch,
and a write replaces the partition of its batch.  What must hold: a batch that is run again has the same rows.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from weft.errors import SinkError, first_line
from weft.host.results.sink import Results, Sink, When

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BATCH = "weft_batch"
TRACKED = "spark.sql.hive.manageFilesourcePartitions"
"""Whether Spark's catalog keeps a list of the partitions of a table; if not, it finds them in the folder."""
KNOWS_BATCHES = ("delta",)
"""Formats whose tables know which batches they have."""


class TableSink(Sink):
    """A table of Spark's catalog."""

    when: ClassVar[When] = "before commit"

    def __init__(
        self,
        query: str,
        schema: pa.Schema,
        table: str,
        kind: str = "parquet",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if BATCH in schema.names:
            hint = "give the column another name: SELECT ... AS name."
            raise SinkError(f'query "{query}" has a column {BATCH}, which the table has too', hint=hint)
        self.query, self.name, self.format, self.options = query, table, kind, dict(options or {})
        self._owner = ""

    def claim(self, owner: str, *, published: bool, last: int) -> None:  # noqa: ARG002
        """Note whose results these are."""
        self._owner = owner

    def __str__(self) -> str:
        return f"to table {self.name}"

    def take(self, results: Results) -> None:
        """Write the rows of a batch; doing it again changes nothing."""
        if not results.files:
            return
        try:
            write = self._append if self.format in KNOWS_BATCHES else self._replace
            write(results.load(), results.batch)
        except Exception as error:
            raise SinkError(
                f"results cannot be written to table {self.name}",
                detail=f"batch {results.batch}: {type(error).__name__}: {first_line(error)}.",
                hint="nothing of this batch was committed; repair the table and run again.",
            ) from error
        results.on_placed()

    def _append(self, rows: DataFrame, batch: int) -> None:
        writer = rows.write.format(self.format).mode("append").options(**self.options)
        writer = writer.option("txnAppId", f"weft-{self._owner}-{self.query}").option("txnVersion", batch)
        writer.saveAsTable(self.name)

    def _replace(self, rows: DataFrame, batch: int) -> None:
        spark = rows.sparkSession
        is_known = spark.catalog.tableExists(self.name)
        if not is_known:
            self._create(rows)
        view = f"weft_{uuid.uuid4().hex}"
        rows.createOrReplaceTempView(view)
        try:
            spark.sql(f"INSERT OVERWRITE TABLE {self.name} PARTITION ({BATCH} = {batch}) SELECT * FROM {view}")
        finally:
            spark.catalog.dropTempView(view)
        if not is_known and "path" in self.options and spark.conf.get(TRACKED, "true") == "true":
            spark.catalog.recoverPartitions(self.name)

    def _create(self, rows: DataFrame) -> None:
        """Make the table.  Its folder may have rows already: of a catalog that ended with its process, or of a run that
        died before the table was known.  They stay, so no rows are written here: Spark would empty the folder first."""
        given = ", ".join(f"'{_escape(name)}' '{_escape(str(value))}'" for name, value in self.options.items())
        rows.sparkSession.sql(
            f"CREATE TABLE {self.name} ({rows.schema.toDDL()}, {BATCH} BIGINT) USING {self.format} "
            f"{f'OPTIONS ({given}) ' if given else ''}PARTITIONED BY ({BATCH})"
        )


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
