"""The plans of many queries, chosen together.

A query's plan is open if nobody asked for a certain one, if there are statistics to choose by, and if it has no limits
of its own.  The others keep their plans, and what they store and do is there for all.

What must hold: the plan for all is never predicted to cost more than the queries' own plans with equal parts once.
Both are assembled and their bills compared; so what the flow problem leaves out does no harm.

A stored row costs more here than the time to store it (`HOLDING`): many queries easily keep a stream in several places
to save a little time, and each copy takes memory for as long as rows are kept.  A plan may be slower for that, but by
no more than storing the rows takes that it saves.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from weft.optimizer.candidate import Candidate
from weft.optimizer.choose import Choice, Together
from weft.optimizer.cost.prices import Prices
from weft.optimizer.joint.cubes import simple_cubes
from weft.optimizer.joint.flows import Solution
from weft.optimizer.joint.host import Draft, rows_of
from weft.optimizer.joint.shape import SetName, Shape
from weft.optimizer.joint.solve import solve
from weft.optimizer.lower.assemble import draw
from weft.optimizer.lower.stores import is_wider
from weft.optimizer.uniting import unite_by_cost
from weft.optimizer.whole import Span, whole_bill

TIME_LIMIT = 2.0
"""Seconds for the solver."""
GAP = 0.02
"""Up to which proven gap the solver goes on: predictions are not that exact.  The last percent takes a hundred queries
of three streams as long as everything before it."""
MOST_RELATIONS = 6
"""Queries over more relations keep their own plans."""
MOST_OFFERED = 8
"""How many whole plans of a query are offered at most; at least two."""
MOST_IN_ALL = 300
"""How many of all queries, if there are many: looking at one takes a millisecond or two."""
NEAR = 3.0
"""Up to how many times the price of the best plan a cube is offered."""
KEPT_BY = 3
"""A join that a query has alone may be kept if one of so many of its best plans keeps it."""
HOLDING = 2.0
"""What a stored row costs, in terms of its price: it is written, merged and indexed, and then it is held.  The price
includes two merges, which is right for 64 batches; a store that lives for 4,000 merges its rows four times."""
MOST_STORED = 4.0
"""A join may be kept if it has at most this many times the rows of all inputs of its query."""


def choose_together(choices: Sequence[Choice], time_limit: float | None = None) -> tuple[Choice, ...]:
    """The choices with plans for all queries together, where that is cheaper.

    Equal choices give equal plans unless the time limit, `TIME_LIMIT` if none is given, ends the search.
    """
    began = time.monotonic()
    open_ = [choice for choice in choices if is_open(choice)]
    if not open_ or len(choices) < 2:
        return tuple(choices)
    separate = price_together(choices)
    joint, solution = plan_together(choices, separate, TIME_LIMIT if time_limit is None else time_limit)
    together = price_together(joint)
    used = together < separate * (1 - 1e-9)
    note = Together(
        len(open_), used, min(together, separate), separate, solution.ended, solution.gap, time.monotonic() - began,
        solution.variables,
    )  # fmt: skip
    return tuple(replace(choice, together=note) for choice in (joint if used else choices))


def plan_together(
    choices: Sequence[Choice], known: float, time_limit: float = TIME_LIMIT, *, whole: bool = True
) -> tuple[tuple[Choice, ...], Solution]:
    """The plan for all queries, cheaper or not; `known` is the price of the queries' own plans.

    Where `whole` is false queries are offered no whole plans, and all plans that were open are by lines.
    """
    draft, shapes, wave_price = _pose(choices, whole=whole)
    solution = solve(draft.finish(wave_price, known), time_limit=time_limit, gap=GAP)
    made = {shape.name: _candidate(draft, shape, solution) for shape in shapes}
    return tuple(_use(c, made[c.name]) if c.name in made else c for c in choices), solution


def _use(choice: Choice, candidate: Candidate) -> Choice:
    known = any(candidate is other for other in choice.candidates)
    return replace(choice, chosen=candidate, candidates=choice.candidates if known else (candidate, *choice.candidates))


def is_open(choice: Choice) -> bool:
    """Whether the plan of a query may be chosen together with others."""
    wishes, problem = choice.wishes, choice.maker.problem
    asked = wishes.strategy != "auto" or wishes.placement != "keyed" or choice.known.made is not None
    limited = wishes.budget < math.inf or wishes.capacity is not None or bool(wishes.parallelism)
    fits = 1 < len(choice.query.relations) <= MOST_RELATIONS and problem.is_connected
    return choice.informed and fits and not asked and not limited


def _pose(choices: Sequence[Choice], *, whole: bool) -> tuple[Draft, list[Shape], float]:
    span, first = Span(choices), choices[0]
    mixed = len({(c.model.arrival, c.known.statistics) for c in choices}) > 1
    draft = Draft(with_holding(first.known.prices), first.chosen.ways.workers, mixed)
    shapes = [Shape(choice) for choice in choices]
    opened = [shape for shape in shapes if is_open(shape.choice)]
    for shape in shapes:
        if not is_open(shape.choice):
            draft.give(shape, span.factor(shape.choice), _parts(shape.choice, shape.choice.chosen))
    fixed = [shape for shape in shapes if not is_open(shape.choice) and not shape.choice.chosen.layout.spread]
    there = {shape.set_name(mask) for shape in fixed for mask in shape.choice.chosen.layout.kept}
    draft.wider = _widest(opened)
    joins = _joins(opened, there, draft.wider)
    for shape in opened:
        draft.find_homes(shape, [*(1 << i for i in range(len(shape.labels))), *joins[shape.name]])
    for shape in opened:
        draft.add(shape, joins[shape.name], span.factor(shape.choice))
        most = max(2, min(MOST_OFFERED, MOST_IN_ALL // len(opened)))
        for candidate in offered(shape.choice, most) if whole else ():
            draft.offer(shape, candidate, _parts(shape.choice, candidate), candidate.bill.waves - 1)
    return draft, opened, first.known.prices.wave * span.batches()


def offered(choice: Choice, most: int) -> list[Candidate]:
    """Whole plans of a query: the best, and good cubes, which lines cannot describe."""
    best = choice.candidates[0]
    cubes = [c for c in choice.candidates[1:] if c.layout.spread]
    known = [c.layout.spread for c in (best, *cubes)]
    cubes += [c for c in simple_cubes(choice) if c.layout.spread not in known]
    near = [c for c in cubes if c.bill.micros <= NEAR * best.bill.micros]
    return [best, *sorted(near, key=lambda c: c.price)[: most - 1]]


def _parts(choice: Choice, candidate: Candidate) -> dict[str, float]:
    """What a plan does, by the names of the parts in a topology, with what each costs."""
    made = draw([candidate.ways])
    fed = {store: rows_of(edge.id, made.store(store).since) for edge in made.edges for store in edge.stores}
    found = whole_bill(made, [replace(choice, chosen=candidate)], with_holding(choice.known.prices)).parts
    return {fed.get(name, name): max(part.work, part.fullest) / made.workers for name, part in found.items()}


def _widest(shapes: Sequence[Shape]) -> dict[SetName, SetName]:
    """Join -> the same join of another query whose windows are the widest of those that hold all of its own."""
    known: dict[SetName, dict[SetName, tuple[int | None, ...]]] = {}
    for shape in shapes:
        for mask in shape.joins(_most_rows(shape)):
            known.setdefault(shape.loose_name(mask), {})[shape.set_name(mask)] = shape.windows(mask)
    found: dict[SetName, SetName] = {}
    for group in known.values():
        for name in group:
            widest = name
            for other, wider in group.items():
                widest = other if is_wider(wider, group[widest]) else widest
            if widest != name:
                found[name] = widest
    return found


def _joins(
    shapes: Sequence[Shape], there: AbstractSet[SetName], wider: Mapping[SetName, SetName]
) -> dict[str, list[int]]:
    """Query -> sets that may be kept: those that are there, that several queries have, or that a good plan keeps."""
    found = {shape.name: [*shape.joins(_most_rows(shape))] for shape in shapes}
    users = Counter(wider.get(name := shape.set_name(mask), name) for shape in shapes for mask in found[shape.name])
    wanted = there | {name for name, count in users.items() if count > 1}
    wanted |= {name for name, other in wider.items() if other in wanted}
    return {
        shape.name: [
            mask
            for mask in found[shape.name]
            if shape.set_name(mask) in wanted or any(mask in c.layout.kept for c in shape.choice.candidates[:KEPT_BY])
        ]
        for shape in shapes
    }


def _most_rows(shape: Shape) -> float:
    return MOST_STORED * math.fsum(shape.model.graph.size(1 << i) for i in range(len(shape.labels)))


def _candidate(draft: Draft, shape: Shape, solution: Solution) -> Candidate:
    """The plan of a query in a solution."""
    if shape.name in solution.own:
        return draft.offered[solution.own[shape.name]]
    return shape.choice.maker.follow("together", draft.lines(shape, solution))


def price_together(choices: Sequence[Choice]) -> float:
    """Predicted seconds of all queries, with holding rows."""
    made = draw([choice.chosen.ways for choice in choices], decide=unite_by_cost(choices))
    return whole_bill(made, choices, with_holding(choices[0].known.prices)).seconds


def with_holding(prices: Prices) -> Prices:
    """Prices in which a stored row is also held."""
    return replace(prices, stored=HOLDING * prices.stored)
