"""The integer program as CLASH prints it (002 section V): a variable for each *ordered* probe order and decoration.

    x   a probe order of a (query, start), every store decorated with one of its partitioning attributes; one is chosen
        per (query, start) (C21), and one per member of every intermediate result that a chosen order uses (C22, k = 1)
    y   a step: a decorated prefix; shared by all queries (C23, disaggregated as in G-I6, or aggregated as printed)
    z   a store lies by an attribute, if each store has one partitioning (K-11)

It says nothing about sets, lanes or flows: what it has in common with the code under test is the join graph.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product

import highspy

from weft.optimizer.graph.joingraph import JoinGraph, bits

Store = tuple[frozenset[str], frozenset[tuple[str, str, str]]]
"""Relations and the predicates between them."""
Order = tuple[tuple[int, str], ...]
"""Masks of stores with the attribute they lie by, the start first."""


def inside(graph: JoinGraph, mask: int) -> Store:
    names = frozenset(graph.names(mask))
    pairs = ((graph.relations[i], graph.relations[j]) for i, j, _ in graph.edges if mask >> i & 1 and mask >> j & 1)
    return names, frozenset((*sorted((r.name, s.name)), a) for r, s in pairs for a in r.attributes & s.attributes)


def intermediates(graph: JoinGraph) -> list[int]:
    """MIRs of a query: connected subsets, single relations among them."""
    return [mask for mask in range(1, graph.all + 1) if graph.is_connected(mask)]


def candidates(graph: JoinGraph, start: int, whole: int, stores: list[int]) -> Iterator[tuple[int, ...]]:
    """Algorithm 1: heads extended by every joinable store until all of `whole` is covered."""

    def extend(head: tuple[int, ...], covered: int) -> Iterator[tuple[int, ...]]:
        if covered == whole:
            yield head
        for store in stores:
            if not store & covered and not store & ~whole and store != whole and graph.is_joinable(covered, store):
                yield from extend((*head, store), covered | store)

    yield from extend((1 << start,), 1 << start)


@dataclass
class Paper:
    """The paper's program for some queries."""

    queries: Mapping[str, JoinGraph]
    mirs: bool
    one: bool
    parallelism: int
    aggregated: bool = False
    placed: bool = True
    """Whether stores are decorated at all."""
    places: dict[Store, set[str]] = field(default_factory=dict)
    x: dict[object, list[tuple[JoinGraph, Order]]] = field(default_factory=dict)
    """(query or MIR, start) -> its decorated orders."""

    def __post_init__(self) -> None:
        for graph in self.queries.values():
            for mask in intermediates(graph):
                common = graph.attributes(mask) & graph.attributes(graph.all & ~mask)
                self.places.setdefault(inside(graph, mask), set()).update(common)
        for name, graph in self.queries.items():
            self._add(name, graph, graph.all)
            for mask in intermediates(graph) if self.mirs else ():
                if (
                    mask.bit_count() > 1
                    and mask != graph.all
                    and (inside(graph, mask), _first(graph, mask)) not in self.x
                ):
                    self._add(inside(graph, mask), graph, mask)

    def _add(self, owner: object, graph: JoinGraph, whole: int) -> None:
        stores = [m for m in intermediates(graph) if self.mirs or m.bit_count() == 1]
        for start in bits(whole):
            orders = candidates(graph, start, whole, stores)
            found = [(graph, decorated) for order in orders for decorated in self._decorate(graph, order)]
            self.x[owner, graph.relations[start].name] = found

    def _decorate(self, graph: JoinGraph, order: tuple[int, ...]) -> Iterator[Order]:
        choices = [sorted(self.places[inside(graph, store)]) if self.placed else [""] for store in order[1:]]
        for chosen in product(*choices):
            yield ((order[0], ""), *zip(order[1:], chosen, strict=True))

    # ------------------------------------------------------------------------------------------------ steps

    def steps(self, graph: JoinGraph, order: Order) -> Iterator[tuple[object, float]]:
        """Each prefix of two or more stores, with what its last hop costs."""
        covered = order[0][0]
        for length in range(2, len(order) + 1):
            store, attribute = order[length - 1]
            known = not self.placed or attribute in graph.attributes(covered) & graph.attributes(store)
            cost = graph.size(covered) / covered.bit_count() * (1 if known else self.parallelism)
            covered |= store
            prefix = tuple((inside(graph, m)[0], a) for m, a in order[:length])
            yield (prefix, inside(graph, covered)), cost

    def counts(self) -> tuple[int, int]:
        """Variables x and y; equal orders of two queries are one."""
        orders = [[step for step, _ in self.steps(*order)] for orders in self.x.values() for order in orders]
        return len({steps[-1] for steps in orders}), len({step for steps in orders for step in steps})

    # ---------------------------------------------------------------------------------------------- solving

    def optimum(self) -> float:
        """The least cost."""
        h = highspy.Highs()
        h.setOptionValue("output_flag", False)
        h.setOptionValue("threads", 1)
        h.setOptionValue("mip_rel_gap", 0.0)
        y: dict[object, object] = {}
        prices: dict[object, float] = {}
        z = {(store, a): h.addBinary() for store, attributes in self.places.items() for a in attributes if self.one}
        variables = {key: [h.addBinary() for _ in orders] for key, orders in self.x.items()}
        for key, orders in self.x.items():
            if isinstance(key[0], str):
                h.addConstr(h.qsum(variables[key]) == 1)
            for x, (graph, order) in zip(variables[key], orders, strict=True):
                steps = list(self.steps(graph, order))
                for step, cost in steps:
                    y.setdefault(step, h.addBinary())
                    prices[step] = cost
                if self.aggregated:
                    total = math.fsum(cost for _, cost in steps)
                    h.addConstr(h.qsum([cost * y[step] for step, cost in steps]) >= total * x)
                else:
                    for step, _ in steps:
                        h.addConstr(x <= y[step])
                for store, attribute in order[1:]:
                    if self.one:
                        h.addConstr(x <= z[inside(graph, store), attribute])
                    for member in bits(store) if store.bit_count() > 1 else ():
                        filled = variables[inside(graph, store), graph.relations[member].name]
                        h.addConstr(h.qsum(filled) >= x)
        for store, attributes in self.places.items():
            if self.one and attributes:
                h.addConstr(h.qsum([z[store, a] for a in attributes]) <= 1)
        h.minimize(h.qsum([prices[step] * variable for step, variable in y.items()]))
        return h.getObjectiveValue()


def _first(graph: JoinGraph, mask: int) -> str:
    return graph.relations[bits(mask)[0]].name
