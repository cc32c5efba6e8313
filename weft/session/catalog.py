"""What the queries of a session can read and call: streams, tables, views and functions, by name.

Entries are only ever added, so a query that was read once keeps its meaning.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from weft.errors import QueryError, not_too_deep, placed, whole
from weft.expr.types import normalize
from weft.host.sources.source import Source
from weft.query.calls import FunctionSignature, is_built_in
from weft.query.draft import Draft, Named
from weft.query.model import Stream
from weft.query.onerow import with_rows
from weft.query.upserts import present
from weft.query.views import Views, add_views
from weft.session.arguments import check_name
from weft.session.query import QueryHandle, read_draft, read_query
from weft.sql import resolve


class Catalog:
    """The names that queries may use."""

    def __init__(self) -> None:
        self.streams: dict[str, Stream] = {}
        """What is read from sources."""
        self.visible: dict[str, Stream] = {}
        """What queries read: of a stream of upserts, the present rows."""
        self.sources: dict[str, Source] = {}
        self.views: Views = {}
        self._functions: dict[str, tuple[FunctionSignature, Callable[..., pa.Array]]] = {}

    def check_free(self, kind: str, name: str) -> None:
        """Refuse a name that FROM could not tell from another."""
        check_name(kind, name, {**self.streams, **self.views})

    def add_stream(self, stream: Stream, source: Source) -> Stream:
        """Add a stream or a table; return what queries read of it."""
        self.streams[stream.name], self.sources[stream.name] = stream, source
        self.visible[stream.name] = present(stream) if stream.changes and stream.changes.is_log else stream
        return self.visible[stream.name]

    def add_view(self, name: str, query: str | Draft) -> None:
        """Add a SELECT that later ones may read; what is wrong in it is said here."""
        with placed(whole(query)):
            self._add_view(name, query)

    @not_too_deep
    def _add_view(self, name: str, query: str | Draft) -> None:
        draft = read_draft("view", query)
        resolve(draft, self.visible, self.signatures, True, self.views)
        self.views = add_views(self.views, [Named(name, with_rows(draft, self.visible, self.views) or draft)])

    def add_function(self, name: str, function: Callable[..., pa.Array], returns: pa.DataType | None) -> None:
        """Add a function; SQL ignores case in names of functions."""
        check_name("function", name, ())
        check_name("function", name.lower(), self._functions)
        if is_built_in(name):
            raise QueryError(
                f'"{name}" is a function of SQL',
                detail="a function of that name would change what queries mean that others have written.",
                hint=f'choose another name, such as "my_{name}".',
            )
        kind = normalize(returns if returns is not None else pa.bool_())
        self._functions[name.lower()] = (FunctionSignature(name.lower(), kind), function)

    @property
    def signatures(self) -> dict[str, FunctionSignature]:
        """Function -> what it returns."""
        return {name: signature for name, (signature, _) in self._functions.items()}

    @property
    def functions(self) -> Mapping[str, Callable[..., pa.Array]]:
        """The functions by name, in lower case."""
        return {name: function for name, (_, function) in self._functions.items()}

    def read_query(
        self, name: str, query: str | Draft, cross_product: bool, closed: bool, views: Views | None = None
    ) -> QueryHandle:
        """The handle of a query that was written as SQL text or with the builder; it may read `views`."""
        known = self.views if views is None else views
        with placed(whole(query)):
            return not_too_deep(read_query)(name, query, self.visible, self.signatures, known, cross_product, closed)


def refuse_frame(name: str) -> QueryError:
    """The error for a table that has no end."""
    return QueryError(
        f'table "{name}" is a streaming DataFrame',
        detail="a table is read once, and a streaming DataFrame has no end.",
        hint="give it a key, and it may change; or use weft.read.parquet, .csv, .json or .batches.",
    )
