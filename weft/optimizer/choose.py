"""The chooser: from a query, what is known and what is asked for to a layout.

flat        nothing but the inputs is kept
left_deep   a cascade of binary joins, as other systems run it
tree        intermediate results under a storage budget (MultiStream IV.D)
exhaustive  of all trees within the budget the one that sends the fewest tuples
auto        the cheapest of them by the prices of the host
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from weft.errors import PlanError
from weft.optimizer.cost import CostModel
from weft.optimizer.estimate import estimate
from weft.optimizer.layout import Layout, flat_tree
from weft.optimizer.orders import least_sent
from weft.optimizer.placement import Sizes, heaviest
from weft.optimizer.tree import Tree
from weft.optimizer.trees import cheapest, left_deep, under_budget
from weft.query.model import Query
from weft.stats.model import Statistics

STRATEGIES = ("auto", "flat", "left_deep", "tree", "exhaustive")


@dataclass(frozen=True, slots=True)
class Knobs:
    """What a user may ask of a plan."""

    strategy: str = "auto"
    statistics: Statistics | None = None
    budget: float = math.inf
    sizes: Sizes = field(default_factory=dict)


def choose(query: Query, workers: int, knobs: Knobs) -> Layout:
    """The layout of a query."""
    tree = _tree(query, workers, knobs)
    placement = heaviest(query, tree, knobs.sizes) if workers > 1 else {}
    return Layout(tree, placement, _orders(query, tree, placement, workers, knobs))


def _tree(query: Query, workers: int, knobs: Knobs) -> Tree:
    if knobs.strategy in ("auto", "flat") or len(query.relations) < 3:
        return flat_tree(query)
    graph = estimate(query, knobs.statistics or Statistics(), parallelism=workers)
    model = CostModel(graph)
    if knobs.strategy == "left_deep":
        return left_deep(model, knobs.budget)
    if knobs.strategy == "tree":
        return under_budget(model, knobs.budget).tree
    if knobs.strategy == "exhaustive":
        return cheapest(model, knobs.budget)
    raise PlanError(f'strategy "{knobs.strategy}" is unknown', hint=f"use one of: {', '.join(STRATEGIES)}.")


def _orders(
    query: Query, tree: Tree, placement: Mapping[int, tuple[object, ...]], workers: int, knobs: Knobs
) -> dict[int, tuple[int, ...]]:
    """Store -> its siblings in the order that sends the fewest tuples; nothing if nothing is known."""
    if knobs.statistics is None:
        return {}
    graph = estimate(query, knobs.statistics, parallelism=workers)
    if not graph.connected(graph.all):
        return {}
    model = CostModel(graph)
    found: dict[int, tuple[int, ...]] = {}
    for operator in tree.operators:
        for order in least_sent(model, operator.children):
            first, *rest = (store.relations for store in order.stores)
            found[first] = tuple(rest)
    return found
