"""Probe orders: those of the papers, the best ones, and never a cross product that could be avoided."""

from __future__ import annotations

import itertools
import math
import time

import pytest

from bench.byhand import join_graph
from tests.optimizer.graphs import Q2, Q3, RST, clique, leaves, random_graph
from tests.optimizer.papers import least_sent_greedy
from weft.optimizer.cost.papers import Arrival, CostModel, Order
from weft.optimizer.graph.joingraph import JoinGraph
from weft.optimizer.graph.tree import Tree
from weft.optimizer.trees.orders import exhaustive_order, greedy_order, least_sent_orders, refine_order


def names(graph: JoinGraph, order: Order) -> list[str]:
    return [graph.names(store.relations)[0] for store in order.stores]


def avoids_cross_products(graph: JoinGraph, order: Order) -> bool:
    covered = 0
    for i, store in enumerate(order.stores):
        near = graph.neighbours(covered)
        if i and not store.relations & near and any(s.relations & near for s in order.stores[i:]):
            return False
        covered |= store.relations
    return True


def spread(ratios: list[float]) -> str:
    """The distribution of ratios, for assertion messages."""
    ordered = sorted(ratios)
    marks = {q: ordered[math.ceil(q * (len(ordered) - 1))] for q in (0.5, 0.9, 0.95, 0.99, 1.0)}
    above = sum(r > 1 + 1e-9 for r in ordered)
    return f"{', '.join(f'{q:.0%}: {r:.4g}' for q, r in marks.items())}; {above} of {len(ordered)} not the best"


# --------------------------------------------------------------------------------------------- the papers

Q2_ORDERS = [
    ("part partsupp supplier nation region", [200_000, 400_000, 800_000 / 3, 200_000]),
    ("partsupp part supplier nation region", [800_000, 400_000, 800_000 / 3, 200_000]),
    ("supplier nation region partsupp part", [10_000, 5_000, 10_000 / 3, 200_000]),
    ("nation region supplier partsupp part", [25, 12.5, 10_000 / 3, 200_000]),
    ("region nation supplier partsupp part", [5, 12.5, 10_000 / 3, 200_000]),
]


@pytest.mark.parametrize("search", [greedy_order, exhaustive_order])
@pytest.mark.parametrize("start", range(5))
def test_q2_orders(search: object, start: int) -> None:
    stores = leaves(Q2)
    order = search(CostModel(Q2), stores, stores[start])  # type: ignore[operator]
    assert order.sent == pytest.approx(Q2_ORDERS[start][1], rel=1e-9)
    assert names(Q2, order) == Q2_ORDERS[start][0].split()


@pytest.mark.parametrize("capacity", [None, 1.5e6, 1e6])
def test_q3_orders_do_not_depend_on_task_capacity(capacity: float | None) -> None:
    model = CostModel(Q3, capacity=capacity)
    expected = ["customer orders lineitem", "orders customer lineitem", "lineitem orders customer"]
    for search in (least_sent_orders, least_sent_greedy):
        assert [" ".join(names(Q3, order)) for order in search(model, leaves(Q3))] == expected


def test_two_relations_leave_no_choice() -> None:
    graph = join_graph({"R": 10, "S": 20}, {("R", "S"): 0.1}, parallelism=3)
    assert [order.sent for order in least_sent_orders(CostModel(graph), leaves(graph))] == [(30,), (60,)]


def test_of_equal_pairs_the_smaller_intermediate_then_the_smaller_store_then_the_query_decides() -> None:
    def second(sizes: dict[str, float], f: dict[str, float], N: dict[str, int]) -> str:
        graph = join_graph(sizes, {("P", name): share for name, share in f.items()}, parallelism={"P": 1, **N})
        stores = leaves(graph)
        return names(graph, greedy_order(CostModel(graph, "none"), stores, stores[0]))[1]

    even = {"P": 10.0, "A": 10.0, "B": 10.0}
    assert second(even, {"A": 0.1, "B": 0.1}, {"A": 1, "B": 1}) == "A"
    assert second({**even, "C": 10.0}, {"A": 0.1, "B": 0.1, "C": 0.1}, {"A": 2, "B": 1, "C": 2}) == "B"
    # 10 * 1 + 20 * 2 for A first, 10 * 2 + 30 * 1 for B first
    assert second(even, {"A": 0.2, "B": 0.3}, {"A": 1, "B": 2}) == "A"
    assert second({"P": 10.0, "B": 10.0, "A": 10.0}, {"A": 0.2, "B": 0.3}, {"A": 1, "B": 2}) == "A"


# ------------------------------------------------------------------------------------------ for all graphs


def brute_force(model: CostModel, stores: tuple[Tree, ...], start: Tree) -> float:
    rest = [store for store in stores if store != start]
    orders = (model.order((start, *way)) for way in itertools.permutations(rest))
    return min(order.cost for order in orders if avoids_cross_products(model.graph, order))


