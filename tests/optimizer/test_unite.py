"""Selections that share a store, places that are one place, and relations that are one under other names."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import weft
from tests.topology.shop import session
from weft.expr.model import Column, text_of
from weft.host.routing import cube_places, route
from weft.optimizer.plan import topology
from weft.topology.check import check
from weft.topology.model import Topology
from weft.topology.spread import Axis, Cube
from weft.topology.store import Store

PAIR = 'SELECT o.id, l.part FROM orders o, lines l WHERE o.id = l."order" {}'


def made(*queries: str, workers: int = 2, **wishes: object) -> Topology:
    s = session(workers)
    for number, sql in enumerate(queries):
        s.query(f"q{number}", sql, **({"strategy": "flat"} | wishes))  # type: ignore[arg-type]
    return s.topology


def stores(plan: Topology, stream: str = "orders") -> list[Store]:
    return [store for store in plan.stores if store.stream == stream]


def test_a_narrower_selection_looks_into_the_wider_store_and_checks_its_own() -> None:
    plan = made(PAIR.format("AND o.price > 5"), PAIR.format("AND o.price > 7"))
    [orders] = stores(plan)
    assert len(orders.users) == 2
    assert "price" in orders.columns
    checks = {p.users: [text_of(part) for part in p.residual] for p in plan.probes if p.store == orders.id}
    assert not checks["q0",]
    assert len(checks["q1",]) == 1
    [edge] = [edge for edge in plan.edges if orders.id in edge.stores]
    assert len(edge.starts) == 2, "both start from the rows that the store gets"
    filters = {plan.start_by_id[start].users[0][0]: plan.start_by_id[start].filter for start in edge.starts}
    assert filters["q0"] == ()
    assert len(filters["q1"]) == 1


def test_selections_that_do_not_imply_each_other_stay_apart_where_nothing_is_known() -> None:
    assert len(stores(made(PAIR.format("AND o.price > 5"), PAIR.format("AND o.customer < 7")))) == 2


def test_statistics_decide_whether_selections_share() -> None:
    """Few rows are saved by sharing with a rare selection, and its probes would check half of all orders."""
    queries = [PAIR.format("AND o.price > 5"), PAIR.format("AND o.customer <> 7")]
    rows = {"orders": 1e6, "lines": 1e6}
    pair = ("orders", "lines")
    wide = {"o.price > 5": 0.9, "o.customer <> 7": 0.9}
    few = weft.Statistics(rows, selectivities={pair: 1e-6}, predicates=wide)
    assert len(stores(made(*queries, statistics=few))) == 1
    rare = {"o.price > 5": 0.5, "o.customer <> 7": 1e-6}
    many = weft.Statistics(rows, selectivities={pair: 1e-2}, predicates=rare)
    assert len(stores(made(*queries, statistics=many))) == 2


def test_what_the_state_keeps_apart_stays_apart_and_what_it_unites_stays_united() -> None:
    s = session(2)
    s.query("q0", PAIR.format("AND o.price > 7"), strategy="flat")
    old = s.topology
    s.query("q1", PAIR.format("AND o.price > 5"), strategy="flat")
    assert len(stores(topology(s.choices))) == 1
    beside = topology(s.choices, old=old)
    assert len(stores(beside)) == 2, "the state has no rows of a price between 5 and 7"
    assert {store.id for store in old.stores if store.stream == "orders"} <= {store.id for store in beside.stores}
    wider = topology(s.choices)
    assert stores(topology(s.choices, old=wider)) == stores(wider)


def test_queries_set_apart_have_all_they_need() -> None:
    s = session(2)
    for name in ("q0", "q1"):
        s.query(name, PAIR.format("WITHIN INTERVAL '1' MINUTE"), strategy="flat")
    plan = topology(s.choices, sharing="none")
    check(plan, {name: handle.query for name, handle in s.queries.items()})
    assert [clock.queries for clock in plan.clocks] == [("q0", "q1")]
    assert len({store.content for store in plan.stores}) == len(plan.stores) == 4


def test_relations_under_other_names_and_self_joins_share() -> None:
    self_join = """SELECT a.id AS x, b.id AS y FROM orders a, orders b
                   WHERE a.customer = b.customer AND a.price < b.price WITHIN INTERVAL '{}' MINUTE"""
    plan = made(
        self_join.format(1),
        self_join.format(5).replace("a.", "p.").replace("b.", "q.").replace("orders a, orders b", "orders p, orders q"),
        "SELECT z.page, w.id FROM clicks z, orders w WHERE z.user = w.customer WITHIN INTERVAL '2' MINUTE",
    )
    [orders] = stores(plan)
    assert sorted(orders.users) == ["q0.a", "q0.b", "q1.p", "q1.q", "q2.w"]
    assert len(plan.clocks) == len(orders.expiry) == 2
    assert orders.retention == 5 * 60_000_000 - 1


def test_a_cube_of_one_hash_axis_is_a_placement_by_its_key() -> None:
    keyed, cube = (made(PAIR.format(""), strategy=strategy) for strategy in ("flat", "hypercube:hash"))
    assert [store.id for store in keyed.stores] == [store.id for store in cube.stores]
    assert [edge.id for edge in keyed.edges] == [edge.id for edge in cube.edges]
    s = session(3)
    s.query("flat", PAIR.format(""), strategy="flat")
    s.query("cube", PAIR.format("AND o.customer = 1"), strategy="hypercube:hash")
    assert len(s.topology.stores) == 2


@pytest.mark.parametrize("kind", [pa.int64(), pa.string(), pa.float64()])
def test_such_a_cube_and_a_key_bring_equal_values_to_equal_workers(kind: pa.DataType) -> None:
    values = pa.array(range(500), pa.int64()).cast(kind)
    frame = pa.RecordBatch.from_arrays([values, pa.array(range(500))], names=["k", "n"])
    key = Column("", "k", kind)
    for workers in (2, 3, 7):
        rows, places = cube_places(frame, Cube((Axis(workers, "hash", key),)), {}, 0)
        by_cube = dict(zip(rows.tolist(), places.tolist(), strict=True))
        by_key = {
            n: worker for worker, part in route(frame, "key", (key,), workers, {}, 0) for n in part["n"].to_pylist()
        }
        assert by_cube == by_key
        assert np.unique(places).size == workers
