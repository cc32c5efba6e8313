"""Streams as streaming DataFrames of envelopes, whatever their source."""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from weft.errors import SourceError
from weft.host.ingest import Ingest
from weft.host.source import FileSource, TableSource
from weft.host.spark.exchange import PackTask
from weft.host.spark.reader import FORMAT, SCHEMA, FileReader


def envelopes(spark: SparkSession, source: object, ingest: Ingest, folder: str, watermarks: str) -> DataFrame:
    """The stream as a streaming DataFrame of envelopes."""
    content = cloudpickle.dumps(ingest)
    base = os.path.join(folder, ingest.stream.name)
    os.makedirs(folder, exist_ok=True)
    if isinstance(source, TableSource):
        source = source.as_files(f"{base}.batches")
    if isinstance(source, FileSource):
        with open(f"{base}.plan", "wb") as file:
            file.write(cloudpickle.dumps(FileReader(source, content, ingest.workers, f"{base}.files", watermarks)))
        return spark.readStream.format(FORMAT).option("plan", f"{base}.plan").load()
    if isinstance(source, DataFrame):
        names = [f"`{name.replace('`', '``')}`" for name in ingest.columns]
        return source.select(*names).mapInArrow(PackTask(content, watermarks), SCHEMA)
    raise SourceError(f'stream "{ingest.stream.name}" has no usable source', detail=f"it is a {type(source).__name__}.")


def frame_schema(frame: Any, name: str) -> tuple[pa.Schema, SparkSession]:
    """The Arrow schema of a streaming DataFrame, and its session."""
    if not isinstance(frame, DataFrame) or not frame.isStreaming:
        raise SourceError(
            f'source of stream "{name}" is not a streaming DataFrame', hint="use spark.readStream, or weft.read."
        )
    zone = frame.sparkSession.conf.get("spark.sql.session.timeZone")
    return to_arrow_schema(frame.schema, timezone=zone), frame.sparkSession
