"""The Python data source behind `weft.read`: the files of all streams in, envelopes out.

One source serves all streams: Spark starts processes for every source, and a batch should cost the same for two
streams and for twenty.  An offset holds a position for each stream, in its log of discovered files.  Reading,
selecting and routing all happen in the task that reads, so rows never pass through the JVM one by one.  The
planning process imports this module and must not wait for kernels: they are loaded by the task that reads.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from weft.errors import WeftError, to_wire
from weft.host.source import FileLog, FileSource, Piece, pieces, read_piece, shares

if TYPE_CHECKING:
    import pyarrow as pa

    from weft.host.ingest import Ingest

FORMAT = "weft"
SCHEMA = StructType(
    [
        StructField("dest", IntegerType()),
        StructField("seq", LongType()),
        StructField("edge", StringType()),
        StructField("payload", BinaryType()),
    ]
)
"""Envelopes as Spark sees them."""
Offset = dict[str, int]
"""Stream -> how many of its files have been read."""


class WeftSource(DataSource):
    """The data source behind `weft.read`."""

    @classmethod
    def name(cls) -> str:
        """Its format name in Spark."""
        return FORMAT

    def schema(self) -> StructType:
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


@dataclass(frozen=True)
class Feed:
    """The files of one stream."""

    stream: str
    source: FileSource
    content: bytes
    """The stream's pickled Ingest."""
    log: str
    """Where the discovered files are written down."""


class FileReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the files of all streams; an offset holds, for each stream, a position in its log of discovered files."""

    def __init__(self, feeds: Sequence[Feed], tasks: int, watermarks: str) -> None:
        self.feeds, self.tasks, self.watermarks = {feed.stream: feed for feed in feeds}, tasks, watermarks
        self.until: Offset | None = None
        self._logs: dict[str, FileLog] = {}

    def log(self, stream: str) -> FileLog:
        """The discovered files of a stream."""
        if stream not in self._logs:
            self._logs[stream] = FileLog(self.feeds[stream].source.path, self.feeds[stream].log)
        return self._logs[stream]

    def initialOffset(self) -> Offset:  # noqa: N802
        """The beginning."""
        return dict.fromkeys(self.feeds, 0)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Every stream has a limit of its own."""
        return ReadAllAvailable()

    @_loud
    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: ARG002, N802
        """Where the next batch ends."""
        known = self._discover() if self.until is None else self.until
        return {stream: self._end(stream, start.get(stream, 0), known[stream]) for stream in self.feeds}

    def _end(self, stream: str, start: int, known: int) -> int:
        self.log(stream).between(0, start)
        step = self.feeds[stream].source.max_files
        return max(start, known if step is None else min(known, start + step))

    def _discover(self) -> Offset:
        return {stream: self.log(stream).discover() for stream in self.feeds}

    @_loud
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Whatever comes from now on is not for this run."""
        self.until = self._discover()

    def stop(self) -> None:
        """Leave quietly when Spark hangs up; its own way would end in a broken pipe on the terminal."""
        if isinstance(sys.exc_info()[1], EOFError):
            os._exit(0)

    @_loud
    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The files between two offsets, dealt to tasks."""
        found = []
        for stream, feed in self.feeds.items():
            files = self.log(stream).between(start.get(stream, 0), end.get(stream, 0))
            found += pieces(feed.source.format, files, stream)
        return [InputPartition((task, share)) for task, share in enumerate(shares(found, self.tasks))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """One task's files as envelopes."""
        from weft.host.spark.exchange import PackTask

        task, share = partition.value
        for stream, feed in self.feeds.items():
            mine = [piece for piece in share if piece.stream == stream]
            if mine:
                yield from PackTask(feed.content, self.watermarks).run(
                    functools.partial(_rows, feed.source, mine), task
                )


def _rows(source: FileSource, share: Sequence[Piece], ingest: Ingest) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Rows with the file they come from."""
    for piece in share:
        for rows in read_piece(source.format, piece, ingest.columns, ingest.stream.schema):
            yield f" in {piece.file}", rows
