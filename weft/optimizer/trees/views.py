"""Views: every connected join of some, not all relations is kept as rows, and a new tuple meets few of them.

Squall (003) 3.3 calls it the local join of DBToaster.  A new tuple of R meets one view of all other relations, or one
for each part into which these fall without R.  It fills every view that R is a member of in the same way, from smaller
views.  Sets that predicates do not connect are cross products, and are not kept (K-29).

    all_views    the connected sets of 2 to n - 1 relations
    within       those of them that fit a limit of storage: the largest are given up first
    view_lines   for every view that is used, and for the results, and for each relation that can be the newest in them:
                 the stores that its new tuples meet, in order

Where a view was given up, tuples meet the largest views inside it that join with what they have.

What must hold: a line meets every other relation of what it makes once, and makes no cross product.  A view is made
only if a line looks into it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator

from weft.optimizer.cost.papers import CostModel
from weft.optimizer.graph.joingraph import JoinGraph, bits

MOST_VIEWS = 119
"""How many views are kept at most, the smallest ones: as many as seven relations have if each joins with each."""

Orders = dict[tuple[int, int], tuple[int, ...]]
"""(What is made, the relation that starts) -> the stores that are met."""


def all_views(model: CostModel) -> tuple[int, ...]:
    """The joins to keep, the smallest first."""
    graph = model.graph
    found = [
        mask
        for mask in graph.connected_subsets()
        if mask.bit_count() > 1 and mask != graph.all and graph.may_keep(mask)
    ]
    return tuple(sorted(found, key=lambda mask: (model.storage(mask), mask.bit_count(), mask))[:MOST_VIEWS])


def within(
    model: CostModel, views: Collection[int], limit: float, copies: Callable[[int], float] = lambda _store: 1.0
) -> tuple[int, ...]:
    """The views that fit beside the inputs; `copies` says on how many workers a row of a store is."""
    left = limit - math.fsum(model.storage(1 << i) * copies(1 << i) for i in range(len(model.graph.relations)))
    kept = []
    for needed, view in sorted((model.storage(view) * copies(view), view) for view in views):
        if needed > left:
            break
        left -= needed
        kept.append(view)
    return tuple(kept)


def view_lines(model: CostModel, views: Collection[int]) -> Orders:
    """What new tuples meet to make the results, and the views that others look into."""
    graph, found = model.graph, Orders()
    wanted, seen = [graph.all], {graph.all}
    for goal in wanted:
        for i in bits(goal & ~graph.tables or goal):
            line = found[goal, 1 << i] = _line(model, views, 1 << i, goal)
            new = [store for store in line if store.bit_count() > 1 and store not in seen]
            wanted += new
            seen.update(new)
    return found


def _line(model: CostModel, views: Collection[int], start: int, goal: int) -> tuple[int, ...]:
    """The stores that a new tuple meets; of those that may come next the one that leaves the fewest tuples."""
    covered, line = start, list[int]()
    while covered != goal:
        options = _pieces(model.graph, views, covered, goal & ~covered)
        store = min(options, key=lambda s: (model.count_started(start, covered | s), -s.bit_count(), s))
        line.append(store)
        covered |= store
    return tuple(line)


def _pieces(graph: JoinGraph, views: Collection[int], covered: int, rest: int) -> Iterator[int]:
    """The largest stores inside each connected part of the rest that join with what is covered."""
    for part in _parts(graph, rest):
        if part in views:
            yield part
            continue
        inside = [view for view in views if not view & ~part and graph.is_joinable(covered, view)]
        inside += [1 << i for i in bits(part & graph.neighbours(covered))]
        yield from (s for s in inside if not any(s != other and not s & ~other for other in inside))


def _parts(graph: JoinGraph, rest: int) -> Iterator[int]:
    """The connected parts of a set."""
    while rest:
        part = rest & -rest
        while grown := graph.neighbours(part) & rest & ~part:
            part |= grown
        yield part
        rest &= ~part
