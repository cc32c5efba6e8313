"""Cubes that several queries may have in common: one axis, by one key or at random, and everything else copied.

A query's own best cube suits that query alone.  Two queries share the rows of a stream only if their cubes deal them
alike, and cubes of one axis often do: all queries over orders and lines may lie by the number of the order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from weft.optimizer.candidate import Candidate
from weft.optimizer.choose import Choice
from weft.optimizer.cubes.cube import Occurrence
from weft.optimizer.cubes.plan import CubeKeys
from weft.optimizer.graph.tree import flat_tree
from weft.topology.spread import Axis, Cube, Spread


def simple_cubes(choice: Choice) -> Iterator[Candidate]:
    """The cubes of one axis of a query that store no more than it may."""
    problem, maker = choice.maker.problem, choice.maker
    query, workers, model = problem.query, problem.workers, problem.model
    if workers == 1:
        return
    keys = CubeKeys(query, model.graph, problem.known.statistics, problem.wishes.skewed, problem.known.prices)
    tree = flat_tree(len(query.relations))
    for name, owners in keys.keys.classes:
        fullest = max(float(keys.skews[owner].slots(workers).max()) for owner in owners) * workers
        made = maker.spread(f"cube by {name}", tree, _by_key(keys, owners, workers), max(1.0, fullest))
        if made.bill.scost <= problem.limit:
            yield made
    sizes = [base.size for base in model.graph.relations]
    largest = sizes.index(max(sizes))
    dealt: dict[int, Spread] = {
        1 << i: Cube((Axis(workers, "random" if i == largest else "copy"),)) for i in range(len(sizes))
    }
    made = maker.spread(f"cube, {query.aliases[largest]} at random", tree, dealt, 1.0)
    if made.bill.scost <= problem.limit:
        yield made


def _by_key(keys: CubeKeys, owners: tuple[Occurrence, ...], workers: int) -> Mapping[int, Spread]:
    mine = {owner[0]: keys.exprs[owner] for owner in owners}
    return {
        1 << i: Cube((Axis(workers, "hash", mine[alias]) if alias in mine else Axis(workers, "copy"),))
        for i, alias in enumerate(keys.query.aliases)
    }
