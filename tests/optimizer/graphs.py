"""Join graphs of the papers, and random ones."""

from __future__ import annotations

import itertools
import random

from bench.byhand import join_graph
from weft.optimizer.graph.joingraph import JoinGraph
from weft.optimizer.graph.tree import Tree, flat_tree

Q2 = join_graph(
    {"part": 200_000, "partsupp": 800_000, "supplier": 10_000, "nation": 25, "region": 5},
    {
        ("part", "partsupp"): 5e-6,
        ("partsupp", "supplier"): 1e-4,
        ("supplier", "nation"): 0.04,
        ("nation", "region"): 0.2,
    },
)
"""TPC-H Q2 at scale factor 1."""

Q3_SIZES = {"customer": 150_000, "orders": 1_500_000, "lineitem": 6_001_215}
Q3 = join_graph(Q3_SIZES, {("customer", "orders"): 6.6667e-6, ("orders", "lineitem"): 6.667e-7})
"""TPC-H Q3 at scale factor 1, with the selectivities as they are printed."""

RST = join_graph({"R": 100, "S": 100, "T": 100}, {("R", "S"): 0.01, ("S", "T"): 0.01})


def chain(sizes: list[float], selectivities: list[float]) -> JoinGraph:
    """R1 - R2 - ... - Rn."""
    names = [f"R{i + 1}" for i in range(len(sizes))]
    edges = dict(zip(itertools.pairwise(names), selectivities, strict=True))
    return join_graph(dict(zip(names, sizes, strict=True)), edges)


def leaves(graph: JoinGraph) -> tuple[Tree, ...]:
    """All relations in query order."""
    return tuple(Tree(1 << i) for i in range(len(graph.relations)))


def flat(graph: JoinGraph) -> Tree:
    """One operator over all relations of a graph."""
    return flat_tree(len(graph.relations))


def clique(n: int, seed: int = 0) -> JoinGraph:
    """Everything joins with everything."""
    rng = random.Random(seed)
    names = [f"R{i + 1}" for i in range(n)]
    edges = {(a, b): 10 ** rng.uniform(-3, 0) for i, a in enumerate(names) for b in names[i + 1 :]}
    return join_graph({name: 10 ** rng.uniform(1, 6) for name in names}, edges, parallelism=3)


def random_graph(seed: int, least: int = 2, most: int = 6) -> JoinGraph:
    """A connected graph: a random tree and up to n further edges; sizes 10 to 1e6, f 1e-6 to 0.3, N 1 to 8."""
    rng = random.Random(seed)
    n = rng.randint(least, most)
    names = [f"R{i + 1}" for i in range(n)]
    sizes = {name: float(int(10 ** rng.uniform(1, 6))) for name in names}
    edges = {(names[rng.randrange(i)], names[i]): 10 ** rng.uniform(-6, -0.5) for i in range(1, n)}
    for _ in range(rng.randint(0, n)):
        a, b = sorted(rng.sample(range(n), 2))
        edges.setdefault((names[a], names[b]), 10 ** rng.uniform(-6, -0.5))
    return join_graph(sizes, edges, parallelism={name: rng.randint(1, 8) for name in names})
