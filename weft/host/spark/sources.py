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
from weft.host.spark.reader import FORMAT, SCHEMA


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
        reader = reader.option("log", os.path.join(folder, f"{ingest.stream.name}.files")).option(
            "tasks", ingest.workers
        )
        return reader.load()
    if isinstance(source, DataFrame):
        names = [f"`{name.replace('`', '``')}`" for name in ingest.columns]
        return source.select(*names).mapInArrow(PackTask(content), SCHEMA)
    raise SourceError(f'stream "{ingest.stream.name}" has no usable source', detail=f"it is a {type(source).__name__}.")


def frame_schema(frame: Any, name: str) -> tuple[pa.Schema, SparkSession]:
    """The Arrow schema of a streaming DataFrame, and its session."""
    if not isinstance(frame, DataFrame) or not frame.isStreaming:
        raise SourceError(
            f'source of stream "{name}" is not a streaming DataFrame', hint="use spark.readStream, or weft.read."
        )
    zone = frame.sparkSession.conf.get("spark.sql.session.timeZone")
    return to_arrow_schema(frame.schema, timezone=zone), frame.sparkSession
