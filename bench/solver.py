"""How fast many queries are planned together, and what that saves: the figures of CLASH (002) section VII.C.

    python -m bench.solver [--seeds 3] [--limit 10]

Queries are drawn as the authors' generator does: a walk over the relations of a schema in which relations that share an
attribute can be joined; queries that read the same are drawn once.  All relations have one rate, and every join of two
of them has as many results as a relation has rows.

    queries     drawn, and how many of them differ
    seconds     posing the problem and solving it to a gap of 1 %, one thread
    gap         proven
    variables   of the integer program, and of the paper's formulation where that is given in the paper
    ratio       cost of the plan for all queries to the sum of each query's best alone
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.optimizer.graph.joingraph import JoinGraph
from weft.optimizer.joint.flows import Solution
from weft.optimizer.joint.paper import Placements, Posed, parse_query, pose
from weft.optimizer.joint.solve import solve

RATE = 100.0
TEN: Mapping[str, str] = {
    "Q": "abc",
    "R": "cde",
    "S": "efg",
    "T": "ghi",
    "U": "gjk",
    "V": "glm",
    "W": "aeg",
    "X": "amn",
    "Y": "ano",
    "Z": "opq",
}
"""Ten relations of three attributes (G-I5)."""
SIZES = ((100, 3), (10, 4), (10, 5), (30, 5))
"""Queries and the relations of each."""
GOALS = {(100, 3): (0.05, 0.25), (10, 4): (0.05, 0.1), (10, 5): (0.25, 0.5), (30, 5): (4.0, 5.0)}
"""Seconds, without and with intermediate results."""
PAPER = {(100, 3): "0.12", (10, 4): "0.4", (10, 5): "12", (30, 5): "> 120"}
"""Seconds of the paper's solver."""


def hundred() -> dict[str, frozenset[str]]:
    """A hundred relations: ten times the ten; two of these copies each share their attributes."""
    return {
        f"{name}{copy}": frozenset(f"{attribute}{copy % 5}" for attribute in attributes)
        for copy in range(10)
        for name, attributes in TEN.items()
    }


def ten() -> dict[str, frozenset[str]]:
    """The ten relations."""
    return {name: frozenset(attributes) for name, attributes in TEN.items()}


def draw(schema: Mapping[str, frozenset[str]], count: int, size: int, seed: int) -> dict[str, JoinGraph]:
    """Queries by random walks; those that name the same relations in the same order once."""
    rng = random.Random(seed)
    walks = dict.fromkeys(_walk(schema, size, rng) for _ in range(count))
    return {f"q{i}": _query(schema, walk) for i, walk in enumerate(walks)}


def _walk(schema: Mapping[str, frozenset[str]], size: int, rng: random.Random) -> tuple[str, ...]:
    """A relation, then again and again one that joins with the last; stops early where there is none."""
    walk = [rng.choice(list(schema))]
    while len(walk) < size:
        near = [name for name in schema if name not in walk and schema[name] & schema[walk[-1]]]
        if not near:
            break
        walk.append(rng.choice(near))
    return tuple(walk)


def _query(schema: Mapping[str, frozenset[str]], walk: Sequence[str]) -> JoinGraph:
    return parse_query(", ".join(f"{name}({','.join(sorted(schema[name]))})" for name in walk), RATE, 1 / RATE)


# ------------------------------------------------------------------------------------------------ measuring


@dataclass(frozen=True, slots=True)
class Figures:
    """A problem solved."""

    queries: int
    seconds: float
    """Posing and solving."""
    solution: Solution
    alone: float
    """The sum of each query's best by itself."""

    @property
    def ratio(self) -> float:
        """Joint to individual cost."""
        return self.solution.cost / self.alone if self.alone else 1.0


def measure(
    queries: Mapping[str, JoinGraph], intermediates: bool, placements: Placements = "many", limit: float = 10.0
) -> Figures:
    """Plan some queries together."""
    began = time.perf_counter()
    solution = solve(posed(queries, intermediates, placements).problem, time_limit=limit)
    seconds = time.perf_counter() - began
    return Figures(len(queries), seconds, solution, alone(queries, intermediates, placements))


def posed(queries: Mapping[str, JoinGraph], intermediates: bool, placements: Placements) -> Posed:
    """The flow problem of some queries."""
    return pose(queries, intermediates=intermediates, placements=placements, parallelism=5)


def alone(queries: Mapping[str, JoinGraph], intermediates: bool, placements: Placements) -> float:
    """The sum of each query's best by itself."""
    found: dict[object, float] = {}
    for name, graph in queries.items():
        key = frozenset((base.name, base.attributes) for base in graph.relations)
        if key not in found:
            found[key] = solve(posed({name: graph}, intermediates, placements).problem, gap=0.0).cost
    return sum(found[frozenset((base.name, base.attributes) for base in graph.relations)] for graph in queries.values())
