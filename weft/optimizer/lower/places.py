"""Places: on which workers the rows of a relation lie, in terms of its stream, so that all queries name them alike.

What must hold: two places are equal only if they bring equal rows to equal workers.  A cube of one axis that is dealt
by the hash of a key is the placement by that key: the first axis of a cube has no salt (`weft.kernels.cells`).  Where
some values have workers of their own, or are dealt in turn, it is not.
"""

from __future__ import annotations

from weft.expr.model import Expr, without_alias
from weft.optimizer.graph.layout import Home
from weft.optimizer.lower.ways import Hop, Ways
from weft.topology.node import Route
from weft.topology.spread import Cube, Spread

Place = tuple[Route, tuple[Expr, ...], int, Spread | None]
"""A route, its key, over how many workers rows are dealt; or a spread instead of all these."""


def place_of_store(plan: Ways, label: str, home: Home) -> Place:
    """Where the rows of a relation are kept."""
    store = 1 << plan.query.position(label)
    if (spread := plan.spreads.get(label)) is not None:
        return _place_of_spread(spread, plan.tasks(store))
    key = tuple(without_alias(expr) for expr in home)
    return "key" if key else "scatter", key, plan.tasks(store), None


def place_of_start(plan: Ways, label: str, first: Hop | None) -> Place:
    """Where the tuples of a relation make their first probe."""
    if (spread := plan.spreads.get(label)) is not None:
        return _place_of_spread(spread, plan.workers)
    if first is None or first.route == "local":
        return "scatter", (), plan.workers, None
    return first.route, tuple(without_alias(expr) for expr in first.route_key), first.tasks, None


def _place_of_spread(spread: Spread, workers: int) -> Place:
    if isinstance(spread, Cube) and len(spread.axes) == 1:
        [axis] = spread.axes
        if axis.kind == "hash" and axis.key is not None and not axis.domain and not axis.heavy:
            return "key", (axis.key,), axis.size, None
    return "spread", (), workers, spread
