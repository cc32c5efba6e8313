"""From a query with parameters to a join and its subscriptions (`weft.query.parameters`).

The query comes with parameters as a relation of its own, so that names and types are found as in any other.  Here that
relation and all conditions that read it are taken out again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from weft.errors import QueryError
from weft.expr.model import Call, Column, Expr, Literal, aliases, columns, text_of, transform
from weft.expr.typing import add_types
from weft.query.draft import Draft, Source
from weft.query.model import BATCH, TIME, Output, Query, Relation, Stream
from weft.query.parameters import PARAMETERS, Strategy, Subscribers, joined_field
from weft.query.rewrite import is_plain


def with_parameters(draft: Draft, stream: Stream) -> Draft:
    """The draft with rows of parameters as one more source."""
    if draft.unions or not is_plain(draft):
        raise _refuse_more("the query is more than one join.")
    return replace(draft, sources=(*draft.sources, Source(stream.name, PARAMETERS, "unbounded")))


def subscribe(
    query: Query, key: Sequence[str], strategy: Strategy = "auto", *, meets_old: bool = False, window: str | None = None
) -> Query:
    """The join, with what subscriptions make of its rows.

    `meets_old` lets new rows join with those that came before the subscription.  `window` names the parameter that is
    a window in seconds, narrower than those of the query.
    """
    _refuse(query)
    stream = query.relation(PARAMETERS).stream
    joined = tuple(relation for relation in query.relations if relation.alias != PARAMETERS)
    windows = [] if window is None else list(_windows(joined, _parameter(stream, window)))
    asked = [*(p for p in query.predicates if PARAMETERS in aliases(p)), *windows]
    since = [] if meets_old else list(_since(joined))
    shown = (*(Output(name, _parameter(stream, name)) for name in key), *query.outputs)
    names = _name_columns((*asked, *since, *(output.expr for output in shown)))
    return replace(
        query,
        relations=joined,
        predicates=tuple(p for p in query.predicates if PARAMETERS not in aliases(p)),
        outputs=tuple(Output(name, column) for column, name in names.items()),
        subscribers=Subscribers(
            stream,
            tuple(key),
            tuple(_bare(p, names) for p in asked),
            tuple(_bare(p, names) for p in since),
            tuple(Output(output.name, _bare(output.expr, names)) for output in shown),
            strategy,
        ),
    )


def _refuse(query: Query) -> None:
    """Refuse what is no plain join of rows that stay."""
    if query.grouping is not None:
        raise QueryError(
            "subscriptions cannot be grouped",
            detail="GROUP BY, DISTINCT and aggregates are not supported together with parameters.",
            hint="select the joined rows, and add them up where the results are read.",
        )
    made = [r.alias for r in query.relations if r.stream.depth or r.stream.changes is not None]
    if made:
        raise _refuse_more(f"rows of {', '.join(made)} may change.")


def _refuse_more(why: str) -> QueryError:
    return QueryError(
        "subscriptions need one join of rows that stay",
        detail=f"outer joins, UNION, EXISTS, aggregates and streams with changes are not supported: {why}",
        hint="join streams and tables by JOIN ... ON alone.",
    )


def _parameter(stream: Stream, name: str) -> Column:
    return Column(PARAMETERS, name, stream.schema.field(name).type)


def _since(relations: Iterable[Relation]) -> Iterator[Expr]:
    """All members of a joined row have come since the subscription has; a table is there before all."""
    for relation in relations:
        if not relation.stream.table:
            came, began = (Column(alias, BATCH, pa.int64()) for alias in (relation.alias, PARAMETERS))
            yield Call(">=", (came, began), pa.bool_())


def _windows(relations: Sequence[Relation], window: Column) -> Iterator[Expr]:
    """No member is older than another by the window of the subscription or more (K-31)."""
    if window.type is None or not pa.types.is_integer(window.type):
        raise QueryError(
            f'the window "{window.name}" of subscriptions has type {window.type}',
            detail="a window of a subscription is a whole number of seconds.",
            hint="give it as an integer column; NULL means the windows of the query.",
        )
    timed = [relation.alias for relation in relations if relation.stream.event_time is not None]
    for newer in timed:
        for older in (alias for alias in timed if alias != newer):
            age = Call("-", (Column(newer, TIME, pa.int64()), Column(older, TIME, pa.int64())))
            yield add_types(Call("<", (age, Call("*", (window, Literal(1_000_000))))))


def _name_columns(exprs: Iterable[Expr]) -> dict[Column, str]:
    """Column of a joined row -> its name as an output of the join."""
    read = {text_of(c): c for expr in exprs for c in columns(expr) if c.alias != PARAMETERS}
    return {read[text]: joined_field(place) for place, text in enumerate(sorted(read))}


def _bare(expr: Expr, names: dict[Column, str]) -> Expr:
    """The expression over outputs of the join and columns of parameters."""

    def one(node: Expr) -> Expr:
        if not isinstance(node, Column):
            return node
        return Column("", node.name if node.alias == PARAMETERS else names[node], node.type)

    return transform(expr, one)
