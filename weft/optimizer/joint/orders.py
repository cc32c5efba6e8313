"""Probe orders of many queries, and the probe trees they form (CLASH, 002 section V.B).

Orders that start with the same relation and meet the same stores by the same predicates are one until they part.
So the orders of a relation are a tree: its root is the source, every edge is a probe that is done once, and at a branch
the results are copied to each edge.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

Predicate = tuple[str, str, str]
"""(R, a, S): R and S are joined by equality of a."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A probe of a store."""

    store: tuple[str, ...]
    """The relations whose join it keeps."""
    placed_by: str | None = None
    """The attribute that says where its rows lie; None: nothing does."""
    predicates: frozenset[Predicate] = frozenset()
    """What is checked between the tuples sent and the store's rows."""

    @property
    def label(self) -> str:
        """The store as the paper writes it: S[d]."""
        return "".join(self.store) + ("" if self.placed_by is None else f"[{self.placed_by}]")


@dataclass(frozen=True, slots=True)
class ProbeOrder:
    """What tuples of a relation do for a query, or to fill a store."""

    serves: str
    """The query, or the store."""
    start: str
    probes: tuple[Probe, ...]

    def __str__(self) -> str:
        return f"< {', '.join([self.start, *(probe.label for probe in self.probes)])} >"


@dataclass(frozen=True, slots=True)
class Edge:
    """A probe that is done once, for all orders that go through it."""

    label: str
    tail: str
    """The store, or the source, that it leaves."""
    probe: Probe
    after: str | None
    """The edge before it; None: it leaves the source."""


@dataclass(frozen=True, slots=True)
class ProbeTree:
    """All that tuples of a relation do."""

    root: str
    edges: tuple[Edge, ...]

    @property
    def stores(self) -> frozenset[str]:
        """The stores it probes."""
        return frozenset(edge.probe.label for edge in self.edges)

    def next(self, label: str | None) -> tuple[str, ...]:
        """Edges to which tuples are copied after an edge; None: when they arrive."""
        return tuple(edge.label for edge in self.edges if edge.after == label)


def probe_trees(orders: Iterable[ProbeOrder]) -> tuple[ProbeTree, ...]:
    """A tree for each relation that starts an order; labels of edges are unique over all of them."""
    prefixes: dict[str, dict[tuple[Probe, ...], None]] = {}
    for order in orders:
        found = prefixes.setdefault(order.start, {})
        found.update(dict.fromkeys(order.probes[: i + 1] for i in range(len(order.probes))))
    trees, labels = [], 0
    for root, found in prefixes.items():
        named: dict[tuple[Probe, ...], str] = {}
        for prefix in sorted(found, key=len):
            labels += 1
            named[prefix] = f"s{labels}"
        edges = (
            Edge(label, prefix[-2].label if len(prefix) > 1 else root, prefix[-1], named.get(prefix[:-1]))
            for prefix, label in named.items()
        )
        trees.append(ProbeTree(root, tuple(edges)))
    return tuple(trees)
