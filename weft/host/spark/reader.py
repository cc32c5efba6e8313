"""Files as a Python data source of Spark, for sessions in which other streams are streaming DataFrames of Spark.

One source serves all streams: Spark starts processes for every source, and a batch should cost the same for two
streams and for twenty.  Its rows only name parts of files; the tasks of wave 0 read them.  Spark's planning process
imports this module, so it must not import the kernels, which load slowly.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
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
"""The input of a batch: rows of a stream (kind "rows"), or a part of a file that holds them (kind "piece")."""


class WeftSource(DataSource):
    """The data source: its rows name parts of files."""

    @classmethod
    def name(cls) -> str:
        """Its format name in Spark."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns of the input of a batch."""
        return RAW

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: ARG002, N802
        """The reader described in the plan file."""
        with open(self.options["plan"], "rb") as file:
            reader: FileReader = cloudpickle.load(file)
        return reader


def _wire_errors(method: Any) -> Any:
    """Encode Weft's errors so that the driver can read them out of those of the planning process."""

    @functools.wraps(method)
    def call(*args: Any) -> Any:
        try:
            return method(*args)
        except WeftError as error:
            raise RuntimeError(to_wire(error)) from error

    return call


def read_offset(file: Path) -> Offset | None:
    """The offset of our source in a file in which Spark keeps those of a batch; None if it is not the first there.

    The file has a line for the version, one for settings, then one for each source.
    """
    lines = file.read_text().splitlines()
    try:
        found = json.loads(lines[2]) if len(lines) > 2 and lines[0] == "v1" else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


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

    @_wire_errors
    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: ARG002, N802
        """Where the next batch ends."""
        self.feeds.check(start)
        return self.feeds.end(start, self.feeds.discover() if self.until is None else self.until)

    @_wire_errors
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of this run: what arrives later is left for the next one."""
        self.until = self.feeds.discover()

    def stop(self) -> None:
        """Exit quietly when Spark closes the connection; otherwise a broken pipe is printed on the terminal."""
        if isinstance(sys.exc_info()[1], EOFError):
            os._exit(0)

    @_wire_errors
    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """The files between two offsets, divided among tasks."""
        return [InputPartition(share) for share in self.feeds.deal(start, end, self.tasks)]

    def read(self, partition: InputPartition) -> Iterator[tuple[str, str, bytes]]:
        """The files of one task, grouped by stream."""
        for piece in sorted(partition.value, key=lambda piece: piece.stream):
            yield piece.stream, "piece", cloudpickle.dumps(piece)
