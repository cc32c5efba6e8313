"""OVER in an expression, before the rows are numbered: a call that no other part of Weft takes apart.

    over(kind, by(expression, ...), sorted(expression, descending, nulls first), ...)          the number of a row
    over("window", by(...), sorted(...), ..., of(...), where(...), function, frame)            what other rows have

It is a call, so that names in it are looked up like those in all others.  `OverCall` says what stands in it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from weft.errors import Span
from weft.expr.model import Call, Expr, Literal
from weft.query.grouping import RankKind
from weft.query.overs import Frame

OVER = "over"
_WINDOW = "window"


@dataclass(frozen=True, slots=True)
class OverCall:
    """What is asked of the rows of a group."""

    kind: RankKind | None
    """Which number a row gets; None if it is an aggregate, or something of a neighbour."""
    by: tuple[Expr, ...]
    order: tuple[SortKey, ...]
    function: str = ""
    args: tuple[Expr, ...] = ()
    where: Expr | None = None
    frame: Frame | None = None

    @classmethod
    def read(cls, call: Expr) -> OverCall:
        """What stands in a call."""
        assert isinstance(call, Call)
        kind, by, *rest = call.args
        order = tuple(SortKey.read(key) for key in rest if isinstance(key, Call) and key.op == "sorted")
        assert isinstance(kind, Literal)
        assert isinstance(by, Call)
        if kind.value != _WINDOW:
            return cls(kind.value, by.args, order)  # type: ignore[arg-type]
        of, where, function, frame = rest[len(order) :]
        assert isinstance(of, Call)
        assert isinstance(where, Call)
        assert isinstance(function, Literal)
        assert isinstance(frame, Literal)
        condition = next(iter(where.args), None)
        return cls(None, by.args, order, str(function.value), of.args, condition, Frame.read(str(frame.value)))

    def call(self, span: Span | None = None) -> Call:
        """The call that says it."""
        first: tuple[Expr, ...] = (
            Literal(self.kind or _WINDOW),
            Call("by", self.by),
            *(key.call() for key in self.order),
        )
        if self.kind is not None:
            return Call(OVER, first, None, span)
        asked = Call("of", self.args), Call("where", () if self.where is None else (self.where,))
        return Call(OVER, (*first, *asked, Literal(self.function), Literal(str(self.frame))), None, span)


@dataclass(frozen=True, slots=True)
class SortKey:
    """One expression of ORDER BY."""

    expr: Expr
    descending: bool = False
    nulls_first: bool = False

    @classmethod
    def read(cls, key: Expr) -> SortKey:
        """What stands in a call."""
        assert isinstance(key, Call)
        expr, descending, nulls_first = key.args
        assert isinstance(descending, Literal)
        assert isinstance(nulls_first, Literal)
        return cls(expr, bool(descending.value), bool(nulls_first.value))

    def call(self) -> Call:
        """The call that says it."""
        return Call("sorted", (self.expr, Literal(self.descending), Literal(self.nulls_first)), None, self.expr.span)

    def reversed(self) -> SortKey:
        """The same order from its end."""
        return replace(self, descending=not self.descending, nulls_first=not self.nulls_first)


def is_over(node: Expr) -> bool:
    """Whether this node asks for the number of a row, or for other rows."""
    return isinstance(node, Call) and node.op == OVER


def is_number(node: object) -> bool:
    """Whether it is the number of a row, not what is found among other rows."""
    return isinstance(node, Call) and is_over(node) and node.args[0] != Literal(_WINDOW)
