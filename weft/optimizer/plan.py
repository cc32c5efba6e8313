"""From queries and knobs to the topology that answers them."""

from __future__ import annotations

from collections.abc import Mapping

from weft.optimizer.assemble import assemble
from weft.optimizer.choose import Knobs, choose
from weft.optimizer.layout import Layout
from weft.optimizer.placement import Sizes
from weft.optimizer.ways import ways
from weft.query.model import Query
from weft.stats.model import Statistics
from weft.topology.model import Policy, Topology


def plan(
    queries: Mapping[str, Query],
    workers: int,
    sizes: Sizes,
    policy: Policy = "min",
    statistics: Statistics | None = None,
    layouts: Mapping[str, Layout] | None = None,
) -> Topology:
    """The topology that answers all queries."""
    given = layouts or {}
    knobs = Knobs(statistics=statistics, sizes=sizes)
    chosen = {name: given.get(name) or choose(query, workers, knobs) for name, query in queries.items()}
    return assemble([ways(name, query, chosen[name], workers) for name, query in queries.items()], policy)
