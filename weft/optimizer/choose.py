"""The chooser: from a query, what is known of it and what is asked for to a layout.

    flat        nothing but the inputs is kept
    left_deep   a cascade of binary joins, in the order with the least intermediate results
    tree        intermediate results under a storage budget (MultiStream IV.D)
    exhaustive  of all trees within the budget the one that sends the fewest tuples
    views       all connected intermediate results, so that a new tuple meets few stores (DBToaster in Squall 3.3)
    auto        of all these and more the one that is cheapest by the prices of the host
    hypercube:hash | random | hybrid   every result on one worker, rows copied there (Squall)
    two-way:1-bucket | contrand | m-bucket | equi-weight   the same for two aliases, the last two by ranges
    ...+views   any of these with all connected intermediate results on the worker that joins them (HyLD in Squall 3.4)
    a Plan      what is written there, the rest as in auto

Each candidate is a tree or a set of lines.  The stores of a tree are placed, and then moved one by one as long as that
makes the whole plan cheaper on the host.  Probe orders are those that send the fewest tuples for that placement.

What must hold: the choice is a function of its arguments.  Where nothing at all is known, no intermediate result is
kept, because a wrong guess could fill a disk; orders then follow what an index can use.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from weft.errors import PlanError
from weft.optimizer.candidate import Candidate, Maker
from weft.optimizer.candidate_cubes import candidate_cubes
from weft.optimizer.candidate_trees import Named, candidate_trees
from weft.optimizer.candidate_views import candidate_views
from weft.optimizer.cost.papers import CostModel
from weft.optimizer.known import Known
from weft.optimizer.lower.labels import in_order
from weft.optimizer.problem import Problem, pose
from weft.optimizer.wishes import Wishes
from weft.optimizer.written.plan import Plan
from weft.query.model import Query

IMPROVED = 6
"""How many of the best candidates have their placement, and what they ask of subscriptions, improved."""


@dataclass(frozen=True, slots=True)
class Together:
    """How the plans of many queries were chosen together."""

    queries: int
    """Queries whose plans were open."""
    used: bool
    """Whether the plan for all is cheaper than the queries' own plans, which are used otherwise."""
    seconds: float
    """Predicted time of the plan that is used, with what holding its rows is worth."""
    separate: float
    """The same of the queries' own plans with equal parts once."""
    ended: str
    """How the search ended."""
    gap: float | None
    """By how much of its price the plan may miss the best; None if nothing was proven."""
    took: float
    """Seconds of planning."""
    variables: int


@dataclass(frozen=True, slots=True)
class Choice:
    """The plan of a query, and the candidates that it was chosen from."""

    name: str
    query: Query
    wishes: Wishes
    known: Known
    model: CostModel
    chosen: Candidate
    candidates: tuple[Candidate, ...]
    """All that were considered, the cheapest first."""
    maker: Maker = field(compare=False, repr=False)
    """Makes more candidates of the same query."""
    together: Together | None = None
    """What was decided for all queries together; None where each was planned alone."""

    @property
    def strategy(self) -> str | Plan:
        """What decided: the plan that made the state of the checkpoint, or what the user wished."""
        return self.known.made or self.wishes.strategy

    @property
    def weighed(self) -> tuple[Candidate, ...]:
        """All candidates, and the chosen one with subscriptions asked in other orders; the cheapest first."""
        return tuple(sorted((*self.candidates, *self.maker.weigh(self.chosen)), key=_price))

    @property
    def informed(self) -> bool:
        """Whether any statistics were there to choose by."""
        return self.known.statistics is not None


def choose(name: str, query: Query, workers: int, wishes: Wishes, known: Known) -> Choice:
    """The plan of a query."""
    problem = pose(name, in_order(query), workers, wishes, known)
    maker = Maker(problem)
    trees: list[Named] = []
    if problem.written is not None and problem.written.lines:
        found = [maker.follow("by hand", problem.written.lines)]
        problem.afford(maker.storage(found[0]))
    else:
        trees = candidate_trees(problem)
        found = [maker.place(strategy, tree) for strategy, tree in trees]
    found += [*candidate_views(problem, maker), *candidate_cubes(problem, maker, trees)]
    found = sorted(_narrowing(query, _lasting(problem, found)), key=_price)
    if problem.informed and workers > 1 and not problem.is_made:
        found = sorted([*map(maker.improve, found[:IMPROVED]), *found[IMPROVED:]], key=_price)
    found = sorted([*map(maker.refine, found[:IMPROVED]), *found[IMPROVED:]], key=_price)
    return Choice(name, query, wishes, known, problem.model, found[0], tuple(found), maker)


def _lasting(problem: Problem, found: list[Candidate]) -> list[Candidate]:
    """The candidates that keep no join of a stream with a table that changes: it would have old rows of the table."""
    graph = problem.model.graph
    if not graph.looked_up:
        return found
    right = [candidate for candidate in found if all(map(graph.may_keep, _kept(candidate)))]
    if right:
        return right
    joined = next(mask for mask in _kept(found[0]) if not graph.may_keep(mask))
    raise PlanError(
        f"a join of {', '.join(graph.names(joined))} cannot be kept",
        detail=f"{', '.join(graph.names(joined & graph.looked_up))} changes; rows of streams meet it as it is.",
        hint='use strategy="auto" or "flat".',
    )


def _narrowing(query: Query, found: list[Candidate]) -> list[Candidate]:
    """The candidates that ask subscriptions first, where that is wished and possible."""
    wished = query.subscribers is not None and query.subscribers.strategy == "narrow"
    return [c for c in found if wished and c.layout.subscriptions == "narrow"] or found


def _kept(candidate: Candidate) -> list[int]:
    return [line.keep.store for line in candidate.ways.lines if line.keep is not None]


def _price(candidate: Candidate) -> tuple[float, float]:
    return candidate.price
