"""Trees of operators: which intermediate results are kept in stores of their own.

MultiStream (000) IV.C and IV.D.  The root is never kept, everything below it is.  More stores mean fewer hops: a kept
result is not joined again for every arriving tuple, but it takes space, and tasks to which probes must be sent.

    flat           one operator over all relations; the least that can be stored
    left_deep      a cascade of binary operators, in the order with the least sum of intermediate results
    under_budget   from the flat tree, always insert the operator that adds least to SCost, while the budget allows
    all_trees      every tree without cross products, for few relations
    cheapest       the one of them that sends least within the budget

A step of `under_budget` puts a new operator over some children of one node.  On a chain these are the siblings that
span R_i to R_j, as in the paper; on any other graph any connected set of siblings, at least two and not all of
them.  Ties: fewer relations that no intermediate result holds yet, so that existing results grow; fewer relations;
those that come first in the query.  The paper's figure never updates the storage used so far, and hands the
children to the wrong node; both are corrected here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from weft.errors import PlanError
from weft.optimizer.cost.papers import CostModel, round_off
from weft.optimizer.graph.joingraph import JoinGraph, bits
from weft.optimizer.graph.tree import Tree, flat_tree
from weft.optimizer.trees.orders import least_sent_orders

ENUMERABLE = 6
"""Up to how many relations all trees are looked at: there can be 2,752 of them, for seven 39,208."""

_WIDEST = 2_000
"""How many sets of equally many relations the search for a cascade keeps; all of them for up to thirteen relations."""

# ----------------------------------------------------------------------------------------------- builders


def join(children: Sequence[Tree]) -> Tree:
    """An operator over the given trees; over a single one, that tree itself."""
    if len(children) == 1:
        return children[0]
    ordered = sorted(children, key=lambda tree: tree.relations & -tree.relations)
    return Tree(sum(child.relations for child in ordered), tuple(ordered))


def left_deep(model: CostModel, budget: float = math.inf) -> Tree:
    """A cascade; where the next intermediate result does not fit or is a cross product, the root takes all the rest."""
    graph = model.graph
    _require_space(model, flat_tree(len(graph.relations)), budget, None)
    order = [Tree(1 << i) for i in _cascade(graph)]
    done, rest = order[0], order[1:]
    while len(rest) > 1:
        grown = join((done, rest[0]))
        tree = join((grown, *rest[1:]))
        if not graph.is_connected(grown.relations) or model.scost(tree) > budget:
            break
        done, rest = grown, rest[1:]
    return join((done, *rest))


def _cascade(graph: JoinGraph) -> tuple[int, ...]:
    """Positions in the order with the least sum of intermediates: level by level, the best way to every reachable set.

    A level keeps only its cheapest sets, so with very many relations the result is good but may not be the best.
    """
    level: dict[int, tuple[float, tuple[int, ...]]] = {1 << i: (0.0, (i,)) for i in range(len(graph.relations))}
    for _ in graph.relations[1:]:
        grown: dict[int, tuple[float, tuple[int, ...]]] = {}
        for mask, (cost, way) in level.items():
            for i in bits(graph.neighbours(mask) or graph.all & ~mask):
                new = round_off(cost + graph.size(mask | 1 << i)), (*way, i)
                grown[mask | 1 << i] = min(grown.get(mask | 1 << i, new), new)
        level = dict(sorted(grown.items(), key=lambda item: item[1])[:_WIDEST])
    return min(level.values())[1]


# --------------------------------------------------------------------------------------------- the budget


@dataclass(frozen=True, slots=True)
class Growth:
    """A tree and how it came about."""

    tree: Tree
    steps: tuple[tuple[tuple[str, ...], float], ...]
    """Relations of each new store, and its size."""


def under_budget(model: CostModel, budget: float = math.inf, tasks: int | None = None) -> Growth:
    """The tree of MultiStream Fig. 7: SCost within `budget` tuples, stores within `tasks` tasks."""
    tree, steps = flat_tree(len(model.graph.relations)), []
    _require_space(model, tree, budget, tasks)
    while options := valid(model.graph, tree):
        added = min(options, key=lambda mask: _step_key(model, tree, mask))
        grown = mat(tree, added)
        if model.scost(grown) > budget or (tasks is not None and model.tasks(grown) > tasks):
            break
        steps.append((model.graph.names(added), model.storage(added)))
        tree = grown
    return Growth(tree, tuple(steps))


def _step_key(model: CostModel, tree: Tree, mask: int) -> tuple[object, ...]:
    held = sum(child.relations for child in tree.children if child.children)
    return round_off(model.storage(mask)), (mask & ~held).bit_count(), mask.bit_count(), [*bits(mask)]


def valid(graph: JoinGraph, tree: Tree) -> list[int]:
    """Sets of relations for which :func:`mat` can insert an operator: some, not all children of one node, connected."""
    found = []
    for node in tree.operators:
        parts = [child.relations for child in node.children]
        unions = graph.connected_subsets(parts) if len(parts) > 2 else ()
        found += [mask for mask in unions if mask not in parts and mask != node.relations]
    return found


def mat(tree: Tree, relations: int) -> Tree:
    """mat(T, i, j): the tree with a new operator over exactly these relations."""
    inside = [child for child in tree.children if child.relations & ~relations == 0]
    if sum(child.relations for child in inside) == relations != tree.relations and len(inside) > 1:
        outside = [child for child in tree.children if child not in inside]
        return join((join(inside), *outside))
    below = [mat(c, relations) if c.relations & relations == relations else c for c in tree.children]
    if tuple(below) == tree.children:
        raise PlanError(f"no operator over relations {relations:b} can be inserted", hint="take one of valid().")
    return Tree(tree.relations, tuple(below), tree.partitioning)


def _require_space(model: CostModel, tree: Tree, budget: float, tasks: int | None) -> None:
    """The flat tree stores least; if even that is too much, nothing fits."""
    if model.scost(tree) > budget:
        raise PlanError(
            f"the inputs alone hold {model.scost(tree):,.0f} {model.unit}, the storage budget is {budget:,.0f}",
            detail=f"a budget counts the {model.unit} of inputs and intermediate results together.",
            hint="raise the budget, or shorten the windows.",
        )
    if tasks is not None and model.tasks(tree) > tasks:
        raise PlanError(
            f"the inputs alone need {model.tasks(tree):,} tasks, {tasks:,} are available",
            detail="a store needs its size divided by the capacity of a task, rounded up.",
            hint="raise the number of tasks or their capacity.",
        )


# --------------------------------------------------------------------------------------------- every tree


def all_trees(graph: JoinGraph) -> Iterator[Tree]:
    """Every tree whose inner operators are connected; the root joins whatever there is."""
    if len(graph.relations) > ENUMERABLE:
        raise PlanError(
            f"{len(graph.relations)} relations have too many trees",
            detail=f"all trees are looked at for up to {ENUMERABLE} relations.",
            hint="use under_budget().",
        )

    @cache
    def over(mask: int) -> tuple[Tree, ...]:
        if mask.bit_count() == 1:
            return (Tree(mask),)
        return tuple(join(children) for parts in _partitions(graph, mask) for children in choices(parts))

    def choices(parts: tuple[int, ...]) -> Iterator[tuple[Tree, ...]]:
        if not parts:
            yield ()
            return
        for first in over(parts[0]):
            for others in choices(parts[1:]):
                yield (first, *others)

    yield from over(graph.all)


def _partitions(graph: JoinGraph, mask: int, whole: bool = True) -> Iterator[tuple[int, ...]]:
    """All ways to cut a set into connected parts, the set itself left out at the top."""
    if not mask:
        yield ()
        return
    low, part = mask & -mask, mask
    while part:
        if part & low and graph.is_connected(part) and not (whole and part == mask):
            for others in _partitions(graph, mask & ~part, whole=False):
                yield (part, *others)
        part = (part - 1) & mask


def cheapest(model: CostModel, budget: float = math.inf) -> Tree:
    """Of all trees within the budget the one that sends least, then stores least."""
    _require_space(model, flat_tree(len(model.graph.relations)), budget, None)
    fitting = (tree for tree in all_trees(model.graph) if model.scost(tree) <= budget)
    return min(fitting, key=lambda tree: (round_off(model.pcost(tree, least_sent_orders)), model.scost(tree)))
