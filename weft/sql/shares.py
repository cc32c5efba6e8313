"""Window functions that are worked out of numbers of rows and counts: where in its group a row stands.

PERCENT_RANK() OVER w    (RANK() OVER w - 1) / (rows of the group - 1); 0 where the row is alone
CUME_DIST() OVER w       rows up to this one and those at its place / rows of the group
NTILE(n) OVER w          the part that holds ROW_NUMBER() OVER w, of n parts of equal size; first ones have one more
"""

from __future__ import annotations

from collections.abc import Callable

from weft.errors import Span
from weft.expr.model import Call, Expr, Literal
from weft.query.grouping import RankKind
from weft.query.overcall import OverCall
from weft.query.overs import Frame
from weft.sql.window import Window

_ONE, _NONE = Literal(1), Literal(0.0)


def place(name: str, args: tuple[Expr, ...], window: Window, span: Span) -> Expr:
    """The expression that a call stands for."""
    return _MADE[name](window, span, *args)


def _percent_rank(window: Window, span: Span) -> Expr:
    others = Call("-", (_rows(window, span), _ONE))
    share = Call("/", (Call("-", (_numbered("rank", window, span), _ONE)), others))
    return Call("case", (Call("=", (others, Literal(0))), _NONE, share))


def _cume_dist(window: Window, span: Span) -> Expr:
    frame = Frame("range" if window.order else "all")
    return Call("/", (OverCall(None, window.by, window.order, "count", frame=frame).call(span), _rows(window, span)))


def _ntile(window: Window, span: Span, parts: Expr) -> Expr:
    """Parts with one more row come first, then those with `least` rows.

    Where that is 0 no row comes late, but a new number may meet an old count until both of a batch are there.
    """
    before = Call("-", (_numbered("row_number", window, span), _ONE))
    count = _rows(window, span)
    least, more = Call("div", (count, parts)), Call("%", (count, parts))
    longer = Call("+", (least, _ONE))
    ahead = Call("*", (more, longer))
    early = Call("div", (before, longer))
    late = Call("+", (more, Call("div", (Call("-", (before, ahead)), Call("nullif", (least, Literal(0)))))))
    found = Call("+", (Call("case", (Call("<", (before, ahead)), early, late)), _ONE))
    return Call("case", (Call(">", (parts, Literal(0))), found, Literal(None)))


def _numbered(kind: RankKind, window: Window, span: Span) -> Expr:
    return OverCall(kind, window.by, window.order).call(span)


def _rows(window: Window, span: Span) -> Expr:
    return OverCall(None, window.by, (), "count", frame=Frame("all")).call(span)


_MADE: dict[str, Callable[..., Expr]] = {"percent_rank": _percent_rank, "cume_dist": _cume_dist, "ntile": _ntile}
PLACES = {"percent_rank": 0, "cume_dist": 0, "ntile": 1}
"""How many arguments they take."""
