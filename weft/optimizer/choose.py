"""The chooser: from a query, what is known of it and what is asked for to a layout.

    flat        nothing but the inputs is kept
    left_deep   a cascade of binary joins, in the order with the least intermediate results
    tree        intermediate results under a storage budget (MultiStream IV.D)
    exhaustive  of all trees within the budget the one that sends the fewest tuples
    auto        of all these and more the one that is cheapest by the prices of the host
    hypercube:hash | random | hybrid   every result on one worker, rows copied there (Squall)
    two-way:1-bucket | contrand | m-bucket | equi-weight   the same for two aliases, the last two by ranges
    a Plan      what is written there, the rest as in auto

Each candidate is a tree.  For it stores are placed, and then moved one by one as long as that makes the whole
cheaper on the host; probe orders are those that send the fewest tuples for that placement.

What must hold: the choice is a function of its arguments.  Where nothing at all is known, no intermediate result is
kept, and orders follow what an index can use: a guess must not fill a disk.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from weft.errors import PlanError
from weft.expr.model import Expr
from weft.expr.render import to_sql
from weft.optimizer import ranges
from weft.optimizer.cost import Arrival, CostModel, Unit
from weft.optimizer.cubes import SCHEMES, CubeKeys, CubePlan, skew
from weft.optimizer.estimate import classes, estimate
from weft.optimizer.hostcost import BATCH_ROWS, Bill, bill
from weft.optimizer.layout import Layout, flat_tree, mask
from weft.optimizer.orders import least_sent
from weft.optimizer.placement import Sizes, heaviest, keys
from weft.optimizer.prices import Prices
from weft.optimizer.tree import Tree
from weft.optimizer.trees import all_trees, cheapest, left_deep, mat, under_budget, valid
from weft.optimizer.ways import Steps, Ways, ways
from weft.optimizer.written import Bound, Plan, bind
from weft.optimizer.writtenspread import check_fits
from weft.query.model import Query
from weft.stats.model import Statistics
from weft.topology.spread import Regions, Spread

TWO_WAY = ("two-way:1-bucket", "two-way:contrand", *ranges.SCHEMES)
"""Strategies for joins of two aliases."""
STRATEGIES = ("auto", "flat", "left_deep", "tree", "exhaustive", *(f"hypercube:{scheme}" for scheme in SCHEMES))
MOST_TREES = 250
"""Up to how many trees all of them are candidates: those of a chain of six."""
MANY = 8
"""From more relations on, only trees that a strategy has a name for are candidates: pricing one takes a while."""
MOST_STORED = 4.0
"""How many times the inputs "auto" may store where no budget is given: estimates may be wrong, disks are finite."""
EVEN_ENOUGH = 1.25
"""Up to which work of the busiest worker by the average a cube may keep joins."""
WORTH = 0.95
"""What a cube with kept joins may cost at most, by the price of the same cube without: state is a liability."""
REFINED = 6
"""How many of the best candidates have their placement improved."""


@dataclass(frozen=True, slots=True)
class Knobs:
    """What a user may ask of a plan."""

    strategy: str | Plan = "auto"
    statistics: Statistics | None = None
    budget: float = math.inf
    unit: Unit = "tuples"
    """What the budget counts."""
    placement: str = "keyed"
    """Whether stores may be keyed, or all are "scattered"."""
    capacity: float | None = None
    """Rows that a worker can hold of a store; a store lies on as many workers as it needs."""
    parallelism: Mapping[str, int] = field(default_factory=dict)
    """Alias -> on how many workers its store lies."""
    skewed: Mapping[str, bool] = field(default_factory=dict)
    """"alias.column" -> whether its values are uneven, whatever statistics say."""
    arrival: Arrival | None = None
    """The arrival factor; None takes "window" where all have windows and rates, else "history"."""
    sizes: Sizes = field(default_factory=dict)
    """How much comes from each stream, where there are no statistics."""
    batch_rows: float = BATCH_ROWS
    prices: Prices = field(default_factory=Prices)
    settled: bool = False
    """Whether a written plan was made before: what it leaves out was left open then, and is not chosen by cost now."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan that was considered."""

    name: str
    layout: Layout
    ways: Ways
    bill: Bill

    @property
    def price(self) -> tuple[float, float]:
        """What candidates are compared by: microseconds an input row, then what is stored."""
        return float(f"{self.bill.micros:.9g}"), self.bill.scost


