"""What the sources of a SELECT are: their columns, their times, and whether they are tables."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types as pt

from weft.expr.model import Call, Expr
from weft.query.draft import Draft, Item, Source, Within
from weft.query.grouping import EVER
from weft.query.inline import Inliner, Resolver
from weft.query.model import Stream
from weft.query.names import find
from weft.query.opened import EventTime
from weft.query.timebounds import retention, step_of
from weft.query.views import Views


@dataclass(frozen=True)
class Sources:
    """What the sources of a SELECT are: see `weft.query.qualify.Known`."""

    resolver: Resolver
    draft: Draft
    views: Views
    default: Within

    def columns(self, source: Source) -> dict[str, pa.DataType]:
        """Name -> type."""
        found = Inliner(self.draft, self.resolver).visible(self.draft, source, self.views, self.default)
        return {name: expr.type for name, expr in found.columns.items()}

    def event_time(self, source: Source) -> EventTime | None:
        """Of a stream; columns of others may have other names."""
        stream = None if source.columns else self._stream(source)
        if stream is None or stream.event_time is None:
            return None
        whole = pt.is_integer(stream.schema.field(stream.event_time).type)
        return EventTime(stream.event_time, step_of(stream) if whole else None)

    def versions_by(self, source: Source) -> pa.DataType | None:
        """The type of the event time of a table that has versions."""
        stream = self._stream(source)
        log = stream.made[0].relations[0].stream if stream is not None and stream.table and stream.made else None
        return None if log is None or log.event_time is None else log.schema.field(log.event_time).type

    def is_now(self, sources: tuple[Source, ...], expr: Expr) -> bool:
        """Whether it is now(), or a column that a view or a derived table makes of it."""
        draft = Draft(sources, (), (Item(expr, "t", self.draft.text),), text=self.draft.text)
        found = Inliner(draft, self.resolver).flatten(draft, self.views, default=self.default).entries[0].expr
        while isinstance(found, Call) and found.op == "cast":
            found = found.args[0]
        return isinstance(found, Call) and found.op == "now"

    def is_table(self, source: Source) -> bool:
        """Whether it is a table, or made of tables alone."""
        return all(stream.table for stream in self._streams(source))

    def is_final(self, source: Source) -> bool:
        """Whether rows meet the same of it whenever they look it up: nothing in it is a table that changes."""
        if source.history is not None:
            return source.history >= EVER
        return all(stream.is_final for stream in self._streams(source) if stream.is_looked_up)

    def _streams(self, source: Source) -> list[Stream]:
        """All streams and tables that a source reads itself; a derived stream is one."""
        if (stream := self._stream(source)) is not None:
            return [stream]
        return Inliner(self.draft, self.resolver).streams_of(self.draft, source, self.views, self.default)

    def _stream(self, source: Source) -> Stream | None:
        named = source.derived is None and find(source.stream, self.views) is None
        name = find(source.stream, self.resolver.streams) if named else None
        return None if name is None else self.resolver.streams[name]

    def reach(self, draft: Draft, alias: str) -> int | None:
        """As long as a row is kept for new partners."""
        query = self.resolver.query(draft, self.views, self.default, united=True)
        return retention(query)[alias]
