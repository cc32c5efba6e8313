"""What a whole topology costs: every store, edge and node once, however many queries use it.

A query's model says how many tuples come to each node on its ways, as in `optimizer.bill`.  Where several queries share
a node, their models may differ a little; the largest number counts.  What a query would need alone is the sum over all
that it uses; what sharing saves is the sum of these less the whole.

What must hold: a topology of one query costs what `optimizer.bill` says of its plan.  Counts of different queries are
added, so they are for the same span: the whole history, or a second where all queries are counted by the second.
Counts of a query by the second are multiplied by the seconds of the history where others are not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from weft.expr.model import Column, Expr, transform
from weft.optimizer.bill import count_copies
from weft.optimizer.choose import Choice
from weft.optimizer.cost.prices import Prices
from weft.topology.model import Topology
from weft.topology.node import Emit, Keep, Node, Probe


class Flow(NamedTuple):
    """Tuples that come to a node, copies counted, and what it makes of them."""

    tuples: float
    found: float


@dataclass(frozen=True, slots=True)
class Amount:
    """What some parts of a topology do."""

    stored: float = 0.0
    """Rows that stores hold, copies counted."""
    probed: float = 0.0
    """Tuples that look into stores, copies counted."""
    sent: float = 0.0
    """Tuples through the exchange, copies counted."""
    work: float = 0.0
    """Seconds of all workers together."""
    fullest: float = 0.0
    """Seconds of a worker that is the fullest in everything, times the number of workers."""

    def __add__(self, other: Amount) -> Amount:
        return Amount(
            self.stored + other.stored,
            self.probed + other.probed,
            self.sent + other.sent,
            self.work + other.work,
            self.fullest + other.fullest,
        )

    def largest(self, other: Amount) -> Amount:
        """The larger one in everything."""
        return Amount(
            max(self.stored, other.stored),
            max(self.probed, other.probed),
            max(self.sent, other.sent),
            max(self.work, other.work),
            max(self.fullest, other.fullest),
        )


@dataclass(frozen=True, slots=True)
class WholeBill:
    """What a topology is expected to do and to cost."""

    parts: Mapping[str, Amount]
    """Store, edge or node -> what it does, for all queries together."""
    alone: Mapping[str, Amount]
    """Query -> all that it uses, as if nobody shared it."""
    flows: Mapping[tuple[str, str], Flow]
    """(Query, node) -> tuples of the query."""
    users: Mapping[str, tuple[str, ...]]
    """Store, edge or node -> the queries that use it."""
    total: Amount
    waves: int
    seconds: float
    """Wall time, waves included."""

    @property
    def apart(self) -> Amount:
        """All queries with the same plans and nothing shared."""
        return sum(self.alone.values(), Amount())

    def shared(self, query: str) -> Amount:
        """What a query uses together with others."""
        mine = (part for name, part in self.parts.items() if query in self.users[name] and len(self.users[name]) > 1)
        return sum(mine, Amount())


def whole_bill(topology: Topology, choices: Sequence[Choice], prices: Prices | None = None) -> WholeBill:
    """The bill of a topology that was made of these choices; at the prices of their host if no others are given."""
    prices = prices or (choices[0].known.prices if choices else Prices())
    span = Span(choices)
    counts = [_Count(topology, choice, prices, span.factor(choice)) for choice in choices]
    for count in counts:
        count.walk()
    parts: dict[str, Amount] = {}
    users: dict[str, list[str]] = {}
    for count in counts:
        for name, amount in count.parts.items():
            parts[name] = parts.get(name, Amount()).largest(amount)
            users.setdefault(name, []).append(count.choice.name)
    total = sum(parts.values(), Amount())
    skew = max(1.0, total.fullest / total.work) if total.work else 1.0
    return WholeBill(
        parts,
        {count.choice.name: sum(count.parts.values(), Amount()) for count in counts},
        {(count.choice.name, node): flow for count in counts for node, flow in count.flows.items()},
        {name: tuple(found) for name, found in users.items()},
        total,
        topology.waves,
        total.work * skew / topology.workers + topology.waves * prices.wave * span.batches(),
    )


class Span:
    """What counts of several queries have in common."""

    def __init__(self, choices: Sequence[Choice]) -> None:
        self.choices = choices
        self.by_second = all(choice.model.arrival == "window" for choice in choices)

    def factor(self, choice: Choice) -> float:
        """What the counts of a query are multiplied by."""
        if self.by_second or choice.model.arrival != "window":
            return 1.0
        known = choice.known.statistics
        ages = [
            rows / rate
            for r in choice.query.relations
            if known is not None and (rows := known.rows(r.stream.name)) and (rate := known.rate(r.stream.name))
        ]
        return max(ages, default=1.0)

    def batches(self) -> float:
        """Micro-batches in the span; a second is taken as one batch."""
        if self.by_second:
            return 1.0
        rows: dict[str, float] = {}
        for choice in self.choices:
            for i, relation in enumerate(choice.query.relations):
                came = choice.model.count_started(1 << i, 1 << i) * self.factor(choice)
                rows[relation.stream.name] = max(came, rows.get(relation.stream.name, 0.0))
        most = max((choice.known.batch_rows for choice in self.choices), default=1.0)
        return max(1.0, math.fsum(rows.values()) / most)


@dataclass
class _Count:
    """Follows the tuples of one query through a topology."""

    topology: Topology
    choice: Choice
    prices: Prices
    factor: float
    parts: dict[str, Amount] = field(default_factory=dict)
    flows: dict[str, Flow] = field(default_factory=dict)

    def __post_init__(self) -> None:
        query = self.choice.query
        self.name, self.model, self.chosen = self.choice.name, self.choice.model, self.choice.chosen
        self.called = self.topology.aliases_of(self.name)
        self.mask = {label: 1 << query.position(alias) for label, alias in self.called.items()}
        self.stores = {store.id: store for store in self.topology.stores}
        self.asking = self.choice.maker.asking

    def walk(self) -> None:
        """All that the query uses."""
        for starts in self.topology.all_starts_of(self.name).values():
            for start in starts:
                first = self.mask[start.label]
                self._follow(start.then, first, first, 1, self._busy((), self.topology.workers))
        for label, relation in self.mask.items():
            self._inputs(label, relation)

    # ------------------------------------------------------------------------------------------- inputs

    def _inputs(self, label: str, relation: int) -> None:
        """Rows of a relation are sent once along each edge, and stored in each of its stores."""
        rows = self._count(relation, relation)
        user = f"{self.name}.{self.called[label]}"
        mine = [store.id for store in self.topology.stores if not store.members and user in store.users]
        begun = {start.id for start in self.topology.all_starts_of(self.name).get(self.called[label], ())}
        for edge in self.topology.edges:
            if not begun.isdisjoint(edge.starts) or not set(mine).isdisjoint(edge.stores):
                copies = edge.tasks if edge.route == "broadcast" else 1
                busy = self._busy(self._alias(edge.route_key, label), edge.tasks, spread=edge.spread is not None)
                self._add(edge.id, sent=rows * copies if self.topology.workers > 1 else 0.0, busy=busy)
        for name in mine:
            store = self.stores[name]
            busy = self._busy(self._alias(store.placement, label), store.tasks, spread=store.spread is not None)
            self._add(name, stored=self._held(relation), put=rows, busy=busy)

    # --------------------------------------------------------------------------------------------- ways

    def _follow(
        self, following: Sequence[str], first: int, covered: int, wave: int, busy: float, wanted: float = 1.0
    ) -> None:
        """`wanted` is the share of tuples that subscriptions have left so far."""
        tuples = self._count(first, covered) * wanted
        begins = first == covered
        for node in self._mine(following):
            if isinstance(node, Emit):
                self._search(node, first, tuples, busy)
                continue
            busy_here = busy if node.route == "local" else self._busy(self._name(node.route_key), node.tasks)
            if isinstance(node, Keep):
                self._keep(node, covered, tuples, busy_here)
                continue
            share = self._question(node, covered, tuples, wanted, busy_here)
            asked = self._count(first, covered) * share
            copies = node.tasks if node.route == "broadcast" else 1
            travels = node.route != "local" and not begins  # the edge takes tuples to their first probe
            waits = node.wave - wave - travels
            after = covered | sum(self.mask[label] for label in node.members)
            found = self._count(first, after) * share
            sent = (tuples if begins else asked) * copies * (travels + waits)
            self._probe(node, asked * copies, found, sent, busy_here)
            self._follow(node.then, first, after, node.wave, busy_here, share)

    def _mine(self, following: Sequence[str]) -> Iterator[Probe | Keep | Emit]:
        for name in following:
            node: Node = self.topology.nodes[name]
            if self.name in ((node.query,) if isinstance(node, Emit) else node.users):
                yield node

    def _question(self, probe: Probe, covered: int, tuples: float, wanted: float, busy: float) -> float:
        """The share of tuples that a subscription may want, if they ask before a probe."""
        if probe.sieve is None or self.asking is None:
            return wanted
        self._add(f"{probe.id}?", work=tuples * self.asking.question(covered, self.prices), busy=busy)
        return self.asking.reach(covered)

    def _search(self, emit: Emit, first: int, tuples: float, busy: float) -> None:
        """Joined tuples look up their subscriptions."""
        if emit.matching is not None and self.asking is not None:
            results = tuples / max(1.0, self._count(first, first))
            each = self.asking.search(self.prices, results, first, shared=emit.matching.shared)
            self._add(f"{emit.id} of {first}", work=tuples * each, busy=busy)

    def _probe(self, probe: Probe, tuples: float, found: float, sent: float, busy: float) -> None:
        store = self.stores[probe.store]
        key = store.indexes[probe.index]
        indexed = bool(key.equal) or key.range is not None
        size = self._held(sum(self.mask[label] for label in probe.members))
        pairs = found if indexed else tuples * size / probe.tasks
        checked = pairs if probe.residual or not indexed else 0.0
        self._add(probe.id, probed=tuples, found=found, checked=checked, sent=sent, busy=busy)
        self.flows[probe.id] = Flow(tuples / self.factor, found / self.factor)

    def _keep(self, keep: Keep, covered: int, tuples: float, busy: float) -> None:
        home = self.stores[keep.store].placement
        self._add(
            keep.id, put=tuples, sent=tuples if keep.route != "local" else 0.0,
            busy=self._busy(self._name(home), keep.tasks) if home else busy,
        )  # fmt: skip
        self._add(keep.store, stored=self._held(covered))
        self.flows[keep.id] = Flow(tuples / self.factor, tuples / self.factor)

    # ------------------------------------------------------------------------------------------ amounts

    def _add(
        self,
        name: str,
        *,
        stored: float = 0.0,
        probed: float = 0.0,
        found: float = 0.0,
        checked: float = 0.0,
        sent: float = 0.0,
        put: float = 0.0,
        work: float = 0.0,
        busy: float = 1.0,
    ) -> None:
        p = self.prices
        work += probed * p.probed + found * p.matched + checked * p.checked + sent * p.sent + put * p.stored
        mine = Amount(stored, probed, sent, work, work * busy)
        self.parts[name] = self.parts.get(name, Amount()).largest(mine)

    def _count(self, first: int, covered: int) -> float:
        return self.model.count_started(first, covered) * self._copies(covered) * self.factor

    def _held(self, covered: int) -> float:
        return self.model.held(covered) * self._copies(covered)

    def _copies(self, covered: int) -> float:
        return count_copies(self.chosen.layout, covered, self.chosen.ranges)

    def _busy(self, key: tuple[Expr, ...], tasks: int, *, spread: bool = False) -> float:
        """How much fuller than the average the fullest worker is."""
        if spread or self.chosen.layout.spread:
            return self.chosen.imbalance((), self.topology.workers)
        return self.chosen.imbalance(key, tasks) if key else self.topology.workers / tasks

    def _name(self, key: Sequence[Expr]) -> tuple[Expr, ...]:
        """A key over labels as the query writes it."""

        def rename(node: Expr) -> Expr:
            return Column(self.called[node.alias], node.name, node.type) if isinstance(node, Column) else node

        return tuple(transform(expr, rename) for expr in key)

    def _alias(self, key: Sequence[Expr], label: str) -> tuple[Expr, ...]:
        """A key over the columns of a stream as the query writes it."""

        def rename(node: Expr) -> Expr:
            return Column(self.called[label], node.name, node.type) if isinstance(node, Column) else node

        return tuple(transform(expr, rename) for expr in key)