@dataclass(frozen=True, slots=True)
class Choice:
    """The plan of a query, and what else there was."""

    name: str
    query: Query
    knobs: Knobs
    model: CostModel
    chosen: Candidate
    candidates: tuple[Candidate, ...]
    """All that were considered, the cheapest first."""

    @property
    def informed(self) -> bool:
        """Whether any statistics were there to choose by."""
        return self.knobs.statistics is not None


def choose(name: str, query: Query, workers: int, knobs: Knobs) -> Choice:
    """The plan of a query."""
    return _Chooser(name, query, workers, knobs).run()


class _Chooser:
    def __init__(self, name: str, query: Query, workers: int, knobs: Knobs) -> None:
        self.name, self.query, self.workers, self.knobs = name, query, workers, knobs
        graph = estimate(query, knobs.statistics or Statistics())
        rated = all(r.window is not None for r in query.relations) and all(r.rate for r in graph.relations)
        arrival: Arrival = knobs.arrival or ("window" if rated and knobs.statistics is not None else "history")
        self.model = CostModel(graph, arrival, parallelism=workers, unit=knobs.unit)
        self.attributes = classes(query)
        self.steps = Steps(query)
        self._known_keys: dict[int, dict[Expr, float]] = {}
        self._shares: dict[tuple[Expr, int], float] = {}
        self._check_skewed()
        self.cubes = CubeKeys(query, graph, knobs.statistics, knobs.skewed, knobs.prices)
        self.written: Bound | None = bind(knobs.strategy, query) if isinstance(knobs.strategy, Plan) else None
        if self.written is not None:
            check_fits(self.written.spread, workers)
            self._refuse_ranges(self.written)

    def run(self) -> Choice:
        trees = [*self._trees()]
        found = [self._candidate(name, tree) for name, tree in trees]
        found += self._cubes(trees)
        found.sort(key=lambda candidate: candidate.price)
        if self.knobs.statistics is not None and self.workers > 1 and not self.knobs.settled:
            found = [*map(self._refined, found[:REFINED]), *found[REFINED:]]
            found.sort(key=lambda candidate: candidate.price)
        return Choice(self.name, self.query, self.knobs, self.model, found[0], tuple(found))

    def _check_skewed(self) -> None:
        """What is said about skew must be about a column that there is."""
        there = {f"{r.alias}.{name}" for r in self.query.relations for name in r.stream.schema.names}
        if unknown := sorted(set(self.knobs.skewed) - there):
            raise PlanError(
                f'skewed names "{unknown[0]}"',
                detail=f"query {self.name} has the aliases {', '.join(self.query.aliases)}.",
                hint='say it by alias and column: skewed={"l.l_partkey": True}.',
            )

    def _refuse_ranges(self, written: Bound) -> None:
        """Ranges are cut by the optimizer: nothing could tell whether those written by hand meet every pair once."""
        if not self.knobs.settled and any(isinstance(spread, Regions) for spread in written.spread.values()):
            raise PlanError(
                "ranges cannot be written by hand",
                detail="pairs that two ranges miss, or meet twice, would be missed or doubled.",
                hint='use strategy="two-way:equi-weight" or "two-way:m-bucket".',
            )

    # ------------------------------------------------------------------------------------------ cubes

    def _schemes(self) -> tuple[str, ...]:
        """The cubes to look at."""
        strategy = self.knobs.strategy
        placed = self.knobs.placement != "keyed" or self.knobs.capacity is not None or bool(self.knobs.parallelism)
        by_hand = self.written is not None and self.written.spread and not self.knobs.settled
        if placed and (self._is_spread() or by_hand):
            raise PlanError(
                "a cube decides by itself where rows lie"
                if by_hand
                else f'strategy "{strategy}" decides where rows lie',
                detail="placement, capacity and parallelism are for stores that lie in one place each.",
                hint="leave them out, or use another strategy.",
            )
        if self._is_spread():
            return (str(strategy),)
        weighed = strategy == "auto" and self.knobs.statistics is not None and self.workers > 1 and not placed
        if not weighed or len(self.query.relations) < 2:
            return ()
        return (*(f"hypercube:{scheme}" for scheme in SCHEMES), *self._range_schemes())

    def _is_spread(self) -> bool:
        """Whether a cube or ranges were asked for; one stream alone has nothing to meet."""
        strategy = self.knobs.strategy
        return isinstance(strategy, str) and ":" in strategy and len(self.query.relations) > 1

    def _range_schemes(self) -> tuple[str, ...]:
        """Ranges are worth a look where there is no equality to go by, and something is known of the values."""
        held = ranges.between(self.query)
        if held is None or self.cubes.keys.classes or self.knobs.statistics is None:
            return ()
        known = [ranges.sample(self.query, column, self.knobs.statistics) for column in (held.left, held.right)]
        return ("two-way:equi-weight",) if all(found is not None for found in known) else ()

    def _cubes(self, trees: Sequence[tuple[str, Tree]]) -> list[Candidate]:
        """The cubes that may be chosen; those that "auto" weighs must not store too much."""
        found = [self._cube(scheme) for scheme in self._schemes()]
        if self.knobs.strategy == "auto":
            found = [*found, *self._keeping(found, trees)]
            return [candidate for candidate in found if self._stored(candidate) <= self._limit()]
        for candidate in found:
            self._afford(self._stored(candidate))
        return found

    def _keeping(self, cubes: Sequence[Candidate], trees: Sequence[tuple[str, Tree]]) -> Iterator[Candidate]:
        """The best cube with joins kept in it, by the trees that have a name of their own.

        Not where the cube is uneven: what frequent values join to is more uneven than they are, and would be stored.
        Nor for a gain that the estimates of their sizes cannot vouch for.
        """
        even = [c for c in cubes if c.name not in ranges.SCHEMES and c.bill.skew <= EVEN_ENOUGH]
        for best in sorted(even, key=lambda candidate: candidate.price)[:1]:
            named = [(name, tree) for name, tree in trees if name not in ("flat", "other")]
            made = [self._spread(f"{best.name}, {name}", t, best.layout.spread, best.bill.skew) for name, t in named]
            yield from (candidate for candidate in made if candidate.bill.micros < WORTH * best.bill.micros)

    def _stored(self, candidate: Candidate) -> float:
        """What a plan stores, copies counted, in the unit of budgets."""
        sizes = self.model.graph.size
        rows = candidate.bill.stored.items()
        return sum(self.model.storage(s) * copies / max(1e-9, sizes(s)) for s, copies in rows)

    def _limit(self) -> float:
        """What a plan may store that nobody has asked for by name."""
        given = self.knobs.budget
        return given if given < math.inf else MOST_STORED * self.model.scost(flat_tree(self.query))

    def _cube(self, strategy: str) -> Candidate:
        """A spread whose local joins walk the join graph."""
        if strategy in ranges.SCHEMES:
            return self._ranges(strategy)
        cube = self.cubes.plan(strategy, self.workers)
        return self._spread(strategy, flat_tree(self.query), cube.spread, self._busy(cube))

    def _busy(self, cube: CubePlan) -> float:
        """How much more than the average the busiest worker has to do."""
        return self.workers / cube.cube.machines * cube.skew_degree

    def _ranges(self, strategy: str) -> Candidate:
        """Ranges for two aliases."""
        sizes = tuple(base.size for base in self.model.graph.relations)
        made, spread = ranges.regions(self.query, self.knobs.statistics, self.workers, strategy, sizes)  # type: ignore[arg-type]
        work = [a + b for a, b in zip(made.input, made.output, strict=True)]
        busy = max(1.0, max(work, default=0.0) * self.workers / max(1e-9, sum(work)))
        return self._spread(strategy, flat_tree(self.query), spread, busy, dict(zip((1, 2), made.copies, strict=True)))

    def _spread(
        self,
        name: str,
        tree: Tree,
        spread: Mapping[int, Spread],
        busy: float,
        copies: Mapping[int, float] | None = None,
    ) -> Candidate:
        """Rows on several workers, all that joins on one of them; `busy` is what the busiest has by the average."""
        layout = replace(self._layout(tree, {}), tasks={}, spread=spread)
        made, model = ways(self.name, self.query, layout, self.workers, self.steps), self._priced(layout)
        priced = bill(made, model, self.knobs.prices, self.knobs.batch_rows, lambda _key, _n: busy, copies)
        return Candidate(name, layout, made, priced)

    def _uneven(self, key: tuple[Expr, ...], tasks: int) -> float:
        """How much fuller than the average the fullest worker is under a key; several keys make it no worse."""
        worst = [self._share(expr, tasks) * self.workers for expr in key]
        return max(1.0, min(worst, default=1.0))

    def _share(self, expr: Expr, tasks: int) -> float:
        """The part of the rows on the fullest of some workers under one key; every candidate asks for it again."""
        if (expr, tasks) not in self._shares:
            known = skew(self.query, expr, self.knobs.statistics, self.knobs.skewed)
            self._shares[expr, tasks] = float(known.slots(tasks).max())
        return self._shares[expr, tasks]

    # ------------------------------------------------------------------------------------------ trees

    def _trees(self) -> Iterable[tuple[str, Tree]]:
        """The trees to look at, by the names of their strategies."""
        strategy, model, budget = self.knobs.strategy, self.model, self.knobs.budget
        if self._is_spread():
            return []
        if self.written is not None:
            self._afford(self.model.scost(self.written.tree))
            return [("by hand", self.written.tree)]
        plain = flat_tree(self.query)
        if budget < math.inf and len(self.query.relations) > 1:
            left_deep(model, budget)  # refuses a budget that the inputs alone exceed
        connected = model.graph.connected(model.graph.all)
        if strategy == "flat" or len(self.query.relations) < 3 or not connected:
            return [("flat", plain)]
        if strategy == "left_deep":
            return [("left_deep", left_deep(model, budget))]
        if strategy == "tree":
            return [("tree", under_budget(model, budget).tree)]
        if strategy == "exhaustive":
            return [("exhaustive", cheapest(model, budget))]
        if strategy != "auto":
            raise PlanError(f'strategy "{strategy}" is unknown', hint=f"use one of: {', '.join(STRATEGIES)}.")
        return self._all(plain) if self.knobs.statistics is not None else [("flat", plain)]

    def _afford(self, needed: float) -> None:
        """Refuse a plan that was asked for and is expected to exceed the budget; one that has run stays."""
        if needed > self.knobs.budget and not self.knobs.settled:
            unit = self.model.unit
            raise PlanError(
                f"the plan is expected to store {needed:,.0f} {unit}, the budget is {self.knobs.budget:,.0f}",
                detail=f"a budget counts the {unit} of inputs, their copies and intermediate results together.",
                hint="keep fewer joins, raise the budget, or shorten the windows.",
            )

    def _all(self, plain: Tree) -> list[tuple[str, Tree]]:
        """Everything worth a look within the budget; the first name of a tree stays."""
        found: dict[Tree, str] = {plain: "flat"}
        budget = self._limit()
        found.setdefault(left_deep(self.model, budget), "left_deep")
        tree = plain
        grown = under_budget(self.model, budget)
        for names, _ in grown.steps:
            tree = mat(tree, self.model.graph.mask(*names))
            found.setdefault(tree, "tree" if tree == grown.tree else f"tree, {len([*tree.operators]) - 1} kept")
        for tree in self._some_trees(plain):
            if self.model.scost(tree) <= budget:
                found.setdefault(tree, "other")
        return [(name, tree) for tree, name in found.items()]

    def _some_trees(self, plain: Tree) -> Iterator[Tree]:
        graph = self.model.graph
        if len(graph.relations) <= 6:
            trees = [tree for tree, _ in zip(all_trees(graph), range(MOST_TREES + 1), strict=False)]
            if len(trees) <= MOST_TREES:
                yield from trees
                return
        if len(graph.relations) > MANY:
            return
        for _, joined in zip(range(MOST_TREES), valid(graph, plain), strict=False):
            yield mat(plain, joined)

    # ------------------------------------------------------------------------------------- candidates

    def _candidate(self, name: str, tree: Tree, placement: Mapping[int, tuple[Expr, ...]] | None = None) -> Candidate:
        layout = self._layout(tree, self._placement(tree) if placement is None else placement)
        made = ways(self.name, self.query, layout, self.workers, self.steps)
        priced = bill(made, self._priced(layout), self.knobs.prices, self.knobs.batch_rows, self._uneven)
        return Candidate(name, layout, made, priced)

    def _layout(self, tree: Tree, placement: Mapping[int, tuple[Expr, ...]]) -> Layout:
        tasks = self._tasks(tree)
        given = dict(self.written.orders) if self.written is not None else {}
        layout = Layout(tree, dict(placement), given, tasks, {} if self.written is None else self.written.spread)
        informed = self.knobs.statistics is not None and not self.knobs.settled
        if not informed or not self.model.graph.connected(self.model.graph.all):
            return layout
        model, orders = self._priced(layout), {}
        for operator in tree.operators:
            for order in least_sent(model, operator.children):
                first, *rest = (store.relations for store in order.stores)
                orders[first] = tuple(rest)
        return replace(layout, orders={**orders, **given})

    def _priced(self, layout: Layout) -> CostModel:
        """The cost model under a layout."""
        named = {
            store: tuple(self.attributes.get(expr, to_sql(expr)) for expr in home)
            for store, home in layout.placement.items()
        }
        spread = {
            store.relations: min(self.workers, layout.tasks.get(store.relations, self.workers))
            for store in layout.tree.stores
        }
        return replace(self.model, placement=named, tasks_of=spread)

    def _tasks(self, tree: Tree) -> dict[int, int]:
        if self.knobs.settled and self.written is not None:
            return dict(self.written.tasks)
        spread: dict[int, int] = {}
        if self.knobs.capacity is not None:
            model = replace(self.model, capacity=self.knobs.capacity)
            spread = {store.relations: min(self.workers, model.N(store)) for store in tree.stores}
        by_hand = {mask(self.query, [alias]): min(self.workers, n) for alias, n in self._parallelism()}
        found = {**spread, **by_hand, **({} if self.written is None else self.written.tasks)}
        there = {store.relations for store in tree.stores}  # a query over one alias has no store at all
        return {store: count for store, count in found.items() if store in there}

    def _parallelism(self) -> Iterator[tuple[str, int]]:
        for alias, tasks in self.knobs.parallelism.items():
            if alias not in self.query.aliases:
                raise PlanError(
                    f'parallelism is given for "{alias}"',
                    detail=f"query {self.name} has the aliases {', '.join(self.query.aliases)}.",
                    hint="give it by alias: parallelism={...}.",
                )
            yield alias, tasks

    def _placement(self, tree: Tree) -> dict[int, tuple[Expr, ...]]:
        if self.workers == 1 or (self.written is not None and self.written.spread):
            return {}
        keyed = self.knobs.placement == "keyed"
        found = {s.relations: heaviest(self._keys(s.relations)) for s in tree.stores} if keyed else {}
        return {**found, **({} if self.written is None else self.written.placement)}

    def _keys(self, store: int) -> dict[Expr, float]:
        if store not in self._known_keys:
            self._known_keys[store] = keys(self.query, store, self._sizes())
        return self._known_keys[store]

    def _sizes(self) -> Sizes:
        if self.knobs.statistics is None:
            return self.knobs.sizes
        return {r.stream.name: b.size for r, b in zip(self.query.relations, self.model.graph.relations, strict=True)}

    def _refined(self, candidate: Candidate) -> Candidate:
        """The candidate with every store where it is cheapest, given the others."""
        if self.knobs.placement != "keyed" or candidate.layout.spread:
            return candidate
        fixed = set() if self.written is None else set(self.written.placement)
        best, tree = candidate, candidate.layout.tree
        for store in [s.relations for s in tree.stores if s.relations not in fixed] * 2:
            for key in self._keys(store):
                placed = {**best.layout.placement, store: (key,)}
                other = self._candidate(candidate.name, tree, placed)
                best = min(best, other, key=lambda c: c.price)
        return best
