"""What the rules of types ask of the arguments of a call, and what they make of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa
from pyarrow import types as pt

from weft.errors import QueryError
from weft.expr.coerce import cast_to
from weft.expr.model import Call, Expr, Literal
from weft.expr.types import is_number, sql_name

Rule = Callable[[Call], Call]


def all_as(call: Call, kind: pa.DataType) -> Call:
    """All arguments and the result in one type."""
    return replace(call, args=tuple(cast_to(arg, kind) for arg in call.args), type=kind)


def is_number_or_null(kind: pa.DataType) -> bool:
    """Whether values are numbers, or nothing but NULL."""
    return is_number(kind) or bool(pt.is_null(kind))


def argument(call: Call, arg: Expr, kind: pa.DataType) -> Expr:
    """An argument in the type that is needed there; only whole numbers and NULL are cast to it."""
    if not (pt.is_null(arg.type) or arg.type == kind or (pt.is_integer(kind) and pt.is_integer(arg.type))):
        raise QueryError(
            f'"{call.op}" needs a {sql_name(kind)} here, not a {sql_name(arg.type)}',
            hint=f"CAST it AS {sql_name(kind)}.",
            span=arg.span or call.span,
        )
    return cast_to(arg, kind)


def constant(call: Call, arg: Expr, kind: pa.DataType) -> Literal:
    """An argument that must be written in the query."""
    if not isinstance(arg, Literal):
        raise QueryError(
            f'"{call.op}" needs a constant here',
            detail="it decides what the result is.",
            hint="write a number or a text in quotes.",
            span=arg.span or call.span,
        )
    constant = argument(call, arg, kind)
    assert isinstance(constant, Literal)
    return constant


def require_all(args: Sequence[Expr], test: Callable[[pa.DataType], bool], what: str, call: Call) -> None:
    """Refuse arguments whose types do not pass a test."""
    for arg in args:
        if not test(arg.type):
            raise QueryError(
                f"{what} is not defined on {sql_name(arg.type)}",
                hint="use CAST(... AS type), or another function.",
                span=arg.span or call.span,
            )


def all_integer(call: Call) -> Call:
    """Whole numbers, and a whole number as the result."""
    require_all(call.args, lambda kind: bool(pt.is_integer(kind) or pt.is_null(kind)), f'"{call.op}"', call)
    return all_as(call, pa.int64())
