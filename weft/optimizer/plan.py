"""From queries and knobs to the topology that answers them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.optimizer.choose import Choice, choose
from weft.optimizer.knobs import Knobs
from weft.optimizer.lower.assemble import assemble
from weft.query.model import Query
from weft.topology.model import Policy, Topology


def choices(
    queries: Mapping[str, Query], workers: int, knobs: Mapping[str, Knobs] | Knobs | None = None
) -> tuple[Choice, ...]:
    """The plan of each query, and what it was chosen from."""
    every = knobs if isinstance(knobs, Knobs) else Knobs()
    given = knobs if isinstance(knobs, Mapping) else {}
    return tuple(choose(name, query, workers, given.get(name, every)) for name, query in queries.items())


def topology(chosen: Sequence[Choice], policy: Policy = "min") -> Topology:
    """One topology for all chosen plans."""
    return assemble([choice.chosen.ways for choice in chosen], policy)
