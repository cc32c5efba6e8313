"""What a plan is chosen for: a query, workers, what is wished of the plan, and what is known and expected of the data.

What must hold: what is asked for is about this query and these workers.  A problem that does not fit cannot be posed,
and the error says why.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from weft.errors import PlanError
from weft.optimizer.cost.estimate import estimate
from weft.optimizer.cost.papers import Arrival, CostModel
from weft.optimizer.graph.layout import Layout
from weft.optimizer.graph.tree import flat_tree
from weft.optimizer.known import Known
from weft.optimizer.wishes import Wishes
from weft.optimizer.written.plan import Plan, bind
from weft.optimizer.written.spread import check_fits
from weft.query.model import Query
from weft.stats.model import Statistics
from weft.topology.spread import Regions

MOST_STORED = 4.0
"""How many times the inputs "auto" may store where no budget is given: estimates may be wrong, disks are finite."""


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
    """What was written by hand, or made before; what it leaves open is missing."""

    @property
    def strategy(self) -> str | Plan:
        """What to go by: the plan that state was made by, or what is wished."""
        return self.known.made or self.wishes.strategy

    @property
    def is_made(self) -> bool:
        """Whether the plan was made before: then nothing is chosen, and nothing is refused."""
        return self.known.made is not None

    @property
    def informed(self) -> bool:
        """Whether there are statistics to choose by."""
        return self.known.statistics is not None

    @property
    def is_spread(self) -> bool:
        """Whether a cube or ranges were asked for; one stream alone has nothing to meet."""
        return isinstance(self.strategy, str) and ":" in self.strategy and len(self.query.relations) > 1

    @property
    def is_connected(self) -> bool:
        """Whether predicates connect all aliases."""
        return self.model.graph.is_connected(self.model.graph.all)

    @property
    def limit(self) -> float:
        """What a plan may store that nobody has asked for by name."""
        given = self.wishes.budget
        return given if given < math.inf else MOST_STORED * self.model.scost(flat_tree(len(self.query.relations)))

    def afford(self, needed: float) -> None:
        """Refuse a plan that was asked for and is expected to exceed the budget; one that has run stays."""
        if needed > self.wishes.budget and not self.is_made:
            unit = self.model.unit
            raise PlanError(
                f"the plan is expected to store {needed:,.0f} {unit}, the budget is {self.wishes.budget:,.0f}",
                detail=f"a budget counts the {unit} of inputs, their copies and intermediate results together.",
                hint="keep fewer joins, raise the budget, or shorten the windows.",
            )


def pose(name: str, query: Query, workers: int, wishes: Wishes, known: Known) -> Problem:
    """The problem, or what does not fit."""
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
    return CostModel(graph, arrival, parallelism=workers, unit=wishes.unit)


def _check_skewed(name: str, query: Query, wishes: Wishes) -> None:
    """What is said about skew must be about a column that there is."""
    there = {f"{r.alias}.{column}" for r in query.relations for column in r.stream.schema.names}
    if unknown := sorted(set(wishes.skewed) - there):
        raise PlanError(
            f'skewed names "{unknown[0]}"',
            detail=f"query {name} has the aliases {', '.join(query.aliases)}.",
            hint='say it by alias and column: skewed={"l.l_partkey": True}.',
        )


def _refuse_ranges(written: Layout) -> None:
    """Ranges are cut by the optimizer: nothing could tell whether those written by hand meet every pair once."""
    if any(isinstance(spread, Regions) for spread in written.spread.values()):
        raise PlanError(
            "ranges cannot be written by hand",
            detail="pairs that two ranges miss, or meet twice, would be missed or doubled.",
            hint='use strategy="two-way:equi-weight" or "two-way:m-bucket".',
        )
