"""The share of pairs whose event times are as far apart as some predicates allow, from rates and windows.

Together the predicates say  low <= X <= high  for X = time(b) - time(a); either end may be open.  Two bounds are not
independent, so their shares must not be multiplied: half of all pairs satisfy `b.ts >= a.ts`, half
`b.ts <= a.ts + 2 seconds`, and hardly any both.

    S_i    the span of event time that the rows of a stream cover: rows / rate
    W_i    the window of an alias
    F      the distribution of X for times that are even over spans with a common middle: a trapezoid over -h .. h

    no windows    F(high) - F(low), with h = (S_a + S_b) / 2.  A narrow band is about  (high - low) / max(S_a, S_b).
    both          (min(high, W_a) - max(low, -W_b)) / (W_a + W_b): partners differ by less than the older one's window,
                  and every difference comes equally often.
    one, W_a      (F(min(high, W_a)) - F(low)) * S_a / min(S_a, W_a): sizes count what the window holds at a time, but
                  over the whole run, rows of b meet all rows that were ever in it.  Likewise for W_b.

A window that is longer than the span of its stream counts as no window.  Where only one span is known, the other is
taken to be equal.  Bounds are closed and times are whole steps, so a band reaches half a step beyond either end.

What must hold: the share is in (0, 1], never rises if a bound gets tighter, and is None where it would be a guess.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from weft.expr.model import Expr
from weft.query.model import Query, Relation
from weft.query.timebounds import bounds_of, step_of
from weft.stats.given import MOST
from weft.stats.model import Statistics

LEAST = 1e-9
"""The least share: streams go on, so what has not come yet may still come."""


def time_share(
    query: Query, a: Relation, b: Relation, predicates: Sequence[Expr], statistics: Statistics
) -> float | None:
    """The share of pairs that satisfies all of some time bounds between two aliases; None is unknown."""
    low, high = _band(query, a, b, predicates)
    known = [_span(a, statistics), _span(b, statistics)]
    span_a, span_b = (span or other for span, other in zip(known, known[::-1], strict=True))
    window_a, window_b = _window(a, span_a), _window(b, span_b)
    low, high = max(low, -window_b), min(high, window_a)
    if window_a < math.inf and window_b < math.inf:
        return min(1.0, max(LEAST, (high - low) / (window_a + window_b)))
    if span_a is None or span_b is None:
        return None
    met = _below(high, span_a, span_b) - _below(low, span_a, span_b)
    held = min(1.0, window_a / span_a) * min(1.0, window_b / span_b)
    return min(1.0, max(LEAST, met / held))


def _window(relation: Relation, span: float | None) -> float:
    """The window of an alias; infinite if it forgets nothing."""
    if relation.window is None or (span is not None and span <= relation.window):
        return math.inf
    return relation.window


def _band(query: Query, a: Relation, b: Relation, predicates: Sequence[Expr]) -> tuple[float, float]:
    """The least and the largest time(b) - time(a), in microseconds."""
    stated = [bounds_of(query, predicate) for predicate in predicates]
    beyond = min(step_of(a.stream), step_of(b.stream)) / 2
    high = min((found.get((a.alias, b.alias), math.inf) for found in stated), default=math.inf)
    low = -min((found.get((b.alias, a.alias), math.inf) for found in stated), default=math.inf)
    return low - beyond, high + beyond


def _span(relation: Relation, statistics: Statistics) -> float | None:
    """How much event time the rows of a stream cover, in microseconds."""
    for name in (relation.stream.name, relation.alias):
        rows, rate = statistics.rows(name), statistics.rate(name)
        if rows and rate:
            return min(MOST, max(1.0, rows / rate * 1e6))
    return None


def _below(x: float, span_a: float, span_b: float) -> float:
    """F(x): the share of pairs with time(b) - time(a) below x."""
    h, g = (span_a + span_b) / 2, abs(span_a - span_b) / 2
    if not -h < x < h:
        return 0.0 if x < 0 else 1.0
    ramps = ((x + h) ** 2, -(max(0.0, x + g) ** 2), -(max(0.0, x - g) ** 2))
    return math.fsum(ramps) / (2 * span_a * span_b)
