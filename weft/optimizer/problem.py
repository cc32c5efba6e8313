"""What a plan is chosen for: a query, workers, what is wished of the plan, and what is known and expected of the data.

What must hold: all wishes are about this query and these workers.  A problem with a wish that does not fit cannot be
posed, and the error says why.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from weft.errors import PlanError
from weft.optimizer.cost.estimate import estimate
from weft.optimizer.cost.folded import count_groups
from weft.optimizer.cost.papers import Arrival, CostModel
from weft.optimizer.graph.layout import Layout
from weft.optimizer.graph.tree import flat_tree
from weft.optimizer.known import Known
from weft.optimizer.wishes import VIEWS, Wishes
from weft.optimizer.written.plan import Plan, bind
from weft.optimizer.written.spread import check_fits
from weft.query.model import Query
from weft.stats.model import Statistics
from weft.topology.spread import Regions

MOST_STORED = 4.0
"""Without a budget "auto" may store this many times the inputs: estimates may be wrong, and disks are finite."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A query to plan."""

    name: str
    query: Query
    workers: int
    wishes: Wishes
    known: Known
    model: CostModel
    written: Layout | None
    """What was written by hand, or made before; what is missing in it is still open."""

    @property
    def strategy(self) -> str | Plan:
        """What decides: the plan that made the state of the checkpoint, or what the user wishes."""
        return self.known.made or self.wishes.strategy

    @property
    def is_made(self) -> bool:
        """Whether a checkpoint already has a plan: then nothing is chosen, and nothing is refused."""
        return self.known.made is not None

    @property
    def informed(self) -> bool:
        """Whether there are statistics to choose by."""
        return self.known.statistics is not None

    @property
    def open_ranges(self) -> bool:
        """Whether a plan by hand leaves open which ranges are indexed together."""
        return isinstance(self.strategy, Plan) and self.strategy.ranges is None

    @property
    def is_spread(self) -> bool:
        """Whether a cube or ranges were asked for; a query over one stream joins nothing."""
        return isinstance(self.strategy, str) and ":" in self.strategy and len(self.query.relations) > 1

    @property
    def scheme(self) -> str:
        """The strategy by name, without the local join that a cube may have."""
        return str(self.strategy).removesuffix(f"+{VIEWS}")

    @property
    def has_views(self) -> bool:
        """Whether there is a join to keep besides the result."""
        return len(self.query.relations) > 2 and self.is_connected

    @property
    def is_connected(self) -> bool:
        """Whether predicates connect all aliases."""
        return self.model.graph.is_connected(self.model.graph.all)

    @property
    def limit(self) -> float:
        """How much a plan may store that the user has not asked for by name."""
        given = self.wishes.budget
        return given if given < math.inf else MOST_STORED * self.model.scost(flat_tree(len(self.query.relations)))

    def afford(self, needed: float) -> None:
        """Refuse a plan that is expected to exceed the budget, unless a checkpoint already has it."""
        if needed > self.wishes.budget and not self.is_made:
            unit = self.model.unit
            raise PlanError(
                f"the plan is expected to store {needed:,.0f} {unit}, the budget is {self.wishes.budget:,.0f}",
                detail=f"a budget counts the {unit} of inputs, their copies and intermediate results together.",
                hint="keep fewer joins, raise the budget, or shorten the windows.",
            )


def pose(name: str, query: Query, workers: int, wishes: Wishes, known: Known) -> Problem:
    """The problem; an error says which wish does not fit."""
    _check_skewed(name, query, wishes)
    plan = known.made or wishes.strategy
    written = bind(plan, query) if isinstance(plan, Plan) else None
    if written is not None:
        check_fits(written.spread, workers)
        if known.made is None:
            _refuse_ranges(written)
    return Problem(name, query, workers, wishes, known, _model(query, workers, wishes, known), written)


def _model(query: Query, workers: int, wishes: Wishes, known: Known) -> CostModel:
    graph = estimate(query, known.statistics or Statistics())
    rated = all(r.window is not None for r in query.relations) and all(r.rate for r in graph.relations)
    arrival: Arrival = wishes.arrival or ("window" if rated and known.statistics is not None else "history")
    groups = count_groups(query, graph, known.statistics or Statistics())
    batches = max(1.0, sum(base.size for base in graph.relations) / known.batch_rows)
    return CostModel(graph, arrival, parallelism=workers, unit=wishes.unit, groups=groups, batches=batches)


def _check_skewed(name: str, query: Query, wishes: Wishes) -> None:
    """`skewed` may name only columns that exist."""
    there = {f"{r.alias}.{column}" for r in query.relations for column in r.stream.schema.names}
    if unknown := sorted(set(wishes.skewed) - there):
        raise PlanError(
            f'skewed names "{unknown[0]}"',
            detail=f"query {name} has the aliases {', '.join(query.aliases)}.",
            hint='name an alias and a column: skewed={"l.l_partkey": True}.',
        )


def _refuse_ranges(written: Layout) -> None:
    """Only the optimizer cuts ranges: whether ranges written by hand meet every pair once cannot be checked."""
    if any(isinstance(spread, Regions) for spread in written.spread.values()):
        raise PlanError(
            "ranges cannot be written by hand",
            detail="ranges that miss a pair, or have it twice, would give missing or doubled results.",
            hint='use strategy="two-way:equi-weight" or "two-way:m-bucket".',
        )
