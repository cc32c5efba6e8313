"""Names by content: what queries have in common is one thing, however they are written, and nothing else is."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import weft
from tests.fuzz import Case, make_case, plain_functions, small_limits
from tests.planned import plan
from tests.topology.shop import session
from weft.expr.model import Call, Column, Expr, aliases, text_of, transform, without_alias
from weft.host.inprocess.run import InProcess
from weft.optimizer.cost.estimate import estimate
from weft.optimizer.cost.papers import CostModel
from weft.optimizer.graph.predicates import FLIP
from weft.optimizer.lower.labels import in_order, labels, predicate_text, stamp_order
from weft.optimizer.trees.orders import least_sent_orders
from weft.optimizer.trees.trees import cheapest
from weft.query.model import Output, Query, Relation, Stream
from weft.testing import assert_same_rows, expected_after_lateness
from weft.topology.label import stream_of
from weft.topology.model import Topology

STRATEGIES = ("flat", "left_deep", "exhaustive", "hypercube:hash", "hypercube:random")


# ------------------------------------------------------------------------------------ one query, written anew


def renamed(rng: random.Random, query: Query) -> Query:
    """The query with other aliases."""
    names = {alias: f"{rng.choice('abz')}{rng.randrange(10**6)}_{i}" for i, alias in enumerate(query.aliases)}

    def name(node: Expr) -> Expr:
        return Column(names[node.alias], node.name, node.type) if isinstance(node, Column) else node

    return Query(
        tuple(replace(relation, alias=names[relation.alias]) for relation in query.relations),
        tuple(transform(predicate, name) for predicate in query.predicates),
        tuple(Output(output.name, transform(output.expr, name)) for output in query.outputs),
        query.cross_product,
    )


def shuffled_where(rng: random.Random, query: Query) -> Query:
    """The query with its predicates in another order."""
    return replace(query, predicates=tuple(rng.sample(query.predicates, len(query.predicates))))


def shuffled_from(rng: random.Random, query: Query) -> Query:
    """The query with its relations in another order."""
    return replace(query, relations=tuple(rng.sample(query.relations, len(query.relations))))


def shape(topology: Topology) -> dict[str, Any]:
    """A topology without those who use it; what is watched is named as statistics name it, by alias."""
    return {
        "stores": {replace(store, users=(), reason="") for store in topology.stores},
        "starts": {replace(start, users=(), then=tuple(sorted(start.then))) for start in topology.starts},
        "probes": {replace(probe, users=(), then=tuple(sorted(probe.then))) for probe in topology.probes},
        "keeps": {replace(keep, users=()) for keep in topology.keeps},
        "edges": {
            replace(e, stores=tuple(sorted(e.stores)), starts=tuple(sorted(e.starts)), watch=()) for e in topology.edges
        },
        "clocks": set(topology.clocks),
    }


def is_told_apart(query: Query) -> bool:
    """Whether no two relations are the same, and no predicate belongs to whoever comes first."""
    relations = {
        (r.stream.name, frozenset(text_of(without_alias(p)) for p in query.selections(r.alias)))
        for r in query.relations
    }
    return len(relations) == len(query.relations) and all(aliases(p) for p in query.predicates)


def told_apart(count: int, first: int = 0) -> list[tuple[Case, Query]]:
    """Random queries in which no relation is there twice."""
    found: list[tuple[Case, Query]] = []
    seed = first
    while len(found) < count:
        case = make_case(seed)
        found += [(case, h.query) for h in case.session().queries.values() if is_told_apart(h.query)]
        seed += 1
    return found[:count]


QUERIES = told_apart(40)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_other_aliases_and_another_order_of_predicates_make_the_same_plan(strategy: str) -> None:
    rng = random.Random(1)
    for case, query in QUERIES:
        wanted = shape(plan({"q": query}, case.workers, {"q": {"strategy": strategy}}))
        for vary in (renamed, shuffled_where):
            assert shape(plan({"q": vary(rng, query)}, case.workers, {"q": {"strategy": strategy}})) == wanted, (
                f"seed {case.seed}"
            )


@pytest.mark.parametrize("strategy", ["flat", "exhaustive", "hypercube:hash"])
def test_another_order_of_relations_makes_the_same_plan(strategy: str) -> None:
    rng, same = random.Random(2), 0
    for case, query in QUERIES:
        wanted = shape(plan({"q": query}, case.workers, {"q": {"strategy": strategy}}))
        other = shuffled_from(rng, renamed(rng, query))
        found = shape(plan({"q": other}, case.workers, {"q": {"strategy": strategy}}))
        if found != wanted:  # of trees that cost the same, the first is taken
            assert strategy == "exhaustive", f"seed {case.seed}"
            assert tree_cost(query) == pytest.approx(tree_cost(other), rel=1e-9), f"seed {case.seed}"
        same += found == wanted
    assert same > 0.9 * len(QUERIES)


def tree_cost(query: Query) -> tuple[float, float]:
    """What the tree that sends least sends and stores."""
    model = CostModel(estimate(query, weft.Statistics()))
    tree = cheapest(model)
    return model.pcost(tree, least_sent_orders), model.scost(tree)


def test_two_queries_that_differ_in_how_they_are_written_share_everything() -> None:
    rng = random.Random(3)
    for case, query in QUERIES:
        alone = plan({"q": query}, case.workers)
        both = plan({"q": query, "p": renamed(rng, shuffled_where(rng, query))}, case.workers)
        assert len(both.stores) == len(alone.stores)
        assert {probe.id for probe in both.probes} == {probe.id for probe in alone.probes}
        assert {start.id for start in both.starts} == {start.id for start in alone.starts}
        assert all(probe.users == ("q", "p") for probe in both.probes)


def test_the_order_in_which_queries_come_changes_no_store() -> None:
    for seed in range(40):
        case = make_case(seed, queries=3)
        queries = {name: handle.query for name, handle in case.session().queries.items()}
        one, other = (plan(given, case.workers) for given in (queries, dict(reversed(queries.items()))))
        assert {s.id for s in one.stores if not s.members} == {s.id for s in other.stores if not s.members}
        assert {probe.id for probe in one.probes} == {probe.id for probe in other.probes}


# --------------------------------------------------------------------------------------------- two queries

JOIN = """SELECT {0} FROM orders o, lines l, clicks k
          WHERE o.id = l."order" AND k.user = o.customer AND l.price > o.price {1} WITHIN INTERVAL '{2}' HOUR"""
PLAIN = JOIN.format("o.id", "", 1)


def topology_of(*queries: str, workers: int = 3, strategy: str = "flat") -> Topology:
    s = session(workers)
    for number, sql in enumerate(queries):
        s.query(f"q{number}", sql, strategy=strategy)
    return s.topology


@pytest.mark.parametrize("strategy", ["flat", "left_deep"])
def test_queries_that_differ_in_outputs_alone_share_all_probes(strategy: str) -> None:
    one = topology_of(PLAIN, strategy=strategy)
    both = topology_of(PLAIN, JOIN.format("l.part, k.page", "", 1), strategy=strategy)
    assert len(both.probes) == len(one.probes)
    assert len(both.stores) == len(one.stores)
    assert len(both.keeps) == len(one.keeps)
    assert all(probe.users == ("q0", "q1") for probe in both.probes)
    last = [probe for probe in both.probes if "emit q0" in probe.then]
    assert len(last) == 3
    assert all({"emit q0", "emit q1"} <= set(probe.then) for probe in last)


@pytest.mark.parametrize(
    "other",
    {
        "selection": JOIN.format("o.id", "AND o.price > 5", 1),
        "window": JOIN.format("o.id", "", 2),
        "predicate": JOIN.format("o.id", "AND o.price < 5 * l.price", 1),
    }.items(),
    ids=lambda pair: pair[0],
)
def test_queries_that_differ_in_what_they_join_do_not_share_results(other: tuple[str, str]) -> None:
    both = topology_of(PLAIN, other[1])
    for probe in both.probes:
        assert not {"emit q0", "emit q1"} <= set(probe.then), "a result of one query is one of the other"


def test_another_window_shares_the_store_and_no_probe() -> None:
    both = topology_of(PLAIN, JOIN.format("o.id", "", 2))
    assert len(both.stores) == 3
    assert all(len(probe.users) == 1 for probe in both.probes)


def test_another_selection_shares_what_it_does_not_touch() -> None:
    both = topology_of(PLAIN, JOIN.format("o.id", "AND o.price > 5", 1))
    assert sorted(store.stream for store in both.stores) == ["clicks", "lines", "orders"]
    assert all(len(probe.users) == 1 for probe in both.probes), "every way meets orders, first or second"
    checked = [probe for probe in both.probes if probe.members[0].startswith("orders~")]
    assert len(checked) == 2
    assert all(any("price" in repr(part) for part in probe.residual) for probe in checked), "each checks its own"


def test_equal_beginnings_are_one_and_part_where_they_differ() -> None:
    two = """SELECT o.id FROM orders o, lines l WHERE o.id = l."order" """
    three = """SELECT o.id FROM orders o, lines l, customer c WHERE o.id = l."order" AND l.part = c.name"""
    both = topology_of(two, three, workers=1)
    [start] = [s for s in both.starts if s.label == "orders"]
    assert start.users == (("q0", "o"), ("q1", "o"))
    [first] = start.then
    assert len(both.nodes[first].users) == 2
    assert {name for name in both.nodes[first].then if name.startswith("emit")} == {"emit q0"}  # type: ignore[union-attr]
    assert len(both.nodes[first].then) == 2  # type: ignore[union-attr]


def test_an_intermediate_store_is_shared_and_filled_once() -> None:
    chain = """SELECT {0} FROM orders o, lines l, {1} x WHERE o.id = l."order" AND o.customer = x.{2}"""
    s = session(2)
    kept = weft.Plan([("o", "l")], placement={"o": "o.id", "l": 'l."order"', ("o", "l"): "o.customer"})
    s.query("a", chain.format("x.name", "customer", "id"), strategy=kept)
    s.query("b", chain.format("x.page", "clicks", "user"), strategy=kept)
    stores = [store for store in s.topology.stores if store.members]
    assert [store.users for store in stores] == [("a.o+l", "b.o+l")]
    other = weft.Plan([("o", "l")], placement={"o": None, "l": None, ("o", "l"): "o.customer"})
    s.query("c", chain.format("o.id", "clicks", "user"), strategy=other)
    stores = [store for store in s.topology.stores if store.members]
    assert [store.users for store in stores] == [("a.o+l", "b.o+l", "c.o+l")], "the first query fills it for all"
    assert sorted(keep.users for keep in s.topology.keeps) == [("a", "b", "c")] * 2


# ---------------------------------------------------------------------------------------------- many queries


def count_parts(topology: Topology) -> tuple[int, int, int]:
    return len(topology.probes), len(topology.stores), len(topology.keeps)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(12))
def test_queries_answer_together_as_each_alone(seed: int) -> None:
    rng = random.Random(seed)
    case = make_case(seed + 500, queries=rng.randint(2, 5))
    handles = case.session().queries
    queries = {name: handle.query for name, handle in handles.items() if len(handle.query.relations) < 5}
    queries |= {f"{name} again": renamed(rng, query) for name, query in queries.items() if rng.random() < 0.5}
    asked = {name: {"strategy": rng.choice(["flat", "left_deep", "exhaustive"])} for name in queries}
    together = InProcess(plan(queries, case.workers, asked), plain_functions())
    alone = [plan({name: query}, case.workers, asked) for name, query in queries.items()]
    sums = [sum(parts) for parts in zip(*map(count_parts, alone), strict=True)]
    assert all(mine <= most for mine, most in zip(count_parts(together.topology), sums, strict=True))
    with small_limits(rng):
        for batch in case.batches:
            together.feed(batch)
    for name, query in queries.items():
        wanted = expected_after_lateness(query, case.batches, plain_functions())
        assert_same_rows(together.table(name), wanted, f"seed {seed}, {name}: ")


# ---------------------------------------------------------------------------------------------- the names

STREAM = Stream("orders", pa.schema([("k", pa.int64()), ("j", pa.int64())]))
OTHER = Stream("parts", STREAM.schema, table=True)


def column(alias: str, name: str = "k") -> Column:
    return Column(alias, name, pa.int64())


def compare(op: str, left: Expr, right: Expr) -> Expr:
    return Call(op, (left, right), pa.bool_())


def query_of(relations: Iterable[Relation], *predicates: Expr) -> Query:
    made = tuple(relations)
    return Query(made, predicates, (Output("x", column(made[0].alias)),), cross_product=True)


def test_labels_say_what_a_relation_is() -> None:
    chosen = compare(">", column("c"), column("c", "j"))
    found = labels(query_of([Relation("a", STREAM), Relation("b", STREAM), Relation("c", STREAM)], chosen))
    assert found["a"] == "orders"
    assert found["b"] == "orders~2"
    assert found["c"].startswith("orders~")
    assert len(found["c"]) == len("orders~") + 8
    assert {stream_of(label) for label in found.values()} == {"orders"}


def test_the_order_of_selections_does_not_matter() -> None:
    first, second = compare(">", column("a"), column("a", "j")), compare("<>", column("a"), column("a", "j"))
    one = labels(query_of([Relation("a", STREAM)], first, second))
    assert one == labels(query_of([Relation("a", STREAM)], second, first))
    assert one != labels(query_of([Relation("a", STREAM)], first))


def test_tables_are_stamped_first() -> None:
    found = stamp_order(query_of([Relation("a", STREAM), Relation("z", OTHER)]))
    assert sorted(found, key=lambda alias: found[alias]) == ["z", "a"]


@pytest.mark.parametrize("op", FLIP)
def test_a_turned_comparison_has_the_same_text(op: str) -> None:
    left, right = column("a"), column("b", "j")
    assert predicate_text(compare(op, left, right)) == predicate_text(compare(FLIP[op], right, left))
    other = "<" if op != "<" else "<="
    assert predicate_text(compare(op, left, right)) != predicate_text(compare(other, left, right))


def test_predicates_are_put_in_one_order() -> None:
    relations = [Relation("a", STREAM), Relation("b", OTHER)]
    one, other = compare("=", column("a"), column("b")), compare("<", column("a", "j"), column("b", "j"))
    assert in_order(query_of(relations, one, other)) == in_order(query_of(relations, other, one))
