"""Trees of operators: the steps and sums of the papers, all trees of few relations, budgets that are kept."""

from __future__ import annotations

import itertools
import math
import time

import pytest

from bench.byhand import join_graph, tree_text
from tests.optimizer.graphs import Q2, Q3_SIZES, RST, chain, clique, flat, random_graph
from tests.optimizer.papers import shape, shape_name, shapes, valid_pairs
from weft.errors import InternalError, PlanError
from weft.optimizer.cost.papers import CostModel
from weft.optimizer.graph.joingraph import JoinGraph
from weft.optimizer.graph.tree import Tree
from weft.optimizer.trees.orders import least_sent_orders
from weft.optimizer.trees.trees import (
    all_trees,
    cheapest,
    join,
    left_deep,
    mat,
    under_budget,
    valid,
)

FOUR = chain([100] * 4, [0.005, 0.02, 0.008])


def span(i: int, j: int) -> int:
    """Relations R_i to R_j of a chain."""
    return sum(1 << k for k in range(i - 1, j))


# ------------------------------------------------------------------------------------------- chain steps


def test_sizes_of_the_chain_of_four() -> None:
    sizes = [FOUR.size(span(i, j)) for i, j in ((1, 2), (2, 3), (3, 4), (1, 3), (2, 4))]
    assert sizes == pytest.approx([50, 200, 80, 100, 160], rel=1e-9)


@pytest.mark.parametrize(
    ("budget", "steps", "scost", "name"),
    [
        (1000, [("R1", "R2"), ("R3", "R4")], 530, "III"),
        (530, [("R1", "R2"), ("R3", "R4")], 530, "III"),
        (500, [("R1", "R2")], 450, "II"),
        (450, [("R1", "R2")], 450, "II"),
        (449, [], 400, "I"),
        (400, [], 400, "I"),
    ],
)
def test_a_budget_stops_the_growth(budget: float, steps: list[tuple[str, ...]], scost: float, name: str) -> None:
    model = CostModel(FOUR)
    growth = under_budget(model, budget)
    assert [names for names, _ in growth.steps] == steps
    assert model.scost(growth.tree) == pytest.approx(scost, rel=1e-9)
    assert shape_name(growth.tree) == name


def test_q2_without_a_limit() -> None:
    model = CostModel(Q2)
    growth = under_budget(model)
    assert [size for _, size in growth.steps] == pytest.approx([25, 10_000, 800_000], rel=1e-9)
    assert [names[0] for names, _ in growth.steps] == ["nation", "supplier", "partsupp"]
    assert model.scost(growth.tree) == pytest.approx(1_820_055, rel=1e-9)
    assert tree_text(Q2, growth.tree) == "(part, (partsupp, (supplier, (nation, region))))"
    assert valid(Q2, growth.tree) == []


def test_medium_low_medium_gives_shape_three() -> None:
    graph = chain([1e6] * 4, [1e-6, 1e-5, 1e-6])
    assert shape_name(under_budget(CostModel(graph)).tree) == "III"


def test_valid_pairs_of_four() -> None:
    one = flat(FOUR)
    assert valid_pairs(FOUR, one) == [(1, 2), (1, 3), (2, 3), (2, 4), (3, 4)]
    assert valid_pairs(FOUR, mat(one, span(1, 2))) == [(1, 3), (3, 4)]
    assert valid_pairs(FOUR, mat(one, span(1, 3))) == [(1, 2), (2, 3)]
    assert valid_pairs(FOUR, mat(one, span(2, 3))) == [(1, 3), (2, 4)]


def test_shapes_after_two_steps() -> None:
    one = flat(FOUR)
    steps = {((1, 2), (1, 3)): "V", ((1, 2), (3, 4)): "III", ((1, 3), (1, 2)): "V", ((1, 3), (2, 3)): "V"}
    for (first, second), name in steps.items():
        assert shape_name(mat(mat(one, span(*first)), span(*second))) == name
    assert tree_text(FOUR, mat(mat(one, span(1, 3)), span(2, 3))) == "((R1, (R2, R3)), R4)"
    assert shape_name(mat(one, span(1, 3))) == "IV"


