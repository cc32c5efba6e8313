"""Sources for `Session.stream`: files of a folder, topics of Kafka, or tables given by hand.

s.stream("orders", weft.read.parquet("landing/orders", max_files=4), event_time="o_ts")

This is the list of all kinds of sources.  A new one is a module that makes it, and a line here.  Objects of other
packages are turned into sources by a module that is loaded when it is first needed: `import weft` must not import
Spark.
"""

from __future__ import annotations

import importlib
import os

from weft.errors import QueryError
from weft.host.sources.folders import csv, json, parquet
from weft.host.sources.kafka.source import kafka
from weft.host.sources.source import Source, is_source
from weft.host.sources.tables import batches

__all__ = ["batches", "csv", "json", "kafka", "parquet"]

_ADOPTED = {"pyspark": "weft.host.spark.sources"}
"""Package of an object -> module whose `adopt` makes a source of it."""


def as_source(name: str, given: object) -> Source:
    """The source of a stream, from the object that the user gave."""
    package = type(given).__module__.partition(".")[0]
    if package in _ADOPTED:
        adopted: Source = importlib.import_module(_ADOPTED[package]).adopt(name, given)
        return adopted
    if is_source(given):
        return given
    raise QueryError(f'source of stream "{name}" is a {type(given).__name__}', hint=_hint(given))


def _hint(given: object) -> str:
    """What to write for an object that is no source."""
    package = type(given).__module__.partition(".")[0]
    if isinstance(given, list | tuple) and given:
        if isinstance(given[0], str | os.PathLike):
            return 'name a folder or a pattern: weft.read.parquet("in/*.parquet").'
        return "wrap them: weft.read.batches([table, ...])." if _is_arrow(given[0]) else f"of each: {_hint(given[0])}"
    if isinstance(given, str | os.PathLike):
        return f'say how to read it: weft.read.parquet("{os.fspath(given)}"), .csv or .json.'
    if _is_arrow(given):
        return "wrap it: weft.read.batches([table]); each table of the list is one batch."
    if package in ("pandas", "polars"):
        made = "pyarrow.Table.from_pandas(df)" if package == "pandas" else "df.to_arrow()"
        return f"make Arrow of it: weft.read.batches([{made}])."
    return "use a Spark streaming DataFrame, or weft.read.parquet, .csv, .json, .kafka or .batches."


def _is_arrow(given: object) -> bool:
    return type(given).__module__.partition(".")[0] == "pyarrow"
