"""Whether selections of one stream share a store, by what it saves and what it adds at the prices of the host.

    saved   rows that several selections want are sent and stored once
    added   a probe meets more candidates, and checks its own selection on each

Shares of selections are taken as independent.  Where no statistics are there, a selection shares a store with one that
implies it, or that it implies, and with no other (`weft.optimizer.lower.unite`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from weft.expr.implied import implies
from weft.optimizer.choose import Choice
from weft.optimizer.cost.estimate import selected_share
from weft.optimizer.lower.unite import Decide, Wanted, unite_implied
from weft.stats.model import DEFAULTS


def unite_by_cost(chosen: Sequence[Choice]) -> Decide:
    """Unite selections of some plans where that makes them cheaper."""
    plans = {choice.name: choice for choice in chosen}

    def decide(group: Sequence[Wanted]) -> bool:
        users = [plans[query] for wanted in group for query, _ in wanted.users]
        if not all(choice.informed for choice in users) or len({choice.model.arrival for choice in users}) > 1:
            return unite_implied(group)
        return _saved(group, plans) > _added(group, plans)

    return decide


def _saved(group: Sequence[Wanted], plans: Mapping[str, Choice]) -> float:
    """Seconds that are saved if the last selection joins the others."""
    *others, new = group
    prices = plans[new.users[0][0]].known.prices
    rows = max(_arrivals(wanted, plans) / _share(wanted, plans) for wanted in group)
    twice = _any_of(others, plans) + _share(new, plans) - _any_of(group, plans)
    return rows * twice * (prices.stored + prices.sent)


def _added(group: Sequence[Wanted], plans: Mapping[str, Choice]) -> float:
    """Seconds that are added to the probes of all users."""
    *others, new = group
    every, before = _any_of(group, plans), _any_of(others, plans)
    prices = plans[new.users[0][0]].known.prices
    more = [_matches(new, plans) * (every - _share(new, plans)) / _share(new, plans)]
    more += [_matches(wanted, plans) * (every - before) / _share(wanted, plans) for wanted in others]
    return math.fsum(more) * prices.checked


def _share(wanted: Wanted, plans: Mapping[str, Choice]) -> float:
    """The share of the stream's rows that a selection lets through; never 0, so that it can be divided by."""
    name, position = wanted.users[0]
    choice = plans[name]
    assert choice.known.statistics is not None
    alias = choice.query.aliases[position]
    return max(1e-9, selected_share(choice.query, alias, choice.known.statistics, DEFAULTS))


def _any_of(group: Sequence[Wanted], plans: Mapping[str, Choice]) -> float:
    """The share of rows that any of the selections lets through."""
    widest: list[Wanted] = []
    for one in sorted(group, key=lambda wanted: -_share(wanted, plans)):
        if not any(implies(one.selection, other.selection) for other in widest):
            widest.append(one)
    return 1.0 - math.prod(1.0 - _share(wanted, plans) for wanted in widest)


def _arrivals(wanted: Wanted, plans: Mapping[str, Choice]) -> float:
    return max(plans[name].model.count_started(1 << at, 1 << at) for name, at in wanted.users)


def _matches(wanted: Wanted, plans: Mapping[str, Choice]) -> float:
    """Matches that all users find in the store."""
    found = []
    for name, at in wanted.users:
        ways, matched = plans[name].chosen.ways, plans[name].chosen.bill.matched
        hops = ((alias, i, hop) for alias in ways.query.aliases for i, hop in enumerate(ways.hops(alias), start=1))
        found += [matched[alias, i] for alias, i, hop in hops if hop.store == 1 << at and (alias, i) in matched]
    return math.fsum(found)
