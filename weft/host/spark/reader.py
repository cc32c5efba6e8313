"""Files as a Python data source of Spark: for sessions in which other streams are Spark's streaming DataFrames.

One source serves all streams: Spark starts processes for every source, and a batch should cost the same for two
streams and for twenty.  Its rows are names of files; the task that joins them reads them.  The planning process imports
this module and must not wait for kernels.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from weft.errors import WeftError, to_wire
from weft.host.sources.feeds import Feeds, Offset

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
RAW = StructType(
    [StructField("stream", StringType()), StructField("kind", StringType()), StructField("payload", BinaryType())]
)
"""What a batch is read from: rows of a stream (kind "rows"), or where they lie (kind "piece")."""


class WeftSource(DataSource):
    """Pieces of files."""

    @classmethod
    def name(cls) -> str:
        """Its format name in Spark."""
        return FORMAT

    def schema(self) -> StructType:
        """What a batch is read from."""
        return RAW

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
    """Reads the files of all streams, at Spark's pace."""

    def __init__(self, feeds: Feeds, tasks: int) -> None:
        self.feeds, self.tasks = feeds, tasks
        self.until: Offset | None = None

    def initialOffset(self) -> Offset:  # noqa: N802
        """The beginning."""
        return self.feeds.beginning()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Every stream has a limit of its own."""
        return ReadAllAvailable()

    @_loud
    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: ARG002, N802
        """Where the next batch ends."""
        self.feeds.check(start)
        return self.feeds.end(start, self.feeds.discover() if self.until is None else self.until)

    @_loud
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Whatever comes from now on is not for this run."""
        self.until = self.feeds.discover()

    def stop(self) -> None:
        """Leave quietly when Spark hangs up; its own way would end in a broken pipe on the terminal."""
        if isinstance(sys.exc_info()[1], EOFError):
            os._exit(0)

    @_loud
    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The files between two offsets, dealt to tasks."""
        return [InputPartition(share) for share in self.feeds.deal(start, end, self.tasks)]

    def read(self, partition: InputPartition) -> Iterator[tuple[str, str, bytes]]:
        """One task's files, those of a stream after each other."""
        for piece in sorted(partition.value, key=lambda piece: piece.stream):
            yield piece.stream, "piece", cloudpickle.dumps(piece)
