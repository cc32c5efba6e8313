"""A plan that may be chosen: a tree or lines with stores placed, probe orders, and what all that costs on the host.

What must hold: a candidate is a function of the problem, its tree or lines, and where its rows lie.  What was written
by hand stays as it is.  Where anything is known of the data, orders in a tree are those that send the fewest tuples for
the placement.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from weft.errors import PlanError
from weft.expr.model import Expr
from weft.expr.render import to_sql
from weft.optimizer.bill import Bill, Imbalance, bill
from weft.optimizer.cost.asking import find_asking
from weft.optimizer.cost.estimate import classes
from weft.optimizer.cost.papers import CostModel, tasks_for
from weft.optimizer.cubes.plan import skew
from weft.optimizer.graph.layout import Layout, Lines, Placement, mask
from weft.optimizer.graph.placement import Sizes, heaviest_key, keys
from weft.optimizer.graph.tree import Tree, flat_tree
from weft.optimizer.lower.steps import Steps
from weft.optimizer.lower.together import choose_together
from weft.optimizer.lower.trips import ways
from weft.optimizer.lower.ways import Line, Ways
from weft.optimizer.problem import Problem
from weft.optimizer.trees.orders import least_sent_orders
from weft.query.model import Query
from weft.query.parameters import Order
from weft.stats.model import Statistics
from weft.topology.spread import Spread

Asks = tuple[Order | None, tuple[int, ...] | None]
"""What comes first, subscriptions or the join, and the sets of relations whose tuples ask; None for all."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan that was considered."""

    name: str
    layout: Layout
    ways: Ways
    bill: Bill
    imbalance: Imbalance = field(default=lambda _key, _tasks: 1.0, compare=False, repr=False)
    """How much fuller than the average the fullest worker is under a key."""
    ranges: Mapping[int, float] = field(default_factory=dict)
    """Input -> to how many workers a row of it goes, where rows go by ranges of their values."""

    @property
    def price(self) -> tuple[float, float]:
        """What candidates are compared by: microseconds an input row, then what is stored."""
        return float(f"{self.bill.micros:.9g}"), self.bill.scost


