"""The Python data source behind `weft.read`: files in, envelopes out.

Offsets are positions in the log of discovered files.  Reading, selecting and routing all happen in the task
that reads, so rows never pass through the JVM one by one.  Spark starts a planning process for each source;
that process imports this module and must not wait for kernels, so they are loaded by the task that reads.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow

from weft.errors import WeftError, to_wire
from weft.host.source import FileLog, FileSource, Piece, pieces, read_piece, shares

if TYPE_CHECKING:
    import pyarrow as pa

    from weft.host.ingest import Ingest

FORMAT = "weft"
SCHEMA = "dest INT, seq BIGINT, edge STRING, payload BINARY"
"""Envelopes as Spark sees them."""


class WeftSource(DataSource):
    """The data source behind `weft.read`."""

    @classmethod
    def name(cls) -> str:
        """Its format name in Spark."""
        return FORMAT

    def schema(self) -> str:
        """Envelopes."""
        return SCHEMA

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: ARG002, N802
        """The reader described in the plan file."""
        with open(self.options["plan"], "rb") as file:
            reader: FileReader = cloudpickle.load(file)
        return reader


def _loud(method: Any) -> Any:
    """Let Weft's errors survive the way from the planning process to the driver."""

    @functools.wraps(method)
    def guarded(*args: Any) -> Any:
        try:
            return method(*args)
        except WeftError as error:
            raise RuntimeError(to_wire(error)) from error

    return guarded


class FileReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the files of a folder; an offset is a position in the log of discovered files."""

    def __init__(self, source: FileSource, content: bytes, tasks: int, log: str, watermarks: str) -> None:
        self.source, self.content, self.tasks, self.log_path = source, content, tasks, log
        self.watermarks = watermarks
        self.until: int | None = None
        self._log: FileLog | None = None

    @property
    def log(self) -> FileLog:
        """The discovered files."""
        if self._log is None:
            self._log = FileLog(self.source.path, self.log_path)
        return self._log

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """The beginning."""
        return {"at": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """The limit of a batch."""
        return ReadAllAvailable() if self.source.max_files is None else ReadMaxFiles(self.source.max_files)

    @_loud
    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Where the next batch ends."""
        end = self.log.discover() if self.until is None else self.until
        if isinstance(limit, ReadMaxFiles):
            end = min(end, start["at"] + limit.max_files)
        self.log.between(0, start["at"])
        return {"at": max(end, start["at"])}

    @_loud
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Whatever comes from now on is not for this run."""
        self.until = self.log.discover()

    def stop(self) -> None:
        """Leave quietly when Spark hangs up; its own way would end in a broken pipe on the terminal."""
        if isinstance(sys.exc_info()[1], EOFError):
            os._exit(0)

    @_loud
    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """The files between two offsets, dealt to tasks."""
        files = self.log.between(start["at"], end["at"])
        dealt = shares(pieces(self.source.format, files), self.tasks)
        return [InputPartition((task, share)) for task, share in enumerate(dealt)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """One task's files as envelopes."""
        from weft.host.spark.exchange import PackTask

        task, share = partition.value
        pack = PackTask(self.content, self.watermarks)
        return pack.run(lambda ingest: _rows(self.source, share, ingest), task, _where(share))


def _rows(source: FileSource, share: Sequence[Piece], ingest: Ingest) -> Iterator[pa.RecordBatch]:
    for piece in share:
        yield from read_piece(source.format, piece, ingest.columns, ingest.stream.schema)


def _where(share: Sequence[Piece]) -> str:
    files = sorted({piece.file for piece in share})
    return f" in {files[0]}" if len(files) == 1 else f" in one of {', '.join(files[:5])}"
