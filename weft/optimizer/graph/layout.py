"""A layout: the decisions of a plan for one query, before they are worked out into stores, probes and waves.

    tree        which joins are kept: every inner operator of the tree is an intermediate store
    placement   store -> expressions whose values decide the worker of a row; none means any worker
    orders      store -> its siblings in the order its new tuples meet them; a missing one is chosen later, by rules
    tasks       store -> on how many workers it lies; all workers if missing
    spread      alias -> the workers that get copies of a row; given for every alias or none; all probes are then local
    lines       (what is made, alias) -> the stores that new tuples of the alias meet, each with where its rows lie
    ranges      expressions that inequalities limit and that are indexed together, those that exclude most first
    subscriptions   what comes first where there are any: asking them ("narrow"), or the join; None leaves it open
    asked       sets of aliases whose tuples ask subscriptions before they go on, under "narrow"; None means all

What is made is the result or a kept join.  Where lines are given they say everything: every alias has an order of its
own over any stores, a store may lie in several places, and kept joins may overlap.  The tree is then the flat one, and
`placement` and `orders` are empty.  Lines may run in a spread, too: then every store lies where its members meet.

Stores are sets of aliases as bitmasks, bit i for the i-th alias of the query, as in the join graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from weft.expr.model import Expr
from weft.optimizer.graph.joingraph import bits
from weft.optimizer.graph.tree import Tree
from weft.query.model import Query
from weft.query.parameters import Order
from weft.topology.spread import Spread

Home = tuple[Expr, ...]
"""Expressions whose values name the worker of a row; none means any worker."""
Placement = Mapping[int, Home]
Target = tuple[int, Home]
"""A store in a place."""
Lines = Mapping[tuple[int, int], tuple[Target, ...]]
"""(What is made, the alias that starts) -> the stores that its new tuples meet, in order."""


@dataclass(frozen=True, slots=True)
class Layout:
    """One way to answer a query."""

    tree: Tree
    placement: Placement = field(default_factory=dict)
    orders: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    tasks: Mapping[int, int] = field(default_factory=dict)
    spread: Mapping[int, Spread] = field(default_factory=dict)
    lines: Lines = field(default_factory=dict)
    ranges: tuple[Expr, ...] = ()
    subscriptions: Order | None = None
    asked: tuple[int, ...] | None = None

    def asks(self, covered: int) -> bool:
        """Whether tuples over some aliases ask subscriptions before they go on."""
        return self.subscriptions == "narrow" and (self.asked is None or covered in self.asked)

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
        return (target for _, targets in sorted(self.lines.items(), key=_by_goal) for target in targets)


def _by_goal(line: tuple[tuple[int, int], tuple[Target, ...]]) -> tuple[int, int]:
    """An order of lines that does not depend on how they came."""
    return line[0]


def names(query: Query, store: int) -> tuple[str, ...]:
    """The aliases of a store in query order."""
    return tuple(query.aliases[i] for i in bits(store))


def mask(query: Query, aliases: Sequence[str] | frozenset[str]) -> int:
    """The store over some aliases."""
    return sum(1 << query.position(alias) for alias in set(aliases))