def test_steps_that_are_not_valid_are_refused() -> None:
    for mask in (span(1, 4), span(1, 1)):
        with pytest.raises(PlanError, match="can be inserted"):
            mat(flat(FOUR), mask)
    with pytest.raises(PlanError, match="ranges need a chain"):
        valid_pairs(clique(3), flat(clique(3)))


def test_of_equal_steps_the_shorter_then_the_earlier_is_taken() -> None:
    even = chain([100] * 4, [0.01] * 3)
    assert under_budget(CostModel(even), 500).steps[0][0] == ("R1", "R2")


def test_of_equal_steps_one_that_extends_an_intermediate_result_goes_first() -> None:
    """In Q2 part with partsupp and partsupp with all of supplier to region are both 800,000."""
    grown = mat(mat(flat(Q2), Q2.mask("nation", "region")), Q2.mask("supplier", "nation", "region"))
    model = CostModel(Q2)
    sums = [model.scost(mat(grown, mask)) for mask in valid(Q2, grown)]
    assert sums == [1_820_055, 1_820_055]
    assert under_budget(model).steps[-1][0] == ("partsupp", "supplier", "nation", "region")


# ----------------------------------------------------------------------------------------- other graphs


def test_on_any_graph_every_connected_set_of_siblings_is_valid() -> None:
    star = join_graph({"F": 1, "A": 1, "B": 1, "C": 1}, {("F", "A"): 1, ("F", "B"): 1, ("F", "C"): 1})
    found = {star.names(mask) for mask in valid(star, flat(star))}
    pairs = {("F", "A"), ("F", "B"), ("F", "C")}
    assert found == pairs | {("F", "A", "B"), ("F", "A", "C"), ("F", "B", "C")}
    after = mat(flat(star), star.mask("F", "B"))
    assert {star.names(mask) for mask in valid(star, after)} == {("F", "A", "B"), ("F", "B", "C")}


@pytest.mark.parametrize("seed", range(60))
def test_growth_keeps_the_budget_and_every_store_is_connected(seed: int) -> None:
    graph = random_graph(seed)
    model = CostModel(graph)
    budget = 1.5 * model.scost(flat(graph))
    for tree in (under_budget(model, budget).tree, left_deep(model, budget)):
        assert tree.relations == graph.all
        assert model.scost(tree) <= budget
        assert all(graph.is_connected(store.relations) for store in tree.stores)


def test_growth_stops_at_the_number_of_tasks() -> None:
    model = CostModel(FOUR, capacity=50)
    assert model.tasks(flat(FOUR)) == 8
    assert len(under_budget(model, tasks=8).steps) == 0
    assert len(under_budget(model, tasks=9).steps) == 1
    assert len(under_budget(model, tasks=11).steps) == 2


def test_inputs_that_do_not_fit_are_refused_with_both_numbers() -> None:
    model = CostModel(FOUR, capacity=50)
    for plan in (under_budget, left_deep, cheapest):
        with pytest.raises(PlanError, match="400 tuples, the storage budget is 399"):
            plan(model, 399)  # type: ignore[operator]
    with pytest.raises(PlanError, match="8 tasks, 7 are available"):
        under_budget(model, tasks=7)


def test_many_relations_are_grown_in_time() -> None:
    begun = time.perf_counter()
    for graph in (clique(12), chain([100] * 30, [0.01] * 29)):
        under_budget(CostModel(graph))
        left_deep(CostModel(graph))
    assert time.perf_counter() - begun < 20


# -------------------------------------------------------------------------------------------- left-deep


def intermediates(model: CostModel, tree: Tree) -> list[float]:
    return sorted(model.graph.size(store.relations) for store in tree.stores if store.children)


def test_left_deep_storage_of_q2_and_q3() -> None:
    model = CostModel(Q2)
    deep = left_deep(model)
    assert intermediates(model, deep) == pytest.approx([25, 10_000, 800_000], rel=1e-9)
    assert sum(intermediates(model, deep)) / model.scost(flat(Q2)) == pytest.approx(0.802, abs=5e-4)
    assert model.scost(deep) / model.scost(flat(Q2)) == pytest.approx(1.80, abs=5e-3)
    q3 = join_graph(Q3_SIZES, {("customer", "orders"): 1 / 150_000, ("orders", "lineitem"): 1 / 1_500_000})
    model = CostModel(q3)
    deep = left_deep(model)
    assert tree_text(q3, deep) == "((customer, orders), lineitem)"
    assert intermediates(model, deep) == pytest.approx([1.5e6], rel=1e-9)
    assert model.scost(deep) / model.scost(flat(q3)) == pytest.approx(1.196, abs=5e-4)


