"""Stage "candidates": every plan that was considered, its expected cost, and why one of them won."""

from __future__ import annotations

import math

from weft.explain.assumed import asked, inputs, pairs
from weft.explain.chosen import tree
from weft.explain.figures import Figures, period
from weft.explain.pages.candidates import CandidateNumbers, CandidatesOfQuery, CandidatesPage, PriceList
from weft.explain.sharing import together
from weft.explain.subject import Subject
from weft.explain.words import layout_shape, number, plan_name
from weft.optimizer.candidate import Candidate
from weft.optimizer.choose import Choice
from weft.optimizer.cost.prices import Prices
from weft.optimizer.joint.together import is_open
from weft.optimizer.written.plan import Plan

SHOWN = 10
"""How many of the cheapest are shown."""


def page(subject: Subject) -> CandidatesPage:
    """The page."""
    choices, topology = subject.choose(), subject.lay()
    figures = Figures(choices, topology, None)
    prices = _prices(choices[0].known.prices if choices else Prices())
    return CandidatesPage(
        "candidates", topology.workers, prices, tuple(_query(c, figures) for c in choices), together(choices)
    )


def _prices(prices: Prices) -> PriceList:
    millis = [price * 1e3 for price in (prices.wave, prices.batch)]
    nanos = (prices.sent, prices.probed, prices.checked, prices.matched, prices.stored, prices.emitted)
    return PriceList(prices.source, *millis, *(price * 1e9 for price in nanos))


def _query(choice: Choice, figures: Figures) -> CandidatesOfQuery:
    wishes, strategy = choice.wishes, choice.strategy
    return CandidatesOfQuery(
        choice.name,
        "as before" if choice.known.made else "by hand" if isinstance(strategy, Plan) else strategy,
        choice.informed,
        period(choice),
        None if math.isinf(wishes.budget) else wishes.budget,
        "bytes" if wishes.unit == "bytes" else "rows",
        inputs(choice),
        pairs(choice),
        len(choice.weighed),
        tuple(_numbers(choice, candidate) for candidate in _best(choice)),
        max(candidate.bill.micros for candidate in choice.weighed),
        f"{plan_name(choice, choice.chosen)} {layout_shape(choice.query, choice.chosen.layout)}",
        because(choice),
        tree(choice, figures),
        *asked(choice),
    )


# -------------------------------------------------------------------------------------------- candidates


def _best(choice: Choice) -> list[Candidate]:
    """The cheapest, and all that have a name."""
    found = choice.weighed
    named = [c for c in found[SHOWN:] if c.name != "other" and not c.name.endswith("kept")]
    return [*found[:SHOWN], *named]


def _numbers(choice: Choice, candidate: Candidate) -> CandidateNumbers:
    bill = candidate.bill
    fixed = bill.seconds - bill.work / candidate.ways.workers
    return CandidateNumbers(
        plan_name(choice, candidate),
        layout_shape(choice.query, candidate.layout),
        bill.pcost,
        bill.sent,
        bill.scost,
        bill.waves,
        bill.micros,
        fixed / bill.rows * 1e6 if bill.rows else 0.0,
        candidate is choice.chosen,
    )


def because(choice: Choice) -> str:
    """Why this candidate was chosen, in one sentence."""
    strategy, note = choice.wishes.strategy, choice.together
    if choice.known.made is not None:
        return "the state in the checkpoint was made by this plan"
    if note is not None and note.used and is_open(choice):
        return "it is part of the cheapest plan for all queries together"
    if isinstance(strategy, Plan):
        return "it was written by hand; what it leaves open was chosen by cost"
    if strategy != "auto":
        return f'strategy="{strategy}" was asked for'
    if len(choice.query.relations) < 3 and len(choice.weighed) == 1:
        count = len(choice.query.relations)
        return f"a query over {count} alias{'es' * (count > 1)} has no other tree"
    if not choice.informed:
        return "nothing is known of the data, and a wrong guess could fill a disk"
    return _cheapest(choice)


def _cheapest(choice: Choice) -> str:
    found = choice.weighed
    if len(found) == 1:
        return "there is no other plan within the budget"
    best, next_best = found[0], found[1]
    other = plan_name(choice, next_best)
    if best.price == next_best.price:
        return f"no other of {len(found)} plans is cheaper; {other} costs and stores the same"
    if best.price[0] == next_best.price[0]:
        fewer = number(next_best.bill.scost - best.bill.scost)
        return f"no other of {len(found)} plans is cheaper; {other} costs the same, and stores {fewer} rows more"
    more = (next_best.bill.micros / best.bill.micros - 1) * 100 if best.bill.micros else 0.0
    return f"it is the cheapest of {len(found)} plans; {other} would cost {number(more)} % more"
