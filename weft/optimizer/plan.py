"""From queries, what is wished and what is known to the topology that answers them.

global   the plans of all queries are chosen together, and equal parts are there once
local    each query has its own best plan; equal stores, probes and intermediate results are there once
none     every query as if it were alone
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from weft.optimizer.choose import Choice, choose
from weft.optimizer.joint.together import choose_together
from weft.optimizer.known import Known
from weft.optimizer.lower.apart import set_apart
from weft.optimizer.lower.assemble import assemble
from weft.optimizer.lower.unite import unite_beside
from weft.optimizer.uniting import unite_by_cost
from weft.optimizer.wishes import Wishes
from weft.query.derived import hidden
from weft.query.model import Query
from weft.topology.clock import Policy
from weft.topology.model import Topology

Sharing = Literal["global", "local", "none"]
"""What queries have in common."""
SHARINGS: tuple[Sharing, ...] = ("global", "local", "none")


def choices(
    queries: Mapping[str, Query],
    workers: int,
    wishes: Mapping[str, Wishes],
    known: Mapping[str, Known],
    sharing: Sharing = "global",
) -> tuple[Choice, ...]:
    """The plan of each query, and what it was chosen from; `wishes` and `known` are by query.

    Branches of derived streams that the queries read are planned beside them, without wishes if none are given.
    """
    every = {**queries, **hidden(queries)}
    own = tuple(
        choose(name, query, workers, wishes.get(name, Wishes()), known.get(name) or _little_known(known))
        for name, query in every.items()
    )
    return choose_together(own) if sharing == "global" else own


def _little_known(known: Mapping[str, Known]) -> Known:
    """What is known of a query of which nothing was said: prices and sizes are those of the others."""
    one = next(iter(known.values()), Known())
    return Known(sizes=one.sizes, prices=one.prices)


def topology(
    chosen: Sequence[Choice], policy: Policy = "min", sharing: Sharing = "global", old: Topology | None = None
) -> Topology:
    """One topology for all chosen plans; `old` is the one that made the state that is there."""
    if sharing == "none":
        return set_apart({group[0].name: assemble([c.chosen.ways for c in group], policy) for group in _alone(chosen)})
    plans, decide = [choice.chosen.ways for choice in chosen], unite_by_cost(chosen)
    if old is None:
        return assemble(plans, policy, decide)
    return assemble(plans, policy, unite_beside(old, decide), {store.content for store in old.stores})


def _alone(chosen: Sequence[Choice]) -> list[list[Choice]]:
    """Each query with the branches of the derived streams that it reads; queries that read the same go together."""
    groups: list[list[Choice]] = []
    for choice in chosen:
        mine = {choice.name, *hidden({choice.name: choice.query})}
        met = [group for group in groups if any(mine & {c.name, *hidden({c.name: c.query})} for c in group)]
        groups = [group for group in groups if group not in met]
        groups.append([*(one for group in met for one in group), choice])
    return groups
