"""Topologies of hand-made queries, planned as a session plans them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weft.optimizer.known import Known
from weft.optimizer.lower.assemble import assemble
from weft.optimizer.lower.unite import Decide
from weft.optimizer.plan import choices, topology
from weft.optimizer.wishes import Wishes, read_wishes
from weft.query.model import Query
from weft.topology.model import Topology

WISHES = ("strategy", "budget", "placement", "capacity", "arrival", "parallelism", "skewed")


def plan(
    queries: Mapping[str, Query],
    workers: int,
    asked: Mapping[str, Mapping[str, Any]] | None = None,
    decide: Decide | None = None,
) -> Topology:
    """The topology of some queries; `asked` are the arguments that `Session.query` would get, by query.

    `decide` says which selections share a store, instead of the prices of the host.
    """
    given = {name: (asked or {}).get(name, {}) for name in queries}
    wishes = {name: Wishes(**read_wishes(*map(mine.get, WISHES))) for name, mine in given.items()}
    known = {name: Known(mine.get("statistics")) for name, mine in given.items()}
    made = choices(queries, workers, wishes, known)
    return topology(made) if decide is None else assemble([choice.chosen.ways for choice in made], decide=decide)
