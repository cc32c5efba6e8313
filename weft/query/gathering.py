"""Aggregates over all values of a group: how a query calls them.

    ARRAY_AGG([DISTINCT] x [ORDER BY y DESC])    STRING_AGG(x, ', ' [ORDER BY y])    ARG_MAX(x, y)    MEDIAN(x)
    STDDEV(x)    VARIANCE(x)    CORR(y, x)    REGR_SLOPE(y, x)    QUANTILE_CONT(x, 0.9)
    PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x)
    SUM(DISTINCT x)    FIRST([DISTINCT] x [IGNORE NULLS] ORDER BY y)    LAST    NTH_VALUE(x, 2 ORDER BY y)
    ANY_VALUE(x ORDER BY y)

Each is one aggregate of the kind "list", over structs of a value and what it is ordered by, and a call around it that
makes of the list what the function gives (`weft.expr.gathered`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyarrow import types as pt

from weft.errors import QueryError
from weft.expr.coerce import cast_to
from weft.expr.gathered import GATHERINGS, PAIRED
from weft.expr.model import Call, Expr, Literal, Udf
from weft.expr.types import is_comparable, is_number, sql_name
from weft.expr.typing import add_types

ORDERED = "ordered"
"""ordered(argument, ..., sorted(...), ...): the arguments of a call with ORDER BY in it."""
KNOWN = "known"
"""known(argument): IGNORE NULLS."""


@dataclass(frozen=True, slots=True)
class _Call:
    """How a function is called."""

    gathers: str
    """What is made of the list."""
    constant: Any = None
    more: int = 0
    """How many arguments there are beside the value."""
    keyed: str = ""
    """If the second argument is what values are ordered by: how."""
    needs_order: bool = False
    """Whether the value is another one in another order."""


_CALLS: dict[str, _Call] = {
    **dict.fromkeys(("array_agg", "list"), _Call("list")),
    **dict.fromkeys(("string_agg", "listagg", "group_concat"), _Call("text", ",", more=1)),
    **dict.fromkeys(("arg_max", "max_by"), _Call("first", more=1, keyed="dl")),
    **dict.fromkeys(("arg_min", "min_by"), _Call("first", more=1, keyed="al")),
    **dict.fromkeys(("stddev", "stddev_samp"), _Call("stddev_samp")),
    "stddev_pop": _Call("stddev_pop"),
    **dict.fromkeys(("variance", "var_samp"), _Call("var_samp")),
    "var_pop": _Call("var_pop"),
    **{name: _Call(name, more=1, keyed="al") for name in PAIRED},
    "median": _Call("quantile_cont", 0.5),
    "quantile_cont": _Call("quantile_cont", 0.5, more=1),
    "percentile_cont": _Call("quantile_cont", 0.5, more=1),
    "quantile_disc": _Call("quantile_disc", 0.5, more=1),
    "percentile_disc": _Call("quantile_disc", 0.5, more=1),
    "quantile": _Call("quantile_disc", 0.5, more=1),
    "mode": _Call("mode"),
    "product": _Call("product"),
    "bit_and": _Call("bit_and"),
    "bit_or": _Call("bit_or"),
    "bit_xor": _Call("bit_xor"),
}
PLACED = {
    **dict.fromkeys(("first", "first_value"), _Call("leading", needs_order=True)),
    **dict.fromkeys(("last", "last_value"), _Call("trailing", needs_order=True)),
    "nth_value": _Call("nth", more=1, needs_order=True),
}
"""Calls that take one of the values, by its place."""
_CALLS |= PLACED
NAMES = tuple(_CALLS)
IN_ORDER = frozenset(name for name, how in _CALLS.items() if how.gathers in ("list", "text") or how.needs_order)
"""Functions whose values come in the order of the window around them."""
_ORDERED = {"any_value": _Call("leading known")}
_DISTINCT = {"sum": _Call("sum"), "avg": _Call("avg"), "mean": _Call("avg")}


def is_gathering(call: Udf) -> bool:
    """Whether an aggregate is over all values of a group."""
    marked = {"distinct": _DISTINCT, ORDERED: _ORDERED}.get(_mark_of(call), {})
    return call.name in _CALLS or call.name in marked


def _mark_of(call: Udf) -> str:
    """DISTINCT or ORDER BY in a call of one argument."""
    return call.args[0].op if len(call.args) == 1 and isinstance(call.args[0], Call) else ""


def packed(call: Udf) -> tuple[Expr, tuple[Literal, ...]]:
    """What the list of a call has for each row, with types; and the constants of the call around the list."""
    how = _CALLS.get(call.name) or _DISTINCT.get(call.name) or _ORDERED[call.name]
    args, order = _parted(call)
    if args and isinstance(args[0], Call) and args[0].op == KNOWN:
        how, args = replace(how, gathers=f"{how.gathers} known"), (*args[0].args, *args[1:])
    distinct = bool(args) and isinstance(args[0], Call) and args[0].op == "distinct"
    if distinct and isinstance(args[0], Call):
        args = (*args[0].args, *args[1:])
    if not 1 <= len(args) <= 1 + how.more or (how.keyed and len(args) != 2):
        count = "2 arguments" if how.keyed else f"1 to {1 + how.more} arguments" if how.more else "1 argument"
        hint = "leave arguments out, or write those that are missing."
        raise QueryError(f'"{call.name}" takes {count}, not {len(args)}', hint=hint, span=call.span)
    if how.needs_order and not order:
        hint = f"write {call.name.upper()}(x ORDER BY y), or OVER (ORDER BY y); in any order it is ANY_VALUE(x)."
        raise QueryError(f"{call.name.upper()} depends on an order", hint=hint, span=call.span)
    keys, marks = [key.args[0] for key in order], [_mark(key) for key in order]
    constant = how.constant
    if how.keyed:
        distinct = False  # equal values beside equal keys change nothing
        keys, marks = [args[1], *keys], [how.keyed, *marks]
    elif len(args) == 2:
        constant = _constant(args[1], call)
    value = add_types(args[0])
    if how.gathers == "text" and is_number(value.type):
        value = cast_to(value, pa.string())
    if call.name in PAIRED:
        keys[0] = _number(add_types(keys[0]), call)
    if pt.is_null(value.type):
        raise QueryError("the argument has no type of its own", hint="write CAST(NULL AS type).", span=args[0].span)
    if not GATHERINGS[how.gathers].takes(value.type) or not is_comparable(value.type):
        raise QueryError(
            f"{call.name.upper()} is not defined on {sql_name(value.type)}",
            hint="CAST the argument.",
            span=args[0].span or call.span,
        )
    _require_share(how, constant, call)
    if distinct and any(key != args[0] for key in keys):
        hint = "order by the argument itself, or leave DISTINCT out."
        raise QueryError("with DISTINCT, values can be ordered by themselves alone", hint=hint, span=call.span)
    is_text = how.gathers == "text"
    given = Literal(
        constant if is_text or constant is None else float(constant), pa.string() if is_text else pa.float64()
    )
    options = (Literal(how.gathers, pa.string()), Literal(distinct, pa.bool_()), Literal(" ".join(marks), pa.string()))
    return add_types(Call("pack", (value, *map(add_types, keys)), None, call.span)), (*options, given)


def _number(other: Expr, call: Udf) -> Expr:
    """The second value of each pair."""
    if not is_number(other.type):
        message = f"{call.name.upper()} is not defined on {sql_name(other.type)}"
        raise QueryError(message, hint="CAST the argument to a number.", span=other.span or call.span)
    return other


def _parted(call: Udf) -> tuple[tuple[Expr, ...], list[Call]]:
    """The arguments, and what stands behind ORDER BY."""
    if len(call.args) != 1 or not isinstance(call.args[0], Call) or call.args[0].op != ORDERED:
        return call.args, []
    inner = call.args[0].args
    order = [arg for arg in inner if isinstance(arg, Call) and arg.op == "sorted"]
    return tuple(arg for arg in inner if arg not in order), order


def _mark(key: Call) -> str:
    descending, nulls_first = (arg.value for arg in key.args[1:] if isinstance(arg, Literal))
    return ("d" if descending else "a") + ("f" if nulls_first else "l")


def _constant(written: Expr, call: Udf) -> Any:
    typed = add_types(written)
    if not isinstance(typed, Literal) or typed.value is None:
        hint = "write a constant."
        raise QueryError(f"the second argument of {call.name.upper()} is no constant", hint=hint, span=written.span)
    return typed.value


def _require_share(how: _Call, constant: Any, call: Udf) -> None:
    if how.gathers.startswith("nth") and type(constant) is not int:
        raise QueryError("NTH_VALUE counts rows", hint="write NTH_VALUE(x, 2).", span=call.span)
    if how.gathers == "text" and not isinstance(constant, str):
        raise QueryError("the separator is no text", hint="write it in single quotes: ', '.", span=call.span)
    if how.gathers.startswith("quantile") and (isinstance(constant, str) or not 0 <= constant <= 1):
        raise QueryError("a share lies between 0 and 1", hint="write 0.5 for the median.", span=call.span)
