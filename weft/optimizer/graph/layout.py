"""A layout: the decisions of a plan for one query, before they are worked out into stores, probes and waves.

    tree        which joins are kept: every inner operator of the tree is an intermediate store
    placement   store -> expressions whose values decide the worker of a row; none means any worker
    orders      store -> its siblings in the order its new tuples meet them; a missing one is chosen later, by rules
    tasks       store -> on how many workers it lies; all workers if missing
    spread      alias -> the workers that get copies of a row; given for every alias or none; all probes are then local

Stores are sets of aliases as bitmasks, bit i for the i-th alias of the query, as in the join graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from weft.expr.model import Expr
from weft.optimizer.graph.joingraph import bits
from weft.optimizer.graph.tree import Tree
from weft.query.model import Query
from weft.topology.spread import Spread

Placement = Mapping[int, tuple[Expr, ...]]


@dataclass(frozen=True, slots=True)
class Layout:
    """One way to answer a query."""

    tree: Tree
    placement: Placement = field(default_factory=dict)
    orders: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    tasks: Mapping[int, int] = field(default_factory=dict)
    spread: Mapping[int, Spread] = field(default_factory=dict)


def names(query: Query, store: int) -> tuple[str, ...]:
    """The aliases of a store in query order."""
    return tuple(query.aliases[i] for i in bits(store))


def mask(query: Query, aliases: Sequence[str] | frozenset[str]) -> int:
    """The store over some aliases."""
    return sum(1 << query.position(alias) for alias in set(aliases))
