"""Cubes for a query: from predicates and statistics to where rows are copied.

The cube sees relations, sizes and classes of equal expressions; the spreads that come out of it name the expressions
whose values are hashed.  One expression stands for an alias in each class: results have equal values in all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from weft.errors import PlanError
from weft.expr.model import Expr, aliases, columns
from weft.optimizer.cost.estimate import classes
from weft.optimizer.cost.prices import Prices
from weft.optimizer.cubes.cube import Hypercube, JoinKeys, Occurrence, Skews, random_cube
from weft.optimizer.cubes.search import choose_cube, hash_scheme
from weft.optimizer.cubes.skew import Skew
from weft.optimizer.cubes.twoway import cont_rand
from weft.optimizer.graph.joingraph import JoinGraph
from weft.query.model import Query
from weft.stats.keys import key_names, same_column
from weft.stats.model import Statistics
from weft.topology import spread as topology

SCHEMES = ("hash", "random", "hybrid")


def weight(prices: Prices) -> float:
    """How much the average load counts beside the largest: of equally even plans the one that sends less (K-25, D52).

    Half of the price of sending falls on the senders, who share it evenly.  The other half, storing and probing fall on
    the receiver.
    """
    away, there = prices.sent / 2, prices.sent / 2 + prices.stored + prices.probed
    return away / there


@dataclass(frozen=True, slots=True)
class CubePlan:
    """A cube, and what it means for each alias."""

    scheme: str
    cube: Hypercube
    skews: Skews
    spread: Mapping[int, topology.Spread]

    @property
    def skew_degree(self) -> float:
        """Ratio of the largest to the average load of a worker, as estimated."""
        return self.cube.skew_degree(self.skews)


class CubeKeys:
    """What cubes of a query are made from."""

    def __init__(
        self,
        query: Query,
        graph: JoinGraph,
        statistics: Statistics | None,
        skewed: Mapping[str, bool] | None = None,
        prices: Prices | None = None,
    ) -> None:
        self.query, self.weight = query, weight(prices or Prices())
        self.exprs: dict[Occurrence, Expr] = {}
        members: dict[str, list[Occurrence]] = {}
        for expr, name in classes(query).items():
            occurrence = Occurrence(min(aliases(expr)), name)
            if len(aliases(expr)) == 1 and occurrence not in self.exprs:
                self.exprs[occurrence] = expr
                members.setdefault(name, []).append(occurrence)
        sizes = tuple((base.name, base.size) for base in graph.relations)
        found = tuple((name, tuple(owners)) for name, owners in members.items() if len(owners) > 1)
        self.keys = JoinKeys(sizes, found)
        self.skews = {o: skew(query, self.exprs[o], statistics, skewed) for o in self.keys.occurrences}

    def plan(self, strategy: str, workers: int) -> CubePlan:
        """The cube of a strategy over at most so many workers."""
        scheme = strategy.partition(":")[2]
        if scheme == "hash":
            cube = hash_scheme(self.keys, workers, self.skews)
        elif scheme == "random":
            cube = random_cube(self.keys, workers)
        elif scheme == "hybrid":
            cube = _best_cube(self.keys, workers, tuple(self.skews.items()), self.weight)
        elif len(self.query.relations) != 2:
            raise PlanError(
                f'strategy "{strategy}" joins two aliases, the query has {len(self.query.relations)}',
                hint=f"for any number use one of: {', '.join(f'hypercube:{s}' for s in SCHEMES)}.",
            )
        else:
            cube = (
                random_cube(self.keys, workers)
                if scheme == "1-bucket"
                else cont_rand(self.keys, workers, skews=self.skews)
            )
        spread = {1 << i: project(cube, alias, self.exprs) for i, alias in enumerate(self.query.aliases)}
        return CubePlan(scheme, cube, self.skews, spread)


@lru_cache(maxsize=64)
def _best_cube(keys: JoinKeys, workers: int, skews: tuple[tuple[Occurrence, Skew], ...], weight: float) -> Hypercube:
    """The best cube; queries of one session, and a session that is planned again, often ask for the same."""
    return choose_cube(keys, workers, dict(skews), weight=weight)[0].cube


def project(cube: Hypercube, relation: str, exprs: Mapping[Occurrence, Expr]) -> topology.Cube:
    """The cube as the rows of one relation see it; axes of length 1 are none."""
    axes = []
    for axis in (axis for axis in cube.axes if axis.size > 1):
        mine = axis.key(relation)
        if mine is None:
            axes.append(topology.Axis(axis.size, "copy"))
        elif axis.kind == "random":
            axes.append(topology.Axis(axis.size, "random"))
        else:
            heavy = tuple(
                topology.Heavy(h.code, tuple(n for _, n in h.sides), [r for r, _ in h.sides].index(relation))
                for h in axis.heavy
            )
            axes.append(topology.Axis(axis.size, "hash", exprs[mine], axis.domain, heavy))
    return topology.Cube(tuple(axes))


def skew(query: Query, expr: Expr, statistics: Statistics | None, skewed: Mapping[str, bool] | None = None) -> Skew:
    """What statistics, and before them the user, say about the values of a key."""
    reads = {column.field for column in columns(expr)}
    said = (skewed or {}).get(min(reads)) if len(reads) == 1 else None
    if said is False:
        return Skew(skewed=False)
    if statistics is None or len(aliases(expr)) != 1:
        return Skew(skewed=said)
    relation, column = query.relation(min(aliases(expr))), same_column(expr)
    if column is not None and relation.stream.unique == (column.name,):
        return Skew(unique=True)
    names = [(owner, name) for owner in (relation.alias, relation.stream.name) for name in key_names(expr)]
    tops = next((tops for name in names if (tops := statistics.heavy(*name)) is not None), ())
    distinct = next((count for name in names if (count := statistics.distinct(*name))), None)
    total = sum(share for _, share in tops)
    shares = tuple(share / max(1.0, total) for _, share in tops)
    values = None if distinct is None else max(1.0, distinct, len(tops))
    return Skew(shares, tuple(code for code, _ in tops), values, skewed=said)
