"""Subscriptions: one join for all, and conditions with parameters that every subscription fills in its own way.

    SELECT t.id FROM trades t JOIN weather w ON t.area = w.area WHERE t.price < :limit AND w.event = :event

The join below is a query like any other; its outputs `#x0`, `#x1`, ... are the columns that conditions with parameters
and the SELECT list read.  A row of parameters is a *subscription*; a result is a joined row and a subscription for
which all conditions with parameters hold.  Expressions here are over both: `#x0` and the columns of parameters.

What must hold:

- A condition with a parameter that is NULL holds: the subscription does not ask for it.
- A subscription counts from the batch in which it comes.  It meets joined rows that are made from then on; unless it
  starts with the state, all their members have to come from then on, too (`#n` is the batch in which a row came).
- A row of parameters that is marked as removed ends all subscriptions of its key that came before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from typing import Literal as OneOf

import pyarrow as pa

from weft.expr.model import Call, Column, Expr, columns, text_of

if TYPE_CHECKING:
    from weft.query.model import Output, Stream

PARAMETERS = ":"
"""The alias of parameters."""
REMOVED = "#removed"
"""Name of the hidden column that says whether a row of parameters ends a subscription."""

Order = OneOf["narrow", "join", "naive"]
"""What comes first: asking subscriptions, or the join; "naive" shares no work between join results."""
Strategy = OneOf["auto", "narrow", "join", "naive"]
"""An order, or "auto": the cheapest."""


def joined_field(place: int) -> str:
    """The name of a column of joined rows."""
    return f"#x{place}"


def is_joined(column: Column) -> bool:
    """Whether a column is one of joined rows, and not a parameter."""
    return column.name.startswith("#x")


@dataclass(frozen=True, slots=True)
class Subscribers:
    """What subscriptions make of joined rows."""

    stream: Stream
    """Rows of parameters."""
    key: tuple[str, ...]
    """Columns that name a subscription."""
    asked: tuple[Expr, ...]
    """Conditions with parameters; each also holds if one of its parameters is NULL."""
    since: tuple[Expr, ...]
    """Conditions on the batches in which rows came."""
    outputs: tuple[Output, ...]
    strategy: Strategy = "auto"

    @property
    def schema(self) -> pa.Schema:
        """Schema of the results."""
        return pa.schema([(output.name, output.expr.type) for output in self.outputs])

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of parameters that are needed."""
        exprs = (*self.asked, *self.since, *(output.expr for output in self.outputs))
        read = {column.name for expr in exprs for column in columns(expr) if not is_joined(column)}
        return tuple(sorted(read | {*self.key, REMOVED}))


def unless_null(predicate: Expr) -> Expr:
    """The condition, which also holds if one of its parameters is NULL."""
    given = sorted((column for column in columns(predicate) if not is_joined(column)), key=text_of)
    made = predicate
    for column in given:
        made = Call("or", (Call("is_null", (column,), pa.bool_()), made), pa.bool_())
    return made
