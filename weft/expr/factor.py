"""What all alternatives of a condition have in common, taken out of it.

    (p = l AND a) OR (p = l AND b)      becomes      p = l AND (a OR b)

Then an index answers what is in common.  This holds in three-valued logic too.  What must hold: a part that may fail is
left where it is, since other parts may guard it.
"""

from __future__ import annotations

from dataclasses import replace

from weft.expr.model import Call, Expr, conjuncts, text_of
from weft.expr.safe import cannot_fail


def factored(condition: Expr) -> tuple[Expr, ...]:
    """The parts of a condition with types, all of which must hold."""
    if not isinstance(condition, Call) or condition.op != "or":
        return (condition,)
    arms = [conjuncts(arm) for arm in _alternatives(condition)]
    others = [{text_of(part) for part in arm} for arm in arms[1:]]
    common = {
        text_of(part): part for part in arms[0] if all(text_of(part) in arm for arm in others) and cannot_fail(part)
    }
    if not common:
        return (condition,)
    rest = [tuple(part for part in arm if text_of(part) not in common) for arm in arms]
    if not all(rest):
        return tuple(common.values())  # one alternative is what all have in common
    sides = tuple(arm[0] if len(arm) == 1 else Call("and", arm, condition.type) for arm in rest)
    return (*common.values(), *factored(replace(condition, args=sides)))


def _alternatives(condition: Expr) -> tuple[Expr, ...]:
    """The condition split at its top-level ORs."""
    if isinstance(condition, Call) and condition.op == "or":
        return tuple(part for arm in condition.args for part in _alternatives(arm))
    return (condition,)
