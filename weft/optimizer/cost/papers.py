"""What a plan costs in tuples: sent (PCost) and stored (SCost).

Papers: MultiStream (000) section IV, the workshop version (001) section 4.1, CLASH (002) section IV.

    sigma_i       probe order of input i: the stores met by a tuple of R_sigma(1), in order
    chi           targets of a sent tuple: 1 if it carries all partitioning attributes of the target store, else N
    PCost(O)      sum over i, over j = 1..n-1, of  abs(R_sigma(1) .. R_sigma(j)) * arrival * chi_sigma(j+1)
    PCost(T)      sum of PCost(O) over all operators of the tree, the root among them (000 Eq. 4)
    SCost(T)      sum of abs(R_i) plus abs(O) of all operators but the root (000 Eq. 3)

The arrival factor is the share of a join's results that the first input of the order starts, as its newest:

    history   m / j, where j counts *base* relations covered so far and m those of the first input; tables, which are
              there before all streams, are left out.  A base relation starts 1/j (002 Eq. 1; 000 Eq. 2 prints 1/j
              where 1/(j-1) is meant, and chains the factors in the text).
              A new row of an intermediate store starts whenever any of its members is the newest; so each of its
              tuples is sent exactly once in the first hop.
    window    tuples per second in the steady state of time windows: the first input counts with its rate, all others
              with what their windows hold.  Exact if arrivals are independent.
    none      1: every order is charged the whole join (001 Eq. 1).

What must hold: a hop's cost depends on the first input, the *set* covered and the target, never on the order within
that set.  The exact search over orders relies on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import or_
from typing import Literal

from weft.errors import PlanError
from weft.optimizer.graph.joingraph import JoinGraph, bits
from weft.optimizer.graph.tree import Tree

Groups = Callable[[int], float]
"""Relations -> how many different tuples over them there are, at most."""

Arrival = Literal["history", "window", "none"]
"""How results are divided among the orders that may start them."""

BudgetUnit = Literal["tuples", "bytes"]
"""What a storage budget counts."""


@dataclass(frozen=True, slots=True)
class Order:
    """A probe order sigma_i with what it sends."""

    stores: tuple[Tree, ...]
    """The starting input, then the stores in the order they are probed."""
    sent: tuple[float, ...]
    """Tuples sent in each hop, copies counted."""

    @property
    def cost(self) -> float:
        """All tuples sent."""
        return math.fsum(self.sent)


Strategy = Callable[["CostModel", tuple[Tree, ...]], Sequence[Order]]
"""Chooses a probe order for each child of an operator."""


@dataclass(frozen=True, slots=True)
class CostModel:
    """Prices plans over one join graph."""

    graph: JoinGraph
    arrival: Arrival = "history"
    capacity: float | None = None
    """Tuples a task can hold; N = ceil(size / capacity) where the graph does not say N."""
    parallelism: int = 1
    """N where neither the graph nor a capacity decides it."""
    unit: BudgetUnit = "tuples"
    """What SCost counts."""
    placement: Mapping[int, tuple[str, ...]] | None = None
    """Store -> partitioning attributes; None leaves them to the graph and the tree."""
    tasks_of: Mapping[int, int] | None = None
    """Store -> N; overrides all else."""
    groups: Groups | None = None
    """How many different tuples over some relations there are, for queries that add equal ones up."""
    batches: float = 1.0
    """Micro-batches in the history: in each of them equal tuples are one."""

    def __post_init__(self) -> None:
        if self.arrival not in ("history", "window", "none"):
            raise PlanError(f'unknown arrival factor "{self.arrival}"', hint='use "history", "window" or "none".')
        if self.capacity is not None and not self.capacity > 0:
            raise PlanError(f"task capacity is {self.capacity!r}", hint="a task holds at least one tuple.")
        if self.parallelism < 1:
            raise PlanError(f"parallelism is {self.parallelism}", hint="a store has at least one task.")

    # ---------------------------------------------------------------------------------------- stores

    def N(self, store: Tree) -> int:  # noqa: N802
        """Tasks of a store."""
        if self.tasks_of is not None and store.relations in self.tasks_of:
            return self.tasks_of[store.relations]
        given = None if store.children else self.graph.relations[store.relations.bit_length() - 1].parallelism
        if given is not None:
            return given
        return self.parallelism if self.capacity is None else tasks_for(self.graph.size(store.relations), self.capacity)

    def chi(self, store: Tree, sent: int) -> int:
        """Tasks of `store` that must see a tuple over the relations in `sent`."""
        key = self._placement(store) if self.placement is None else self.placement.get(store.relations, ())
        return 1 if key and self.graph.attributes(sent).issuperset(key) else self.N(store)

    def _placement(self, store: Tree) -> tuple[str, ...]:
        return (
            store.partitioning
            if store.children
            else self.graph.relations[store.relations.bit_length() - 1].partitioning
        )

    # ------------------------------------------------------------------------------------------ hops

    def count_started(self, start: int, covered: int) -> float:
        """Tuples over `covered` that begin with a new tuple of `start`: size of the join times the arrival factor."""
        size = self.graph.size(covered)
        if self.arrival == "history":
            newest = covered & ~self.graph.tables or covered
            made = size * (start & newest).bit_count() / newest.bit_count()
            return made if self.groups is None or start == covered else min(made, self.batches * self.groups(covered))
        if self.arrival == "window":
            return math.fsum(self._per_second(i, covered) for i in bits(start))
        return size

    def _per_second(self, newest: int, covered: int) -> float:
        """rate_i * prod(size_k * f): results over `covered` whose newest tuple is of relation i."""
        base = self.graph.relations[newest]
        if base.rate is None:
            raise PlanError(
                f'the rate of "{base.name}" is unknown',
                detail='the cost model "window" counts tuples per second.',
                hint=f'give it: Statistics(rates={{"{base.name}": ...}}), or use the model "history".',
            )
        return self.graph.size(covered) / base.size * base.rate if base.size else 0.0

    def hop(self, start: int, covered: int, target: Tree) -> float:
        """Tuples sent to `target` by orders that began with `start` and have covered `covered`."""
        return self.count_started(start, covered) * self.chi(target, covered)

    def order(self, stores: Sequence[Tree]) -> Order:
        """The probe order with its price."""
        hops = zip(_prefixes(stores), stores[1:], strict=False)
        return Order(tuple(stores), tuple(self.hop(stores[0].relations, mask, target) for mask, target in hops))

    # ----------------------------------------------------------------------------------------- plans

    def pcost(self, tree: Tree, strategy: Strategy) -> float:
        """PCost(T), with the probe orders that the strategy chooses for every operator."""
        return math.fsum(order.cost for operator in tree.operators for order in strategy(self, operator.children))

    def scost(self, tree: Tree) -> float:
        """SCost(T)."""
        return round_off(math.fsum(self.storage(store.relations) for store in tree.stores))

    def storage(self, relations: int) -> float:
        """What the join of some relations takes, in the unit of budgets."""
        if self.unit == "bytes":
            return self.graph.bytes(relations) * self.held(relations) / (self.graph.size(relations) or 1.0)
        return self.held(relations)

    def held(self, relations: int) -> float:
        """Rows that a store of some relations has."""
        kept = self.graph.size(relations)
        return kept if self.groups is None or relations.bit_count() == 1 else min(kept, self.groups(relations))

    def tasks(self, tree: Tree) -> int:
        """Tasks of all stores together."""
        return sum(self.N(store) for store in tree.stores)


def tasks_for(size: float, capacity: float) -> int:
    """ceil(size / capacity), and at least one."""
    return max(1, math.ceil(round_off(size / capacity)))


def round_off(number: float) -> float:
    """Rounded to twelve digits, so that numbers that differ only by the order of multiplication are equal."""
    return float(f"{number:.12g}")


def _prefixes(stores: Sequence[Tree]) -> list[int]:
    return list(accumulate((store.relations for store in stores), or_))
