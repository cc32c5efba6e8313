"""What holds for every plan: no cross product unless asked for, shared stores, rows that are sent once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import pytest

import weft
from tests.fuzz import make_case
from tests.topology.shop import QUERIES, session
from weft.errors import PlanError, QueryError
from weft.explain.words import call
from weft.expr.model import Expr, aliases
from weft.query.model import Query
from weft.topology.model import Topology
from weft.topology.node import Probe


def ways(topology: Topology, query: str) -> Iterator[tuple[str, list[Probe]]]:
    """For every alias the probes of its tuples in order, in terms of aliases."""
    called = topology.aliases_of(query)
    for alias, (start, *_) in topology.all_starts_of(query).items():
        found: list[Probe] = []
        following = start.then
        while following:
            ahead = [topology.nodes[name] for name in following]
            mine = [node for node in ahead if isinstance(node, Probe) and query in node.users]
            found += [as_called(probe, called) for probe in mine]
            following = mine[0].then if mine else ()
        yield alias, found


def as_called(probe: Probe, called: Mapping[str, str]) -> Probe:
    """The probe with aliases in the place of labels."""
    return replace(
        probe,
        members=tuple(called[label] for label in probe.members),
        sees=tuple(called.get(label, label) for label in probe.sees),
        residual=tuple(call(predicate, called) for predicate in probe.residual),
    )


def due(query: Query, bound: set[str], target: Iterable[str]) -> list[Expr]:
    """The predicates that can be checked when `target` joins `bound`."""
    new = set(target)
    return [p for p in query.joins if aliases(p) & new and aliases(p) & bound and aliases(p) <= bound | new]


@pytest.mark.parametrize("chunk", range(8))
def test_random_plans_make_no_cross_product_and_meet_every_alias_once(chunk: int) -> None:
    for seed in range(chunk * 25, chunk * 25 + 25):
        s = make_case(seed).session()
        topology = s.topology
        for name, handle in s.queries.items():
            for start, probes in ways(topology, name):
                bound = {start}
                for probe in probes:
                    assert due(handle.query, bound, probe.members), f"seed {seed}: {probe.id} is a cross product"
                    bound.update(probe.members)
                assert bound == set(handle.query.aliases)
                assert sum(len(probe.members) for probe in probes) == len(handle.query.aliases) - 1


@pytest.mark.parametrize("chunk", range(4))
def test_every_predicate_is_checked_on_every_way(chunk: int) -> None:
    """By an index or as a residual, at the hop where its last alias is met."""
    for seed in range(300 + chunk * 25, 325 + chunk * 25):
        s = make_case(seed).session()
        topology = s.topology
        for name, handle in s.queries.items():
            for start, probes in ways(topology, name):
                bound = {start}
                for probe in probes:
                    missing = [p for p in due(handle.query, bound, probe.members) if p not in probe.residual]
                    means = len(probe.equal) + len(probe.low) + len(probe.high)
                    assert len(set(missing)) <= means, f"seed {seed}: {probe.id} drops a predicate"
                    bound.update(probe.members)


def test_exactly_one_of_two_tuples_of_one_batch_finds_the_other() -> None:
    for seed in range(60):
        s = make_case(seed).session()
        topology = s.topology
        for name in s.queries:
            seen = {
                (start, alias): alias in probe.sees if len(probe.members) > 1 else bool(probe.sees)
                for start, probes in ways(topology, name)
                for probe in probes
                for alias in probe.members
            }
            for (a, b), sees in seen.items():
                assert sees != seen[b, a]
                starts = topology.all_starts_of(name)
                assert sees == (starts[b][0].position < starts[a][0].position)


def test_a_cross_product_must_be_asked_for() -> None:
    sql = "SELECT o.id, l.part FROM orders o, lines l WHERE o.price > 1"
    with pytest.raises((PlanError, QueryError), match="cross product"):
        session().query("q", sql)
    s = session()
    s.query("q", sql, cross_product=True)
    assert len(s.topology.probes) == 2


def test_aliases_of_one_stream_share_a_store_if_they_keep_the_same_rows() -> None:
    s = session(1)
    s.query(
        "q", "SELECT a.id AS x, b.id AS y FROM orders a, orders b WHERE a.price < b.price WITHIN INTERVAL '1' MINUTE"
    )
    [store] = s.topology.stores
    assert store.users == ("q.a", "q.b")


def test_a_selection_of_rows_that_are_kept_anyway_has_no_store_of_its_own() -> None:
    s = session(1)
    s.query("q", "SELECT a.id AS x, b.id AS y FROM orders a, orders b WHERE a.price < b.price AND a.id > 5")
    [store] = s.topology.stores
    assert store.filter == ()


def test_other_selections_have_stores_of_their_own() -> None:
    s = session(1)
    s.query(
        "q", "SELECT a.id AS x, b.id AS y FROM orders a, orders b WHERE a.price < b.price AND a.id > 5 AND b.id < 9"
    )
    assert len(s.topology.stores) == 2


def test_queries_share_stores_columns_are_united_and_the_longest_retention_wins() -> None:
    s = session(2)
    for name, column, minutes in (("short", "part", 1), ("long", "price", 10)):
        s.query(
            name,
            f"""SELECT o.id, l.{column} FROM orders o JOIN lines l ON l."order" = o.id
                WITHIN INTERVAL '{minutes}' MINUTE""",
        )
    stores = {store.stream: store for store in s.topology.stores}
    assert set(stores) == {"orders", "lines"}
    assert len(s.topology.stores) == 2
    assert {"part", "price"} <= set(stores["lines"].columns)
    assert stores["lines"].retention == 10 * 60_000_000 - 1
    assert set(stores["lines"].users) == {"short.l", "long.l"}


def test_queries_with_other_clocks_share_stores() -> None:
    """Rows stay until both watermarks have passed them."""
    s = session(1)
    s.query("two", QUERIES["matched"])
    s.query("three", QUERIES["triangle"])
    [lines] = [store for store in s.topology.stores if store.stream == "lines"]
    assert len(lines.users) == len(s.topology.clocks) == 2
    [edge] = [edge for edge in s.topology.edges if lines.id in edge.stores]
    assert set(edge.clocks) == {clock.id for clock in s.topology.clocks}


def test_a_single_worker_needs_one_wave() -> None:
    s = session(1)
    for name, sql in QUERIES.items():
        s.query(name, sql)
    assert s.topology.waves == 1
    assert all(probe.route == "local" for probe in s.topology.probes)


def test_rows_are_stored_and_probed_by_one_edge_where_their_key_is_the_same() -> None:
    s = session(4)
    s.query("matched", QUERIES["matched"])
    topology = s.topology
    assert len(topology.edges) == 2
    assert all(edge.stores and edge.starts and edge.route == "key" for edge in topology.edges)


@pytest.mark.parametrize("seed", range(40))
def test_store_and_edge_names_are_unique(seed: int) -> None:
    topology = make_case(seed, queries=3).session().topology
    for things in (topology.stores, topology.edges, topology.starts, topology.probes, topology.emits):
        names = [thing.id for thing in things]
        assert len(set(names)) == len(names)


def test_the_same_query_twice_costs_no_second_store() -> None:
    s = session(3)
    s.query("one", QUERIES["triangle"])
    before = len(s.topology.stores)
    s.query("two", QUERIES["triangle"])
    assert len(s.topology.stores) == before
    assert isinstance(s, weft.Session)


def test_a_plan_gives_workers_only_to_stores_there_are() -> None:
    s = session(3)
    s.query("one", "SELECT o.id FROM orders o WHERE o.price > 1", parallelism={"o": 2})
    [choice] = s.choices
    assert dict(choice.chosen.layout.tasks) == {}
