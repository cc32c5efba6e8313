"""What a session knows before any query: streams, tables, views, functions, and the Spark session that brings rows."""

from __future__ import annotations

import datetime
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa

from weft.host.sources.folders import BadFiles
from weft.host.sources.refreshed import CHANGE
from weft.host.sources.source import Source
from weft.query.changes import Format
from weft.query.draft import Draft
from weft.query.duration import parse_duration
from weft.query.model import Stream, Unit
from weft.read import as_source
from weft.session.arguments import check_spark, read_bad_files, read_idle, read_timing, refuse_static
from weft.session.catalog import Catalog, refuse_frame
from weft.session.changing import read_changes, read_names, read_refreshed, refuse_dated_envelopes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Declarations:
    """Streams, tables, views and functions, by name."""

    def __init__(self, spark: SparkSession | None) -> None:
        check_spark(spark)
        self._spark = spark
        self._catalog = Catalog()
        self.lock = threading.RLock()
        """Held while the session changes, and while a run takes it as it is."""

    def stream(
        self,
        name: str,
        source: object,
        *,
        event_time: str | None = None,
        unit: Unit = "s",
        lateness: str | datetime.timedelta | float | None = None,
        unique: Sequence[str] = (),
        bad_files: BadFiles = "fail",
        changes: str | None = None,
        key: str | Sequence[str] = (),
        format: Format = "rows",  # noqa: A002 - the word that sources use
        idle: str | datetime.timedelta | float | None = None,
        static: bool = False,
    ) -> Stream:
        """Declare an input.  `source` is a Spark streaming DataFrame or one of `weft.read`.

        `event_time` names the column that says when a row happened: a timestamp, or a whole number of seconds ("ms" and
        "us" with `unit`).  `lateness` says how much older than the newest row a row may be when it comes.  `unique`
        names columns in which no two rows have the same values.
        Of a DataFrame with `withWatermark`, its column and delay are the event time and the lateness, unless others
        are given here.  Without a lateness, rows that are older than the newest one of their stream may be dropped.
        `bad_files` says what happens if a file cannot be read: "fail" ends the run and says which, "skip" leaves the
        file out, says so in the report, and goes on.
        `changes` names a column that says what happens to its row: insert or delete, +I, -U, +U or -D, +1 or -1.
        `key` names columns: a new row with the same key replaces the old one; a row that is deleted, or in which all
        other columns are NULL, takes it away.  `format="debezium"` reads envelopes with the rows before and after.
        Queries over a stream that changes are views: what is deleted takes back its results; see docs/changes.md.
        `idle` says after how long without a row the watermark of others goes on without this stream; rows that come
        too late when it wakes are dropped and counted.  `static` declares a table, see :meth:`table`.
        """
        if static:
            refuse_static(name, event_time, lateness, idle)
            return self.table(name, source, key=key, changes=changes, format=format, bad_files=bad_files)
        self._catalog.check_free("stream", name)
        read = read_bad_files(name, as_source(name, source), bad_files)
        event_time, late = read_timing(read, event_time, lateness)
        named = read_names(unique)
        schema, how = read_changes(name, read.schema, changes, format, read_names(key), event_time)
        stream = Stream(name, schema, event_time, unit, late, named, changes=how, idle=read_idle(idle))
        with self.lock:
            self._catalog.add_stream(stream, read)
        self._use_spark_of(read)
        return stream

    def table(
        self,
        name: str,
        source: object,
        *,
        key: str | Sequence[str] = (),
        changes: str | None = None,
        format: Format = "rows",  # noqa: A002 - the word that sources use
        event_time: str | None = None,
        unit: Unit = "s",
        lateness: str | datetime.timedelta | float | None = None,
        idle: str | datetime.timedelta | float | None = None,
        refresh: bool = False,
        bad_files: BadFiles = "fail",
    ) -> Stream:
        """Declare a table: rows of streams are looked up in it, and need not be stored for it.

        Without more it is read once, whole, by the first batch.  With `key` it may change: what comes later replaces
        the row with the same key, or takes it away, as in :meth:`stream`; so do `changes` and `format`.  With `refresh`
        its files are read again when they change, and the table is what they say.
        A row of a stream meets the table as it is in the batch in which the row comes; what changes later changes no
        result.  A table takes no part in the watermark.
        With a key and an `event_time` it has versions, and a query may ask for the one at a time: FOR SYSTEM_TIME AS
        OF.  Only there its `lateness` and `idle` count.  Envelopes have no versions.  See docs/tables.md.
        `bad_files` is as for streams.  With `refresh`, "skip" keeps the table as it was while a file that could be read
        before cannot be read any more.
        """
        self._catalog.check_free("table", name)
        read = read_bad_files(name, as_source(name, source), bad_files)
        named = read_names(key)
        if read.frame is not None and not named and changes is None and format == "rows":
            raise refuse_frame(name)
        if event_time is not None and format == "debezium":
            raise refuse_dated_envelopes(name)
        if refresh:
            read, changes = read_refreshed(name, read, named, changes or event_time or (format != "rows")), CHANGE
        schema, how = read_changes(name, read.schema, changes, format, () if refresh else named, None)
        late = 0 if lateness is None else parse_duration(lateness)
        stream = Stream(name, schema, event_time, unit, late, table=True, changes=how, idle=read_idle(idle))
        with self.lock:
            shown = self._catalog.add_stream(stream, read)
        self._use_spark_of(read)
        return shown

    def view(self, name: str, query: str | Draft) -> None:
        """Give a SELECT a name.  Queries and later views may read FROM it; it is put in place where it is named."""
        self._catalog.check_free("view", name)
        with self.lock:
            self._catalog.add_view(name, query)

    def function(self, name: str, function: Callable[..., pa.Array], returns: pa.DataType | None = None) -> None:
        """Register a vectorised Python function for use in queries: Arrow arrays in, one array of `returns` out."""
        with self.lock:
            self._catalog.add_function(name, function, returns)

    @property
    def streams(self) -> Mapping[str, Stream]:
        """The streams by name."""
        return MappingProxyType(self._catalog.streams)

    @property
    def sources(self) -> Mapping[str, Source]:
        """Stream -> where its rows come from."""
        return MappingProxyType(self._catalog.sources)

    @property
    def functions(self) -> Mapping[str, Callable[..., pa.Array]]:
        """The registered functions by name, in lower case."""
        return self._catalog.functions

    def _cores(self) -> int:
        """How many workers there are if nobody says it."""
        return int(self._spark.sparkContext.defaultParallelism) if self._spark is not None else os.cpu_count() or 1

    def _use_spark_of(self, source: Source) -> None:
        """Run where a streaming DataFrame comes from, unless a Spark session was given."""
        if self._spark is None and source.frame is not None:
            self._spark = source.frame.sparkSession
