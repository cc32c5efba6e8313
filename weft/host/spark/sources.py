"""The sources of a session on Spark: those read at our own pace, and streaming DataFrames."""

from __future__ import annotations

import functools
import os
import tempfile
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from weft.errors import SourceError
from weft.expr.types import normalize_schema
from weft.host.sources.feeds import Feed, Feeds
from weft.host.sources.source import Source
from weft.host.spark.reader import FORMAT, RAW, FileReader, WeftSource
from weft.host.spark.reading import RowsTask
from weft.host.state.checkpoint import FRAME
from weft.query.model import Stream

WATERMARK = "spark.watermarkDelayMs"
"""Under this name Spark keeps the lateness of a column, in milliseconds."""


@dataclass(frozen=True)
class FrameSource(Source):
    """A streaming DataFrame.  Spark brings its rows; they cannot be sampled."""

    given: DataFrame

    @property
    def frame(self) -> DataFrame:
        """The DataFrame itself."""
        return self.given

    @property
    def schema(self) -> pa.Schema:
        """The columns as Arrow sees them."""
        zone = self.given.sparkSession.conf.get("spark.sql.session.timeZone")
        return normalize_schema(to_arrow_schema(self.given.schema, timezone=zone))

    @property
    def timing(self) -> tuple[str, int] | None:
        """What `withWatermark` says, if it was called; Spark keeps it with the column."""
        found = [(field.name, field.metadata.get(WATERMARK)) for field in self.given.schema.fields]
        return next(((name, int(delay) * 1000) for name, delay in found if delay is not None), None)

    def describe(self) -> str:
        """The same for all: where Spark reads is not known."""
        return FRAME


def adopt(name: str, given: object) -> FrameSource:
    """Make an object of Spark the source of a stream."""
    if not isinstance(given, DataFrame) or not given.isStreaming:
        raise SourceError(
            f'source of "{name}" is not a streaming DataFrame',
            detail="a DataFrame that Spark reads once is not read again when new rows arrive.",
            hint="use spark.readStream for a stream; write a table to files and use weft.read.parquet.",
        )
    return FrameSource(given)


def open_feeds(sources: Mapping[str, Source], streams: Iterable[Stream], folder: str) -> Feeds:
    """The streams that are read at our own pace."""
    os.makedirs(folder, exist_ok=True)
    own = [stream for stream in streams if sources[stream.name].frame is None]
    return Feeds([Feed(s.name, sources[s.name].open(s.name, folder), s.is_fixed) for s in own])


def quote_columns(columns: Iterable[str]) -> list[str]:
    """Names of columns in backticks, as Spark reads them."""
    return [f"`{column.replace('`', '``')}`" for column in columns]


def unite(spark: SparkSession, feeds: Feeds | None, frames: Mapping[str, DataFrame], workers: int) -> DataFrame:
    """All streams as one streaming DataFrame.  Its rows are opaque; each batch says what to do with them."""
    found = [frame.mapInArrow(RowsTask(name), RAW) for name, frame in frames.items()]
    if feeds is not None:
        found.insert(0, _read(spark, FileReader(feeds, workers)))
    return functools.reduce(DataFrame.union, found)


@functools.cache
def _private() -> tempfile.TemporaryDirectory[str]:
    """A folder that nobody else can read, and that goes with this process: options of sources may hold secrets."""
    return tempfile.TemporaryDirectory(prefix="weft-plans-")


def _read(spark: SparkSession, reader: FileReader) -> DataFrame:
    plan = os.path.join(_private().name, uuid.uuid4().hex)
    with open(plan, "wb") as file:
        file.write(cloudpickle.dumps(reader))
    spark.dataSource.register(WeftSource)
    return spark.readStream.format(FORMAT).option("plan", plan).load()
