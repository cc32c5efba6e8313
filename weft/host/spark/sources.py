"""The streams of a session: folders of files, and streaming DataFrames, all turned into envelopes."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from weft.errors import SourceError
from weft.host.ingest import Ingest
from weft.host.sources.feeds import Feed, Feeds
from weft.host.sources.files import FileSource, TableSource
from weft.host.spark.exchange import PackTask
from weft.host.spark.reader import FORMAT, SCHEMA, FileReader, WeftSource


def only_files(sources: Mapping[str, object], readers: Mapping[str, Ingest]) -> bool:
    """Whether no stream is a DataFrame of Spark."""
    return all(isinstance(sources[name], FileSource | TableSource) for name in readers)


def feeds(sources: Mapping[str, object], readers: Mapping[str, Ingest], folder: str) -> Feeds:
    """The streams that are files."""
    os.makedirs(folder, exist_ok=True)
    found = []
    for name, ingest in readers.items():
        source = sources[name]
        if isinstance(source, TableSource):
            source = source.as_files(os.path.join(folder, f"{name}.batches"))
        if isinstance(source, FileSource):
            found.append(Feed(name, source, cloudpickle.dumps(ingest), os.path.join(folder, f"{name}.files")))
    return Feeds(found)


def envelopes(
    spark: SparkSession, sources: Mapping[str, object], readers: Mapping[str, Ingest], folder: str, watermarks: str
) -> DataFrame:
    """All streams as one streaming DataFrame of envelopes."""
    files, frames = feeds(sources, readers, folder), []
    if files.by_stream:
        workers = next(iter(readers.values())).workers
        frames.append(_files(spark, FileReader(files, workers, watermarks), os.path.join(folder, "files.plan")))
    for name, ingest in readers.items():
        source = sources[name]
        if isinstance(source, DataFrame):
            columns = [f"`{column.replace('`', '``')}`" for column in ingest.columns]
            frames.append(source.select(*columns).mapInArrow(PackTask(cloudpickle.dumps(ingest), watermarks), SCHEMA))
        elif name not in files.by_stream:
            raise SourceError(f'stream "{name}" has no usable source', detail=f"it is a {type(source).__name__}.")
    return functools.reduce(DataFrame.union, frames)


def _files(spark: SparkSession, reader: FileReader, plan: str) -> DataFrame:
    with open(plan, "wb") as file:
        file.write(cloudpickle.dumps(reader))
    spark.dataSource.register(WeftSource)
    return spark.readStream.format(FORMAT).option("plan", plan).load()


def frame_schema(frame: Any, name: str) -> tuple[pa.Schema, SparkSession]:
    """The Arrow schema of a streaming DataFrame, and its session."""
    if not isinstance(frame, DataFrame) or not frame.isStreaming:
        raise SourceError(
            f'source of stream "{name}" is not a streaming DataFrame', hint="use spark.readStream, or weft.read."
        )
    zone = frame.sparkSession.conf.get("spark.sql.session.timeZone")
    return to_arrow_schema(frame.schema, timezone=zone), frame.sparkSession
