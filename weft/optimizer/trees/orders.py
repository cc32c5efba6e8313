"""Probe orders: in which order a new tuple meets the stores of the others.

Nothing here changes results, only how many tuples travel.  What must hold: an order starts with its input, meets each
other store once, and makes no cross product while some remaining store is joinable with what it has covered.

Four ways, for the children of any operator:

    greedy_order        MultiStream (000) IV.B with the factors of the cost model in both terms: of all pairs (j, k) of
                        remaining stores take the one with the least  sent(P) * chi_j + sent(P join j) * chi_k,  go to
                        j, repeat.  k is look-ahead only.  Ties: smaller intermediate, smaller N, query order.
    refine_order        until no stretch of a few consecutive hops can be put in a better order.  The look-ahead of
                        `greedy_order` prices the next two hops and not what comes out of the second.  So it may put
                        off a selective join that lies behind a growing one until all else is multiplied, and nothing
                        bounds the loss.
    exhaustive_order    the best of all orders.  Because a hop's price depends on the covered set alone, it is enough to
                        know the best rest for each set: 2^n sets instead of n! orders.
    least_sent_orders   for every start: exhaustive while that is cheap, above it greedy, then refined.

Rejected: ordering by rank over a spanning tree (IKKBZ).  It is exact for trees without the 1/j factor, but alone it
lost to refined orders on random graphs, and as a second start it gained nothing over a longer stretch.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.optimizer.cost.papers import CostModel, Order, round_off
from weft.optimizer.graph.tree import Tree

EXHAUSTIVE = 6
"""Up to how many stores the exact search is used, and how long a stretch is above that."""

_LESS = 1 - 1e-12
"""A new order must be cheaper by more than rounding, or the search might not end."""


def least_sent_orders(model: CostModel, stores: Sequence[Tree]) -> tuple[Order, ...]:
    """For every store the order its new tuples take, in the order the stores are given."""
    if len(stores) <= EXHAUSTIVE:
        return tuple(exhaustive_order(model, stores, start) for start in stores)
    return tuple(refine_order(model, greedy_order(model, stores, start)) for start in stores)


# ------------------------------------------------------------------------------------------------ greedy


def greedy_order(model: CostModel, stores: Sequence[Tree], start: Tree) -> Order:
    """The order by look-ahead over pairs."""
    order, covered, rest = [start], start.relations, [s for s in stores if s != start]
    while rest:
        step = min(_next(model, covered, rest), key=lambda store: _rank(model, start, covered, rest, store))
        order.append(step)
        covered |= step.relations
        rest.remove(step)
    return model.order(order)


def _rank(model: CostModel, start: Tree, covered: int, rest: Sequence[Tree], j: Tree) -> tuple[float, ...]:
    """The price of the best pair that begins with `j`, then the tie breaks; at last `min` keeps the first."""
    after = covered | j.relations
    others = [s for s in rest if s != j]
    ahead = min((model.hop(start.relations, after, k) for k in _next(model, after, others)), default=0.0)
    price = model.hop(start.relations, covered, j) + ahead
    return round_off(price), round_off(model.graph.size(after)), model.N(j)


def _next(model: CostModel, covered: int, rest: Sequence[Tree]) -> list[Tree]:
    """The stores that may come next: those that join, or all of them if none does."""
    near = model.graph.neighbours(covered)
    return [s for s in rest if s.relations & near] or list(rest)


# ------------------------------------------------------------------------------------------------- exact


def exhaustive_order(model: CostModel, stores: Sequence[Tree], start: Tree) -> Order:
    """The order that sends least; of equal ones the first in query order."""
    rest = tuple(s for s in stores if s != start)
    return model.order((start, *_best(model, start, start.relations, rest)))


def refine_order(model: CostModel, order: Order, stretch: int = EXHAUSTIVE) -> Order:
    """The order with every `stretch` consecutive hops in the best order among themselves; never more expensive."""
    while True:
        better = model.order(_pass(model, order.stores, stretch))
        if not better.cost < order.cost * _LESS:
            return order
        order = better


def _pass(model: CostModel, stores: tuple[Tree, ...], stretch: int) -> tuple[Tree, ...]:
    """Each stretch once, from the first to the last."""
    covered = 0
    for i in range(1, max(2, len(stores) - stretch + 1)):
        covered |= stores[i - 1].relations
        best = _best(model, stores[0], covered, stores[i : i + stretch])
        stores = (*stores[:i], *best, *stores[i + stretch :])
    return stores


def _best(model: CostModel, start: Tree, covered: int, rest: tuple[Tree, ...]) -> tuple[Tree, ...]:
    """The cheapest order of `rest` after `covered`."""
    known: dict[int, tuple[float, tuple[Tree, ...]]] = {}

    def finish(covered: int, rest: tuple[Tree, ...]) -> tuple[float, tuple[Tree, ...]]:
        if not rest:
            return 0.0, ()
        if covered not in known:
            ways = (via(covered, rest, step) for step in _next(model, covered, rest))
            known[covered] = min(ways, key=lambda way: round_off(way[0]))
        return known[covered]

    def via(covered: int, rest: tuple[Tree, ...], step: Tree) -> tuple[float, tuple[Tree, ...]]:
        cost, way = finish(covered | step.relations, tuple(s for s in rest if s != step))
        return model.hop(start.relations, covered, step) + cost, (step, *way)

    return finish(covered, rest)[1]
