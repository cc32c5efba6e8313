"""Sources inside Spark: a Python data source that reads Arrow and yields envelopes, and any streaming DataFrame.

Offsets are positions in the log of discovered files.  Reading, selecting and routing all
happen in the task that reads, so rows never pass through the JVM one by one.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow

from weft.errors import SourceError, WeftError, to_wire
from weft.host.ingest import Ingest
from weft.host.source import FileLog, FileSource, Piece, TableSource, pieces, read_piece, shares
from weft.host.spark.exchange import SCHEMA, PackTask, open_ingest, spoken, to_rows

FORMAT = "weft"


def envelopes(spark: SparkSession, source: object, ingest: Ingest, folder: str) -> DataFrame:
    """The stream as a streaming DataFrame of envelopes."""
    content = cloudpickle.dumps(ingest)
    os.makedirs(folder, exist_ok=True)
    if isinstance(source, TableSource):
        source = source.as_files(os.path.join(folder, f"{ingest.stream.name}.batches"))
    if isinstance(source, FileSource):
        path = os.path.join(folder, f"{ingest.stream.name}.plan")
        with open(path, "wb") as file:
            file.write(cloudpickle.dumps((source, content)))
        reader = spark.readStream.format(FORMAT).option("plan", path)
        reader = reader.option("log", os.path.join(folder, f"{ingest.stream.name}.files")).option("tasks", ingest.workers)
        return reader.load()
    if isinstance(source, DataFrame):
        names = [f"`{name.replace('`', '``')}`" for name in ingest.columns]
        return source.select(*names).mapInArrow(PackTask(content), SCHEMA)
    raise SourceError(f'stream "{ingest.stream.name}" has no usable source', detail=f"it is a {type(source).__name__}.")


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
            source, content = cloudpickle.load(file)
        return FileReader(source, content, int(self.options["tasks"]), self.options["log"])


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

    def __init__(self, source: FileSource, content: bytes, tasks: int, log: str) -> None:
        self.source, self.content, self.tasks, self.log_path = source, content, tasks, log
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
        return {"at": max(end, start["at"])}

    @_loud
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Whatever comes from now on is not for this run."""
        self.until = self.log.discover()

    @_loud
    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """The files between two offsets, dealt to tasks."""
        files = self.log.files[start["at"] : end["at"]]
        dealt = shares(pieces(self.source.format, files), self.tasks)
        return [InputPartition((task, share)) for task, share in enumerate(dealt)]

    @spoken
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """One task's files as envelopes."""
        task, share = partition.value
        ingest = open_ingest(self.content)
        yield from to_rows(ingest.run(_rows(self.source, share, ingest), task, _where(share)))


def _rows(source: FileSource, share: Sequence[Piece], ingest: Ingest) -> Iterator[pa.RecordBatch]:
    for piece in share:
        yield from read_piece(source.format, piece, ingest.columns, ingest.stream.schema)


def _where(share: Sequence[Piece]) -> str:
    files = sorted({piece.file for piece in share})
    return f" in {files[0]}" if len(files) == 1 else f" in one of {', '.join(files[:5])}"




def frame_schema(frame: Any, name: str) -> tuple[pa.Schema, SparkSession]:
    """The Arrow schema of a streaming DataFrame, and its session."""
    if not isinstance(frame, DataFrame) or not frame.isStreaming:
        raise SourceError(f'source of stream "{name}" is not a streaming DataFrame', hint="use spark.readStream, or weft.read.")
    return to_arrow_schema(frame.schema), frame.sparkSession
