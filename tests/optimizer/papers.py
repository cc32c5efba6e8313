"""What only the papers need: shapes of trees, closed formulas, and schemes that are cubes in the optimizer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, product
from operator import or_

import numpy as np

from bench.byhand import float_sizes
from weft.errors import PlanError
from weft.optimizer.cost.papers import CostModel, Order
from weft.optimizer.cubes.cube import Hypercube, JoinKeys, Occurrence, Skews, random_cube
from weft.optimizer.graph.joingraph import Base, JoinGraph
from weft.optimizer.graph.tree import Tree
from weft.optimizer.trees.orders import greedy_order
from weft.optimizer.trees.trees import all_trees, valid

# -------------------------------------------------------------------------------------------------- trees

Shape = tuple["Shape", ...]
"""A tree without names: the shapes of its children, largest first; () is a relation."""


def shape(tree: Tree) -> Shape:
    """The tree without names; mirror images and zig-zags have one shape."""
    return tuple(sorted((shape(child) for child in tree.children), reverse=True))


_PAIR: Shape = ((), ())
_NAMED: dict[Shape, str] = {
    ((), (), (), ()): "I",
    (_PAIR, (), ()): "II",
    (_PAIR, _PAIR): "III",
    (((), (), ()), ()): "IV",
    ((_PAIR, ()), ()): "V",
}


def shape_name(tree: Tree) -> str | None:
    """Number of the shape of a tree over four relations in MultiStream Fig. 6; None for any other tree."""
    return _NAMED.get(shape(tree))


def shapes(n: int) -> frozenset[Shape]:
    """All shapes of trees over n relations."""
    clique = JoinGraph(
        tuple(Base(str(i), 1.0) for i in range(n)),
        tuple((i, j, 1.0) for i in range(n) for j in range(i + 1, n)),
    )
    return frozenset(shape(tree) for tree in all_trees(clique))


def is_chain(graph: JoinGraph) -> bool:
    """Whether the edges are exactly R_1 - R_2 - ... - R_n in query order (MultiStream IV.D)."""
    return [(i, j) for i, j, _ in graph.edges] == [(i, i + 1) for i in range(len(graph.relations) - 1)]


def valid_pairs(graph: JoinGraph, tree: Tree) -> list[tuple[int, int]]:
    """valid(T, i, j) of a chain: ranges from R_i to R_j, counted from 1 as in the paper."""
    if not is_chain(graph):
        raise PlanError("ranges need a chain", detail=f"the edges are {graph.edges}.", hint="use valid().")
    return sorted(((mask & -mask).bit_length(), mask.bit_length()) for mask in valid(graph, tree))


def least_sent_greedy(model: CostModel, stores: Sequence[Tree]) -> tuple[Order, ...]:
    """For every store the order by the papers' greedy search only."""
    return tuple(greedy_order(model, stores, start) for start in stores)


def prefix_sizes(model: CostModel, stores: Sequence[Tree]) -> tuple[float, ...]:
    """What the order has in hand at its start and after each hop, the last one included."""
    covered = accumulate((store.relations for store in stores), or_)
    return tuple(model.count_started(stores[0].relations, mask) for mask in covered)


# -------------------------------------------------------------------------------------------------- cubes


def shared_keys(sizes: Mapping[str, float], attributes: Mapping[str, str], other: str = "") -> JoinKeys:
    """By the notation R(x,y), S(y,z): relations that share a letter are equal on it.

    A letter of one relation is no join key (Squall 4), unless it is among `other`.
    """
    letters = dict.fromkeys(letter for name in sizes for letter in attributes.get(name, ""))
    members = {x: tuple(Occurrence(name, x) for name in sizes if x in attributes.get(name, "")) for x in letters}
    return JoinKeys(float_sizes(sizes), tuple((x, m) for x, m in members.items() if len(m) > 1 or x in other))


def one_bucket(left: float, right: float, p: int) -> Hypercube:
    """A matrix of relations "left" and "right" whose sides are as the sizes are."""
    return random_cube(JoinKeys((("left", left), ("right", right)), ()), p)


def bistream_probes(p: int, groups: int = 1) -> float:
    """Machines of the other relation that a tuple is shown to, if p are shared by both and cut into groups."""
    return p / 2 / groups


def machine(cube: Hypercube, cell: Sequence[int]) -> int:
    """The number of a cell."""
    return int(np.ravel_multi_index(tuple(cell), cube.dims))


def coordinates(cube: Hypercube, number: int) -> tuple[int, ...]:
    """The cell of a number."""
    return tuple(map(int, np.unravel_index(number, cube.dims)))


def mirrors(cube: Hypercube, relation: str, number: int) -> Iterator[int]:
    """All machines with the same part of a relation: those of the same coordinates on its axes (Squall 5)."""
    mine, at = set(cube.owned_axes(relation)), coordinates(cube, number)
    ranges = [(at[i],) if i in mine else range(axis.size) for i, axis in enumerate(cube.axes)]
    return (machine(cube, cell) for cell in product(*ranges))


def replication(cube: Hypercube, skews: Skews | None = None) -> float:
    """Ratio of sent to existing tuples (Squall 6, K-28)."""
    return replication_factor(cube.total(skews), math.fsum(size for _, size in cube.sizes))


# ----------------------------------------------------------------------------------------------- formulas


def replication_factor(received: float, produced: float) -> float:
    """Tuples that came into an operator by tuples that its inputs produced (Squall 6); 1 for no tuples."""
    return received / produced if produced else 1.0


def skew_degree(loads: Sequence[float]) -> float:
    """Largest load by average load (Squall 6); 1 for no load."""
    return max(loads) * len(loads) / math.fsum(loads) if math.fsum(loads) else 1.0


def network_factor(tasks: Iterable[tuple[float, float]], query_input: float, query_output: float) -> float:
    """Intermediate network factor: (input + output) of all tasks by (input + output) of the query (Squall 6)."""
    return math.fsum(a + b for a, b in tasks) / (query_input + query_output)


def hash_load(L: float, L_mf: float, p: int) -> float:
    """(L - L_mf)/p + L_mf: the fullest of p machines if the most frequent key weighs L_mf (Squall 3.4)."""
    return (L - L_mf) / p + L_mf


def unspread_share(top: float, n: int) -> float:
    """The fullest slot if the most frequent key has one for itself: Squall's figure 2c reckons so."""
    return max(top, 1 / n)


def zipf_top(exponent: float, values: int | None = None) -> float:
    """The share of the most frequent of `values` values, or of infinitely many."""
    if values is not None:
        return float(1 / (1 / np.arange(1, values + 1, dtype=np.float64) ** exponent).sum())
    if exponent <= 1:
        return 0.0
    # Euler-Maclaurin after N terms; the first term left out is of order N^-(exponent + 3).
    N = 1000.0
    head = float((1 / np.arange(1, N, dtype=np.float64) ** exponent).sum())
    return 1 / (head + N ** (1 - exponent) / (exponent - 1) + N**-exponent / 2 + exponent * N ** (-exponent - 1) / 12)
