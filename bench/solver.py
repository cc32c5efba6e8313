"""How fast many queries are planned together, and what that saves: the figures of CLASH (002) section VII.C.

    python -m bench.solver [--seeds 3] [--limit 10]

Queries are drawn as the authors' generator does: a walk over the relations of a schema in which relations that share an
attribute can be joined; queries that read the same are drawn once.  All relations have one rate, and every join of two
of them has as many results as a relation has rows.

    different   queries that are left of those drawn
    seconds     of one core: posing the problem and solving it to a gap of 1 %; median and longest over the seeds
    gap         proven; the largest
    variables   of the integer program; the most
    ratio       cost of the plan for all queries to the sum of each query's best alone; the mean
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median

from bench.machine import machine_line
from bench.saying import block
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
GOALS = {(100, 3): (0.05, 0.25), (10, 4): (0.05, 0.1), (10, 5): (0.25, 0.5), (30, 5): (4.0, 5.0)}
"""Seconds, without and with intermediate results."""
PAPER = {(100, 3): "0.12", (10, 4): "0.4", (10, 5): "12", (30, 5): "> 120"}
"""Seconds of the paper's solver, with intermediate results."""
HEAD = "   seconds  longest     gap  variables  ratio"


def main() -> None:
    """Measure and print everything."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=10.0)
    asked = parser.parse_args()
    solve(posed(draw(ten(), 1, 2, 0), False, "many").problem)  # the solver is loaded once
    print(f"{asked.seeds} seeds, at most {asked.limit:g} s each; {machine_line()}")
    for placements in ("many", "one"):
        title = f"places a store: {placements}\nqueries  relations  MIRs  goal   paper"
        block(f"{title}{HEAD}", by_size(placements, asked.seeds, asked.limit))
    for title, schema, counts in (("ten", ten(), range(10, 101, 10)), ("a hundred", hundred(), range(10, 51, 10))):
        block(
            f"queries of three over {title} relations, no MIRs\n  drawn  different{HEAD}",
            sweep(schema, counts, asked.seeds),
        )


def by_size(placements: Placements, seeds: int, limit: float) -> Iterator[str]:
    """One line per number and size of queries, without and with intermediate results."""
    for (count, size), goals in GOALS.items():
        for intermediates, goal in zip((False, True), goals, strict=True):
            drawn = (draw(ten(), count, size, seed) for seed in range(1, seeds + 1))
            found = [measure(queries, intermediates, placements, limit) for queries in drawn]
            kind, paper = ("yes", PAPER[count, size]) if intermediates else ("no", "")
            yield f"{count:7} {size:10}  {kind:>4} {goal:5.2f} {paper:>7}{_line(found)}"


def sweep(schema: Mapping[str, frozenset[str]], counts: Iterable[int], seeds: int) -> Iterator[str]:
    """One line per number of queries drawn (C48, C49)."""
    for count in counts:
        found = [measure(draw(schema, count, 3, seed), intermediates=False) for seed in range(1, seeds + 1)]
        yield f"{count:7} {mean(f.queries for f in found):10.1f}{_line(found)}"


def _line(found: Sequence[Figures]) -> str:
    seconds = sorted(f.seconds for f in found)
    gap = max(f.solution.gap or 0.0 for f in found)
    variables = max(f.solution.variables for f in found)
    return f"{median(seconds):10.3f} {seconds[-1]:8.3f} {gap:7.2%} {variables:10,} {mean(f.ratio for f in found):6.3f}"


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
    began = time.process_time()
    solution = solve(posed(queries, intermediates, placements).problem, time_limit=limit)
    seconds = time.process_time() - began
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


if __name__ == "__main__":
    main()
