"""How joined tuples meet subscriptions: plain data, part of a topology.

A *dimension* is a value of joined tuples that lies between ends that a subscription gives.  Dimensions exclude
subscriptions fast and may admit too many; `checks` are all conditions that dimensions do not decide by themselves.
Expressions are over joined columns (`#x0`, ...) and columns of subscriptions.

A *sieve* drops tuples on their way that no subscription can want any more, by the dimensions that they hold already.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.expr.model import Expr
from weft.query.model import Output


@dataclass(frozen=True, slots=True)
class End:
    """One end of an interval, over the columns of subscriptions."""

    expr: Expr
    strict: bool


@dataclass(frozen=True, slots=True)
class Dimension:
    """A value of joined tuples, and the ends that a subscription gives to it; NULL is no end."""

    value: Expr
    low: tuple[End, ...]
    high: tuple[End, ...]
    equal: bool
    """Whether it is compared for equality alone: codes need not follow the order of values."""
    members: tuple[str, ...]
    """Labels of the relations that the value is worked out of."""


@dataclass(frozen=True, slots=True)
class Matching:
    """What is made of joined tuples: a result for each subscription that each of them meets."""

    store: str
    dimensions: tuple[Dimension, ...]
    checks: tuple[Expr, ...]
    outputs: tuple[Output, ...]
    shared: bool = True
    """Whether tuples that agree in some dimensions are narrowed once for all of them."""


@dataclass(frozen=True, slots=True)
class Sieve:
    """Tuples go on only if some subscription is left by the dimensions that are known."""

    query: str
    """Whose subscriptions."""
    known: tuple[tuple[int, Expr], ...]
    """(Dimension, its value over the fields of the tuples)."""
