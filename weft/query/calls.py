"""Which function a name means: a registered one, a built-in one, an aggregate; ignoring case.

A registered function comes first, so none may have the name of a built-in one (`is_built_in`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from weft.errors import QueryError
from weft.expr.functions import NAMED, SYNONYMS
from weft.expr.lists import UNNEST
from weft.expr.model import Call, Expr, Udf
from weft.expr.types import TIMESTAMP, normalize
from weft.query.aggregates import AGGREGATES, NOT_DONE, WINDOW
from weft.query.elsewhere import say_elsewhere
from weft.query.names import find, suggestion
from weft.query.ranking import GROUPING

_MOMENTS = {"current_date": pa.date32(), "today": pa.date32(), "localtimestamp": TIMESTAMP}
"""Other forms of now()."""
_FORMS = frozenset([
    "cast", "try_cast", "extract", "exists", "if", "interval", "case", "position", "row", "struct_pack", "window",
    "tumble", "hop", "cumulate", "unnest", "grouping", "any", "all", "some", "array", "values", "lateral",
])  # fmt: skip


def is_built_in(name: str) -> bool:
    """Whether SQL has a function of this name."""
    return name.lower() in {*NAMED, *SYNONYMS, *AGGREGATES, *NOT_DONE, *_FORMS, *_MOMENTS}


@dataclass(frozen=True, slots=True)
class FunctionSignature:
    """A registered Python function as queries see it."""

    name: str
    returns: pa.DataType


def called(call: Udf, functions: Mapping[str, FunctionSignature]) -> Expr:
    """The call of the function that a name means; aggregates and windows stay calls by name."""
    name = find(call.name, functions)
    if name is not None:
        return replace(call, name=name, type=normalize(functions[name].returns))
    builtin = call.name.lower()
    builtin = SYNONYMS.get(builtin, builtin)
    if builtin in _MOMENTS and not call.args:
        return Call("cast", (Call("now", (), None, call.span),), _MOMENTS[builtin], call.span)
    if builtin in NAMED or builtin == "%":
        return Call(builtin, call.args, None, call.span)
    if builtin in AGGREGATES or builtin == WINDOW:
        return replace(call, name=builtin)
    if builtin in NOT_DONE:
        raise QueryError(
            f'"{call.name}" is not supported',
            detail=f"aggregates are: {', '.join(AGGREGATES)}.",
            hint=say_elsewhere(call.name) or "aggregate the result where it is read.",
            span=call.span,
        )
    if builtin in GROUPING:
        hint = "write it beside GROUP BY GROUPING SETS, ROLLUP or CUBE."
        raise QueryError("GROUPING says which keys a group has", hint=hint, span=call.span)
    if builtin == UNNEST:
        hint = "write it in FROM: FROM t, UNNEST(t.list) AS u (x); behind SELECT one list may stand, without groups."
        raise QueryError("UNNEST stands in FROM", hint=hint, span=call.span)
    raise QueryError(
        f'there is no function "{call.name}"',
        hint=say_elsewhere(call.name)
        or suggestion(call.name, [*NAMED, *SYNONYMS, *functions])
        or "register a Python function of that name.",
        span=call.span,
    )
