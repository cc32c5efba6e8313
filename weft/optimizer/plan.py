"""From queries, what is wished and what is known to the topology that answers them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.optimizer.choose import Choice, choose
from weft.optimizer.known import Known
from weft.optimizer.lower.assemble import assemble
from weft.optimizer.lower.unite import unite_beside
from weft.optimizer.uniting import unite_by_cost
from weft.optimizer.wishes import Wishes
from weft.query.model import Query
from weft.topology.model import Policy, Topology


def choices(
    queries: Mapping[str, Query], workers: int, wishes: Mapping[str, Wishes], known: Mapping[str, Known]
) -> tuple[Choice, ...]:
    """The plan of each query, and what it was chosen from; `wishes` and `known` are by query."""
    return tuple(choose(name, query, workers, wishes[name], known[name]) for name, query in queries.items())


def topology(chosen: Sequence[Choice], policy: Policy = "min", old: Topology | None = None) -> Topology:
    """One topology for all chosen plans; `old` is the one that made the state that is there."""
    decide = unite_by_cost(chosen) if old is None else unite_beside(old, unite_by_cost(chosen))
    return assemble([choice.chosen.ways for choice in chosen], policy, decide)