class Maker:
    """Makes the candidates of a problem, and remembers the answers that all of them need."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.query, self.workers = problem, problem.query, problem.workers
        self.wishes, self.known = problem.wishes, problem.known
        self._attributes = classes(problem.query)
        self.together = self._together()
        """Expressions to index together, with the share of rows each lets through; None if it is not known."""
        self.steps = Steps(problem.query, tuple(self.together))
        self.asking = find_asking(problem.query, self.known.statistics)
        """What is known of subscriptions; None if the query has none, or too little is known."""
        self._known_keys: dict[int, dict[Expr, float]] = {}
        self._shares: dict[tuple[Expr, int], float] = {}
        self._placed: dict[object, Candidate] = {}
        self._orders: dict[object, dict[int, tuple[int, ...]]] = {}

    def place(self, name: str, tree: Tree, placement: Placement | None = None) -> Candidate:
        """Every row on one worker.  Results are remembered: the search for better places meets the same ones often."""
        homes = self._placement(tree) if placement is None else placement
        key = name, tree, frozenset(homes.items())
        if key not in self._placed:
            self._placed[key] = self._place(name, tree, homes)
        return self._placed[key]

    def _place(self, name: str, tree: Tree, placement: Placement) -> Candidate:
        return self._price(name, *self._layout(tree, placement), self.imbalance)

    def spread(
        self,
        name: str,
        tree: Tree,
        spread: Mapping[int, Spread],
        busy: float,
        copies: Mapping[int, float] | None = None,
    ) -> Candidate:
        """Rows copied to several workers so that joins are local; `busy` is the ratio of the busiest to the average."""
        layout = replace(self._layout(tree, {})[0], tasks={}, spread=spread)
        return self._price(name, layout, self._model(layout), lambda _key, _tasks: busy, copies)

    def follow(self, name: str, lines: Lines) -> Candidate:
        """A plan by lines; where one was written by hand, its spread and numbers of workers hold."""
        written = self.problem.written
        layout = Layout(
            flat_tree(len(self.query.relations)), lines=lines, spread={} if written is None else written.spread,
            ranges=tuple(self.together),
        )  # fmt: skip
        layout = replace(layout, tasks=self.tasks(layout.stores))
        return self.refine(self._price(name, layout, self._model(layout), self.imbalance))

    def follow_in(self, name: str, cube: Candidate, lines: Lines) -> Candidate:
        """A plan by lines on the workers of a cube."""
        layout = replace(cube.layout, tree=flat_tree(len(self.query.relations)), orders={}, lines=lines)
        return self._price(name, layout, self._model(layout), cube.imbalance, cube.ranges)

    def storage(self, candidate: Candidate) -> float:
        """What a plan stores, copies counted, in the unit of budgets."""
        model = self.problem.model
        rows = candidate.bill.stored.items()
        return sum(model.storage(s) * copies / max(1e-9, model.held(s)) for s, copies in rows)

    def improve(self, candidate: Candidate) -> Candidate:
        """The candidate with every store where it is cheapest, given the others."""
        if self.wishes.placement != "keyed" or candidate.layout.spread or candidate.layout.lines:
            return candidate
        fixed = set() if self.problem.written is None else set(self.problem.written.placement)
        best, tree = candidate, candidate.layout.tree
        for store in [s.relations for s in tree.stores if s.relations not in fixed] * 2:
            for key in self._keys(store):
                other = self.place(candidate.name, tree, {**best.layout.placement, store: (key,)})
                best = min(best, other, key=lambda c: c.price)
        return best

    # ------------------------------------------------------------------------------------------ layout

    def _layout(self, tree: Tree, placement: Placement) -> tuple[Layout, CostModel]:
        """The layout with its orders, and the cost model under it."""
        written = self.problem.written
        given = {} if written is None else dict(written.orders)
        spread = {} if written is None else written.spread
        layout = Layout(tree, dict(placement), given, self.tasks(_stores(tree)), spread, ranges=tuple(self.together))
        model, orders = self._model(layout), dict[int, tuple[int, ...]]()
        if not self.problem.informed or self.problem.is_made or not self.problem.is_connected:
            return layout, model
        for operator in tree.operators:
            orders.update(self._orders_of(operator, model))
        return replace(layout, orders={**orders, **given}), model

    def _together(self) -> dict[Expr, float | None]:
        """What the plan written by hand, or made before, says; otherwise what the statistics say."""
        problem, statistics = self.problem, self.known.statistics or Statistics()
        chosen = {} if problem.is_made else choose_together(self.query, problem.model.graph, statistics)
        if problem.written is None or (problem.open_ranges and not problem.is_made):
            return {**chosen}
        return {expr: chosen.get(expr) for expr in problem.written.ranges}

    def _orders_of(self, operator: Tree, model: CostModel) -> dict[int, tuple[int, ...]]:
        """Store -> the others in the order that sends least.  It depends on where the stores lie, not on the tree."""
        homes = model.placement or {}
        key = tuple((child.relations, homes.get(child.relations), model.N(child)) for child in operator.children)
        if key not in self._orders:
            orders = least_sent_orders(model, operator.children)
            found = [[store.relations for store in order.stores] for order in orders]
            self._orders[key] = {first: tuple(rest) for first, *rest in found}
        return self._orders[key]

    def tasks(self, stores: Collection[int]) -> dict[int, int]:
        """On how many workers stores lie, where the user or a capacity says so."""
        written = {} if self.problem.written is None else self.problem.written.tasks
        if self.problem.is_made:
            return dict(written)
        spread: dict[int, int] = {}
        if (capacity := self.wishes.capacity) is not None:
            size = self.problem.model.graph.size
            spread = {store: min(self.workers, tasks_for(size(store), capacity)) for store in stores}
        by_hand = {mask(self.query, [alias]): min(self.workers, n) for alias, n in self._parallelism()}
        # A query over one alias has no store at all.
        return {store: count for store, count in {**spread, **by_hand, **written}.items() if store in stores}

    def _parallelism(self) -> Iterator[tuple[str, int]]:
        for alias, tasks in self.wishes.parallelism.items():
            if alias not in self.query.aliases:
                raise PlanError(
                    f'parallelism is given for "{alias}"',
                    detail=f"query {self.problem.name} has the aliases {', '.join(self.query.aliases)}.",
                    hint="give it by alias: parallelism={...}.",
                )
            yield alias, tasks

    def _placement(self, tree: Tree) -> dict[int, tuple[Expr, ...]]:
        written = self.problem.written
        if self.workers == 1 or (written is not None and written.spread):
            return {}
        keyed = self.wishes.placement == "keyed"
        found = {s.relations: heaviest_key(self._keys(s.relations)) for s in tree.stores} if keyed else {}
        return {**found, **({} if written is None else written.placement)}

    def _keys(self, store: int) -> dict[Expr, float]:
        if store not in self._known_keys:
            self._known_keys[store] = keys(self.query, store, self.sizes)
        return self._known_keys[store]

    @cached_property
    def sizes(self) -> Sizes:
        """How much comes from each stream."""
        if not self.problem.informed:
            return self.known.sizes
        bases = self.problem.model.graph.relations
        return {r.stream.name: base.size for r, base in zip(self.query.relations, bases, strict=True)}

    # ------------------------------------------------------------------------------------------- price

    def _price(
        self,
        name: str,
        layout: Layout,
        model: CostModel,
        imbalance: Imbalance,
        ranges: Mapping[int, float] | None = None,
    ) -> Candidate:
        """The plan, with subscriptions asked in the order that is cheapest for it."""
        found = [self._ask(name, layout, model, imbalance, ranges or {}, order) for order in self._possible(layout)]
        return min(found, key=lambda candidate: candidate.price)

    def _ask(
        self,
        name: str,
        layout: Layout,
        model: CostModel,
        imbalance: Imbalance,
        ranges: Mapping[int, float],
        order: Asks,
    ) -> Candidate:
        ordered = replace(layout, subscriptions=order[0], asked=order[1])
        made = ways(self.problem.name, self.query, ordered, self.workers, self.steps)
        priced = bill(made, model, self.known.prices, self.known.batch_rows, imbalance, ranges, self.asking)
        return Candidate(name, ordered, made, priced, imbalance, ranges)

    def _possible(self, layout: Layout) -> tuple[Asks, ...]:
        """In which orders subscriptions may be asked.

        Rows of a kept join may be wanted later, so they are not asked about.  Where nothing is known, asking first
        costs little and may save much.
        """
        asked, written = self.query.subscribers, self.problem.written
        if asked is None:
            return ((None, None),)
        given = (None, None) if written is None else (written.subscriptions, written.asked)
        wished = given if asked.strategy == "auto" else (asked.strategy, None)
        if wished[0] == "join" or wished[0] == "naive":
            return (wished,)
        if layout.kept or len(self.query.relations) == 1:
            return (("join", None),)
        first: Asks = ("narrow", wished[1])
        return (first, ("join", None)) if self._is_order_open(wished[0]) else (first,)

    def _is_order_open(self, wished: Order | None) -> bool:
        return wished is None and self.asking is not None and not self.problem.is_made

    def refine(self, candidate: Candidate) -> Candidate:
        """The plan with only those questions to subscriptions that pay; those with the fewest relations first."""
        if len(self._possible(candidate.layout)) < 2:
            return candidate
        sets = sorted({covered for line in candidate.ways.lines for covered in _covered(self.query, line)})
        best = self._again(candidate, ("join", None))
        for some in sorted(sets, key=int.bit_count):
            asked = (*(best.layout.asked or ()), some)
            best = min(best, self._again(candidate, ("narrow", asked)), key=lambda c: c.price)
        if best.layout.asked is not None and {*best.layout.asked} == {*sets}:
            best = self._again(candidate, ("narrow", None))
        return min(candidate, best, key=lambda c: c.price)

    def weigh(self, candidate: Candidate) -> list[Candidate]:
        """The same plan with subscriptions asked in the other orders, if it was open which one is used."""
        possible, chosen = self._possible(candidate.layout), (candidate.layout.subscriptions, candidate.layout.asked)
        asked = self.query.subscribers
        if asked is None or asked.strategy != "auto" or not self._is_order_open(None):
            return []
        others: dict[Asks, None] = dict.fromkeys((*possible, ("naive", None)))
        return [self._again(candidate, order) for order in others if order != chosen]

    def _again(self, candidate: Candidate, order: Asks) -> Candidate:
        """The same plan with subscriptions asked in another order."""
        model = self._model(candidate.layout)
        return self._ask(candidate.name, candidate.layout, model, candidate.imbalance, candidate.ranges, order)

    def _model(self, layout: Layout) -> CostModel:
        """The cost model under a layout."""
        named = {
            store: tuple(self._attributes.get(expr) or to_sql(expr) for expr in home)
            for store, home in layout.placement.items()
        }
        spread = {store: min(self.workers, layout.tasks.get(store, self.workers)) for store in layout.stores}
        return replace(self.problem.model, placement=named, tasks_of=spread)

    def imbalance(self, key: tuple[Expr, ...], tasks: int) -> float:
        """How much fuller than the average the fullest worker is under a key; more expressions make it no worse."""
        worst = [self._share(expr, tasks) * self.workers for expr in key]
        return max(1.0, min(worst, default=1.0))

    def _share(self, expr: Expr, tasks: int) -> float:
        """The part of the rows on the fullest of some workers under one key; remembered, as all candidates ask."""
        if (expr, tasks) not in self._shares:
            known = skew(self.query, expr, self.known.statistics, self.wishes.skewed)
            self._shares[expr, tasks] = float(known.slots(tasks).max())
        return self._shares[expr, tasks]


def _covered(query: Query, line: Line) -> Iterator[int]:
    """What tuples hold before each hop of a line."""
    covered = mask(query, [line.start])
    for hop in line.hops:
        yield covered
        covered |= hop.store


def _stores(tree: Tree) -> list[int]:
    return [store.relations for store in tree.stores]
