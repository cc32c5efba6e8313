"""Sources for `Session.stream`: files of a folder, or tables given by hand.

s.stream("orders", weft.read.parquet("landing/orders", max_files=4), event_time="o_ts")

Paths become absolute here: a checkpoint knows files by their names, and one file must not have two.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import pyarrow as pa

from weft.host.sources.files import FileSource, TableSource


def parquet(
    path: str | os.PathLike[str], max_files: int | None = None, *, schema: pa.Schema | None = None
) -> FileSource:
    """Parquet files of a folder, in name order, at most `max_files` a batch; new ones are found as they arrive."""
    return FileSource("parquet", os.path.abspath(path), max_files, schema)


def csv(path: str | os.PathLike[str], max_files: int | None = None, *, schema: pa.Schema | None = None) -> FileSource:
    """CSV files with a header line; types are taken from `schema`, or from the first file."""
    return FileSource("csv", os.path.abspath(path), max_files, schema)


def json(path: str | os.PathLike[str], max_files: int | None = None, *, schema: pa.Schema | None = None) -> FileSource:
    """Files with one JSON object a line; a field that is missing in a line is NULL."""
    return FileSource("json", os.path.abspath(path), max_files, schema)


def batches(tables: Sequence[pa.Table]) -> TableSource:
    """Arrow tables, one per micro-batch."""
    return TableSource(tuple(tables))
