"""A registered query, as the user sees it: what it means, and where its results go."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from weft.errors import QueryError, SinkError, WeftError
from weft.host.results.changes import Shape
from weft.host.results.sink import Sink
from weft.host.results.sinks import SINKS, VIEW_SINKS
from weft.query.calls import FunctionSignature
from weft.query.derived import closed as as_closed
from weft.query.draft import Draft
from weft.query.model import Query, Stream
from weft.query.rewrite import refuse_closed
from weft.query.views import Views
from weft.query.whole import as_view
from weft.session.shown import markup_query
from weft.sql import parse, parse_fragments, resolve
from weft.stats.model import Statistics


class QueryHandle:
    """A registered query and its sinks."""

    def __init__(self, name: str, query: Query, draft: Draft) -> None:
        self.name, self.query, self.draft = name, query, draft
        self.asked, self.start = query, "state"
        """The query as it was given; `query` also says from which batch on rows count."""
        self.text: str | None = None
        """The query as SQL; None if it was built."""
        self.views: Views = {}
        """What the text may read besides streams."""
        self.sinks: list[Sink] = []
        self.wishes: dict[str, Any] = {}
        self.statistics: Statistics | None = None
        self.backfill = self.must_be_complete = False
        self.on_sink: Callable[[QueryHandle, Sink], None] = lambda handle, sink: handle.sinks.append(sink)
        """Adds a sink."""
        self.find_start: Callable[[QueryHandle], datetime.datetime | None] = lambda _handle: None
        self.error: WeftError | None = None
        """Why a running session refused the query; None if it did not."""

    @property
    def complete_from(self) -> datetime.datetime | None:
        """The event time from which on results are complete; None if nothing is missing.

        A query that is added after its streams have been read may lack rows that no other query has kept.
        """
        return self.find_start(self)

    def to_parquet(
        self,
        path: str | os.PathLike[str],
        *,
        mode: str | None = None,
        merge: bool = True,
        partition_by: str | Sequence[str] | None = None,
    ) -> QueryHandle:
        """Write results to a folder that holds every result exactly once.

        The results of an aggregate query change, so there are three modes: "changes" (the default) has every group that
        a batch changed, with the number of the batch; "final" has the groups of each window once, when it is closed;
        "snapshot" has the groups as they are after the last batch.

        Small files of many batches are merged, in one step that readers cannot see half done.  `merge=False` keeps all
        files as they are: for readers that remember which files they have read.

        `partition_by` names columns whose values become folders: `day=2026-01-01/`.  Such files are not merged.
        """
        if partition_by is not None and mode is not None:
            raise SinkError(
                f'query "{self.name}" has partition_by and a mode',
                detail="folders by value are for results that never change, and these have no modes.",
                hint="leave one of them out.",
            )
        if partition_by is not None:
            return self.to("partitioned", path, partition_by)
        return self.to("parquet", path, merge, *([] if mode is None else [mode]))

    def to_memory(self) -> QueryHandle:
        """Keep results of this session in memory, for `table()`."""
        return self.to("memory")

    def to_kafka(
        self,
        servers: str,
        topic: str,
        *,
        key: str | Sequence[str] | None = None,
        value: str = "json",
        registry: str | None = None,
        patience: str | float = "1 minute",
        options: Mapping[str, Any] | None = None,
    ) -> QueryHandle:
        """Send results to a topic, each exactly once for readers that read committed records.

        Every batch is one transaction.  `key` names the column, or the columns, that records are keyed by.  `value` is
        "json" or "avro", with the number of the schema in front if a `registry` is given.  The records of an aggregate
        query are keyed by its groups: the last record of a key counts, and one without value says that the group has
        left.  `options` go to librdkafka as they are; they are never shown or written.
        """
        more = {"registry": registry, "patience": patience, "options": options}
        return self.to("kafka", servers, topic, key, value, more)

    def to_table(
        self,
        table: str,
        *,
        format: str = "parquet",  # noqa: A002
        options: Mapping[str, Any] | None = None,
    ) -> QueryHandle:
        """Append results to a table of Spark's catalog, each batch once, also if it is run again.

        A Delta table knows which batches it has: it gets the name of the query and the number of the batch with every
        write.  Tables of other formats get a column `weft_batch`, and are partitioned by it: a batch that is run again
        replaces its partition.  `options` go to Spark's DataFrameWriter.
        """
        return self.to("table", table, format, dict(options or {}))

    def foreach_batch(self, function: Callable[[Any, int], object]) -> QueryHandle:
        """Call `function(df, batch_id)` with the results of every batch, before the batch is committed.

        After a crash the last batch may be handed over again, with the same number and rows.
        """
        return self.to("foreach", function)

    def to(self, kind: str, *arguments: object) -> QueryHandle:
        """Send results to a sink of any kind, with the arguments of that sink."""
        if kind not in SINKS:
            raise SinkError(f"sink {kind!r} is unknown", detail=f"known: {', '.join(SINKS)}.", hint="use one of these.")
        if self.query.is_view and kind not in VIEW_SINKS:
            raise SinkError(
                f"a {kind} sink takes rows that never change",
                detail=f'rows of query "{self.name}" change.',
                hint=f"use one of: {', '.join(VIEW_SINKS)}.",
            )
        if not self.query.is_view and kind == "parquet" and len(arguments) > 2:
            raise SinkError(
                f'query "{self.name}" has no modes',
                detail="its results never change: every result is written once.",
                hint="leave mode out.",
            )
        if self.query.is_view:
            sink = VIEW_SINKS[kind](self.name, Shape.of(self.query), *arguments)
        else:
            sink = SINKS[kind](self.name, self.query.schema, *arguments)
        if sink.takes == ("rows" if self.query.is_view else "changes"):
            made = "changes" if self.query.is_view else "rows: every result once"
            raise SinkError(
                f"a {kind} sink takes {sink.takes}",
                detail=f'query "{self.name}" produces {made}.',
                hint="choose a sink that takes what the query produces.",
            )
        self.on_sink(self, sink)
        return self

    def table(self) -> pa.Table:
        """Everything the memory sink has received."""
        for sink in self.sinks:
            if (found := sink.table()) is not None:
                return found
        raise SinkError(f'query "{self.name}" has no memory sink', hint="call q.to_memory() before the run.")

    def __repr__(self) -> str:
        joined = ", ".join(f"{'(SELECT)' if r.stream.made else r.stream.name} {r.alias}" for r in self.query.relations)
        into = ", ".join(str(sink) for sink in self.sinks) or "no sink yet"
        return f"<query {self.name}: {joined}; {into}>"

    def _repr_html_(self) -> str:
        return markup_query(self)


def read_query(
    name: str,
    query: str | Draft,
    streams: Mapping[str, Stream],
    functions: Mapping[str, FunctionSignature],
    views: Views,
    cross_product: bool,
    closed: bool,
) -> QueryHandle:
    """The handle of a query that was written as SQL text or with the builder."""
    draft = read_draft("query", query)
    if closed:
        refuse_closed(draft)
    made = as_view(resolve(draft, streams, functions, cross_product, views))
    handle = QueryHandle(name, as_closed(made) if closed else made, draft)
    handle.views = views
    handle.text = query if isinstance(query, str) else None
    return handle


def read_draft(what: str, given: str | Draft) -> Draft:
    """What SQL text or the builder says."""
    if not isinstance(given, str | Draft):
        raise QueryError(
            f"a {what} cannot be a {type(given).__name__}",
            hint="use SQL text, or weft.from_(...).where(...).select(...).",
        )
    return parse(given, is_view=what == "view") if isinstance(given, str) else parse_fragments(given)