@pytest.mark.parametrize("seed", range(40))
def test_no_cascade_stores_less_than_left_deep(seed: int) -> None:
    graph = random_graph(seed, 3, 6)
    model = CostModel(graph)

    def stored(order: tuple[int, ...]) -> float:
        masks = [sum(1 << i for i in order[: k + 1]) for k in range(1, len(order) - 1)]
        return sum(map(graph.size, masks)) if all(map(graph.is_connected, masks)) else math.inf

    best = min(stored(order) for order in itertools.permutations(range(len(graph.relations))))
    assert sum(intermediates(model, left_deep(model))) == pytest.approx(best, rel=1e-12)


def test_left_deep_leaves_the_rest_to_the_root_when_the_budget_ends() -> None:
    model = CostModel(Q2)
    assert tree_text(Q2, left_deep(model, 1_100_000)) == "(part, partsupp, (supplier, (nation, region)))"
    assert left_deep(model, 1_010_030) == flat(Q2)


def test_left_deep_keeps_no_cross_product() -> None:
    apart = join_graph({"A": 1, "B": 1, "C": 1, "D": 1}, {("A", "B"): 0.1, ("C", "D"): 0.1})
    assert tree_text(apart, left_deep(CostModel(apart))) == "((A, B), C, D)"


# ------------------------------------------------------------------------------------------- every tree


def test_shapes_are_counted_as_in_the_paper() -> None:
    assert [len(shapes(n)) for n in (2, 3, 4, 5)] == [1, 2, 5, 12]


def test_the_five_shapes_of_four_have_names_and_others_have_none() -> None:
    assert {shape_name(tree) for tree in all_trees(clique(4))} == {"I", "II", "III", "IV", "V"}
    assert shape_name(flat(RST)) is None
    mirrored = [mat(flat(FOUR), mask) for mask in (span(1, 2), span(2, 3), span(3, 4))]
    assert len({shape(tree) for tree in mirrored}) == 1


def test_all_trees_are_different_and_as_many_as_there_can_be() -> None:
    """On a clique these are the total partitions of a set (Schroeder's fourth problem)."""
    for n, count in ((2, 1), (3, 4), (4, 26), (5, 236), (6, 2752)):
        trees = list(all_trees(clique(n)))
        assert len(trees) == len(set(trees)) == count
    for n, count in ((3, 3), (4, 11), (5, 45)):
        assert len(list(all_trees(chain([1] * n, [0.5] * (n - 1))))) == count


def test_too_many_relations_for_all_trees_are_refused() -> None:
    with pytest.raises(PlanError, match="7 relations have too many trees"):
        list(all_trees(clique(7)))


@pytest.mark.parametrize("seed", range(15))
def test_the_cheapest_tree_is_no_worse_than_any_other_way(seed: int) -> None:
    graph = random_graph(seed, 3, 5)
    model = CostModel(graph, capacity=1000)
    budget = 2 * model.scost(flat(graph))
    best = cheapest(model, budget)
    assert model.scost(best) <= budget
    for tree in (flat(graph), left_deep(model, budget), under_budget(model, budget).tree):
        assert model.pcost(best, least_sent_orders) <= model.pcost(tree, least_sent_orders) * (1 + 1e-12)


def test_a_bushy_tree_over_five_is_built_by_hand() -> None:
    five: JoinGraph = chain([100] * 5, [0.01] * 4)
    tree = mat(flat(five), five.mask("R2", "R3", "R4"))
    assert tree_text(five, tree) == "(R1, (R2, R3, R4), R5)"
    assert [tree_text(five, operator) for operator in tree.operators] == ["(R2, R3, R4)", "(R1, (R2, R3, R4), R5)"]
    assert len(list(tree.stores)) == 6


def test_trees_that_are_none_cannot_be_made() -> None:
    for make in (lambda: Tree(3), lambda: Tree(3, (Tree(1),)), lambda: Tree(3, (Tree(2), Tree(1))), lambda: join([])):
        with pytest.raises((InternalError, PlanError)):
            make()