@pytest.mark.parametrize("seed", range(60))
def test_the_exact_search_finds_the_best_of_all_permutations(seed: int) -> None:
    graph = random_graph(seed)
    for arrival in ("history", "none"):
        model = CostModel(graph, arrival)
        for start in leaves(graph):
            best = brute_force(model, leaves(graph), start)
            assert exhaustive_order(model, leaves(graph), start).cost == pytest.approx(best, rel=1e-12)


def ratios(arrival: Arrival, least: int, most: int, seeds: range, stretch: int | None) -> list[float]:
    """For every graph and start: what a search sends by what the best order sends."""
    found = []
    for seed in seeds:
        graph = random_graph(seed, least, most)
        model, stores = CostModel(graph, arrival), leaves(graph)
        for start in stores:
            order = greedy_order(model, stores, start)
            order = order if stretch is None else refine_order(model, order, stretch)
            found.append(order.cost / exhaustive_order(model, stores, start).cost)
    return found


@pytest.mark.parametrize("arrival", ["history", "none"])
def test_greedy_with_stretches_of_four_is_within_half_of_the_best_on_500_graphs(arrival: Arrival) -> None:
    """Shorter than the six used in earnest: those would be exact here and show nothing."""
    found = ratios(arrival, 2, 6, range(500), stretch=4)
    assert max(found) <= 1.5, spread(found)
    assert sum(r > 1 + 1e-9 for r in found) <= 0.01 * len(found), spread(found)


def test_above_six_relations_nearly_all_orders_are_the_best() -> None:
    found = ratios("history", 7, 9, range(60), stretch=6)
    assert sum(r > 1.5 for r in found) <= 0.01 * len(found), spread(found)


def test_plain_greedy_is_mostly_best_but_puts_off_a_selective_join_behind_a_growing_one() -> None:
    found = ratios("history", 2, 6, range(500), stretch=None)
    assert sum(r > 1 + 1e-9 for r in found) <= 0.1 * len(found), spread(found)
    graph = join_graph(
        {"A": 3810, "P": 5628, "B": 91182, "Z": 213, "C": 104365},
        {("A", "P"): 0.067, ("A", "Z"): 7.5e-6, ("P", "B"): 0.0014, ("B", "C"): 0.0014},
    )
    model, stores = CostModel(graph), leaves(graph)
    plain, best = greedy_order(model, stores, stores[1]), exhaustive_order(model, stores, stores[1])
    assert names(graph, plain) == ["P", "B", "C", "A", "Z"]
    assert names(graph, best) == ["P", "A", "Z", "B", "C"]
    assert plain.cost > 1000 * best.cost
    assert refine_order(model, plain, 4) == best


@pytest.mark.parametrize("chunk", range(4))
def test_orders_meet_every_store_once_and_make_no_cross_product(chunk: int) -> None:
    for seed in range(chunk * 50, chunk * 50 + 50):
        graph = random_graph(seed, 2, 9)
        model, stores = CostModel(graph), leaves(graph)
        for search in (least_sent_orders, least_sent_greedy):
            for start, order in zip(stores, search(model, stores), strict=True):
                assert order.stores[0] == start
                assert sorted(s.relations for s in order.stores) == [s.relations for s in stores]
                covered = start.relations
                for store in order.stores[1:]:
                    assert graph.is_joinable(covered, store.relations), f"seed {seed}"
                    covered |= store.relations


@pytest.mark.parametrize("seed", range(30))
def test_parts_that_nothing_connects_are_multiplied_last(seed: int) -> None:
    left, right = random_graph(seed, 2, 4), random_graph(seed + 1000, 2, 4)
    n = len(left.relations)
    sizes = {f"{side}{r.name}": r.size for side, g in (("l", left), ("r", right)) for r in g.relations}
    edges = [*left.edges, *((i + n, j + n, f) for i, j, f in right.edges)]
    every = list(sizes)
    graph = join_graph(sizes, {(every[i], every[j]): f for i, j, f in edges})
    for search in (least_sent_orders, least_sent_greedy):
        for order in search(CostModel(graph), leaves(graph)):
            assert avoids_cross_products(graph, order)


def test_a_clique_of_twelve_is_ordered_within_a_second() -> None:
    graph = clique(12)
    model, stores = CostModel(graph), leaves(graph)
    begun = time.perf_counter()
    least_sent_greedy(model, stores)
    plain = time.perf_counter() - begun
    least_sent_orders(model, stores)
    both = time.perf_counter() - begun
    assert plain < 1, f"greedy took {plain:.2f} s"
    assert both < 2, f"greedy and refined took {both:.2f} s"


def test_an_order_sends_what_its_hops_send() -> None:
    order = CostModel(RST).order(leaves(RST))
    assert order.cost == sum(order.sent) == 150
