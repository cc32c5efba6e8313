"""The trees that are candidates for a query, by the names of their strategies.

What must hold: a tree that the user has not asked for stores no more than `Problem.limit`.  Where nothing is known of
the data, "auto" looks at the flat tree only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice

from weft.errors import PlanError
from weft.optimizer.graph.tree import Tree, flat_tree
from weft.optimizer.problem import Problem
from weft.optimizer.trees.trees import all_trees, cheapest, left_deep, mat, under_budget, valid
from weft.optimizer.wishes import STRATEGIES

MOST_TREES = 250
"""Up to how many trees all of them are candidates: those of a chain of six."""
MANY = 8
"""With more relations, only trees that a strategy has a name for are candidates: pricing one takes a while."""

Named = tuple[str, Tree]


def candidate_trees(problem: Problem) -> list[Named]:
    """The trees to look at; none where a cube, ranges or views were asked for."""
    if problem.is_spread:
        return []
    if problem.written is not None:
        problem.afford(problem.model.scost(problem.written.tree))
        return [("by hand", problem.written.tree)]
    strategy, model, budget = problem.strategy, problem.model, problem.wishes.budget
    aliases = len(problem.query.relations)
    if budget < math.inf and aliases > 1:
        left_deep(model, budget)  # refuses a budget that the inputs alone exceed
    if strategy == "flat" or aliases < 3 or not problem.is_connected:
        return [("flat", flat_tree(len(problem.query.relations)))]
    match strategy:
        case "left_deep":
            return [(strategy, left_deep(model, budget))]
        case "tree":
            return [(strategy, under_budget(model, budget).tree)]
        case "exhaustive":
            return [(strategy, cheapest(model, budget))]
        case "views":
            return []
        case "auto":
            return _all(problem) if problem.informed else [("flat", flat_tree(len(problem.query.relations)))]
    raise PlanError(f'strategy "{strategy}" is unknown', hint=f"use one of: {', '.join(STRATEGIES)}.")


def _all(problem: Problem) -> list[Named]:
    """Everything worth a look within the budget; a tree that is found twice keeps its first name."""
    model, budget = problem.model, problem.limit
    tree = plain = flat_tree(len(problem.query.relations))
    found: dict[Tree, str] = {plain: "flat"}
    found.setdefault(left_deep(model, budget), "left_deep")
    grown = under_budget(model, budget)
    for names, _ in grown.steps:
        tree = mat(tree, model.graph.mask(*names))
        found.setdefault(tree, "tree" if tree == grown.tree else f"tree, {len([*tree.operators]) - 1} kept")
    for tree in _others(problem, plain):
        if model.scost(tree) <= budget:
            found.setdefault(tree, "other")
    return [(name, tree) for tree, name in found.items()]


def _others(problem: Problem, plain: Tree) -> Iterator[Tree]:
    """All trees if they are few; else those that keep one join."""
    graph = problem.model.graph
    if len(graph.relations) <= 6:
        trees = [*islice(all_trees(graph), MOST_TREES + 1)]
        if len(trees) <= MOST_TREES:
            yield from trees
            return
    if len(graph.relations) <= MANY:
        for joined in islice(valid(graph, plain), MOST_TREES):
            yield mat(plain, joined)
