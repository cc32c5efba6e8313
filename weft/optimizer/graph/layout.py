"""A layout: the decisions of a plan for one query, before they are worked out into stores, probes and waves.

    tree        which joins are kept: every inner operator of the tree is an intermediate store
    placement   store -> expressions whose values decide the worker of a row; none means any worker
    orders      store -> its siblings in the order its new tuples meet them; a missing one is chosen later, by rules
    tasks       store -> on how many workers it lies; all workers if missing
    spread      alias -> the workers that get copies of a row; given for every alias or none; all probes are then local
    lines       (what is made, alias) -> the stores that new tuples of the alias meet, each with where its rows lie
    ranges      expressions that inequalities limit and that are indexed together, those that exclude most first

What is made is the result or a kept join.  Where lines are given they say everything: every alias has an order of its
own over any stores, a store may lie in several places, and kept joins may overlap.  The tree is then the flat one, and
`placement` and `orders` are empty.

Stores are sets of aliases as bitmasks, bit i for the i-th alias of the query, as in the join graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from weft.expr.model import Expr
from weft.optimizer.graph.joingraph import bits
from weft.optimizer.graph.tree import Tree
from weft.query.model import Query
from weft.topology.spread import Spread

Home = tuple[Expr, ...]
"""Expressions whose values name the worker of a row; none means any worker."""
Placement = Mapping[int, Home]
Target = tuple[int, Home]
"""A store in a place."""


@dataclass(frozen=True, slots=True)
class Layout:
    """One way to answer a query."""

    tree: Tree
    placement: Placement = field(default_factory=dict)
    orders: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    tasks: Mapping[int, int] = field(default_factory=dict)
    spread: Mapping[int, Spread] = field(default_factory=dict)
    lines: Mapping[tuple[int, int], tuple[Target, ...]] = field(default_factory=dict)
    ranges: tuple[Expr, ...] = ()

    @property
    def stores(self) -> tuple[int, ...]:
        """The relations of all stores, inputs before what is made of them."""
        if not self.lines:
            return tuple(store.relations for store in self.tree.stores)
        return tuple(sorted({store for store, _ in self._targets()}, key=lambda store: (store.bit_count(), store)))

    @property
    def kept(self) -> tuple[int, ...]:
        """The joins that are kept."""
        return tuple(store for store in self.stores if store.bit_count() > 1)

    def homes(self, store: int) -> tuple[Home, ...]:
        """The places where rows of a store lie."""
        if not self.lines:
            return (self.placement.get(store, ()),)
        return tuple(dict.fromkeys(home for mine, home in self._targets() if mine == store))

    def _targets(self) -> Iterator[Target]:
        return (target for line in self.lines.values() for target in line)


def names(query: Query, store: int) -> tuple[str, ...]:
    """The aliases of a store in query order."""
    return tuple(query.aliases[i] for i in bits(store))


def mask(query: Query, aliases: Sequence[str] | frozenset[str]) -> int:
    """The store over some aliases."""
    return sum(1 << query.position(alias) for alias in set(aliases))
