"""The last check of a plan refuses every plan that cannot run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from tests.optimizer.test_plans import ways
from tests.topology.shop import QUERIES, session
from weft.errors import InternalError
from weft.expr.model import Column
from weft.query.model import Query
from weft.topology.check import check
from weft.topology.model import Topology


@pytest.fixture
def plan() -> tuple[Topology, dict[str, Query]]:
    s = session()
    for name in ("triangle", "matched"):
        s.query(name, QUERIES[name])
    return s.topology, {name: handle.query for name, handle in s.queries.items()}


def probe(topology: Topology, where: str, **changes: Any) -> Topology:
    """The plan with another probe at `query/alias/number`."""
    query, alias, number = where.split("/")
    name = next(way for start, way in ways(topology, query) if start == alias)[int(number) - 1].id
    return replace(topology, probes=tuple(replace(p, **changes) if p.id == name else p for p in topology.probes))


BROKEN: dict[str, Callable[[Topology], Topology]] = {
    "a start is missing": lambda t: replace(t, starts=t.starts[1:]),
    "a start is there twice": lambda t: replace(t, starts=(*t.starts, t.starts[0])),
    "a store gets no rows": lambda t: replace(t, edges=tuple(replace(e, stores=()) for e in t.edges)),
    "a store gets rows twice": lambda t: replace(
        t, edges=(*t.edges, replace(next(e for e in t.edges if e.stores), id="again", starts=()))
    ),
    "a start gets no rows": lambda t: replace(t, edges=tuple(replace(e, starts=e.starts[1:]) for e in t.edges)),
    "a probe leads nowhere": lambda t: probe(t, "triangle/o/1", then=("nobody",)),
    "a probe order ends too early": lambda t: probe(t, "triangle/o/1", then=("emit triangle",)),
    "a field is not carried": lambda t: probe(t, "triangle/o/1", carry=()),
    "a field is carried that nobody has": lambda t: probe(t, "triangle/o/1", carry=("orders.nothing",)),
    "keys of different types meet": lambda t: probe(t, "matched/o/1", equal=(Column("orders", "price", pa.float64()),)),
    "a probe runs before its input": lambda t: probe(t, "triangle/o/2", wave=0),
    "an emit is missing": lambda t: replace(t, emits=t.emits[1:]),
}


def test_the_plan_itself_is_sound(plan: tuple[Topology, dict[str, Query]]) -> None:
    check(*plan)


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_plan_is_refused(what: str, plan: tuple[Topology, dict[str, Query]]) -> None:
    topology, queries = plan
    with pytest.raises(InternalError, match="the plan is broken"):
        check(BROKEN[what](topology), queries)
