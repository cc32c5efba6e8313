"""The numbers of the papers, to nine digits, and what must hold for all prices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from bench.byhand import join_graph, with_parallelism
from tests.optimizer.graphs import Q2, Q3, RST, chain, flat, leaves, random_graph
from tests.optimizer.papers import is_chain, prefix_sizes
from tests.topology.shop import QUERIES, session
from weft.errors import PlanError
from weft.optimizer.cost.estimate import estimate
from weft.optimizer.cost.papers import Arrival, CostModel, tasks_for
from weft.optimizer.graph.joingraph import Base, JoinGraph
from weft.optimizer.graph.placement import heaviest_key, keys
from weft.optimizer.graph.tree import Tree
from weft.optimizer.trees.orders import least_sent_orders
from weft.optimizer.trees.trees import join, left_deep, mat
from weft.query.model import Query
from weft.stats.model import DEFAULTS, Statistics


def near(value: float | Sequence[float]) -> object:
    return pytest.approx(value, rel=1e-9)


def shop(name: str) -> Query:
    return session().query(name, QUERIES[name]).query


def trees(graph: JoinGraph, *names: str) -> list[Tree]:
    return [Tree(graph.mask(name)) for name in names]


def flat_cost(model: CostModel) -> float:
    return model.pcost(flat(model.graph), least_sent_orders)


# ------------------------------------------------------------------------------------------------- sizes


def test_three_relations_multiply_with_their_selectivities() -> None:
    graph = join_graph({"a": 100, "b": 120, "c": 90}, {("a", "b"): 0.005, ("b", "c"): 0.012})
    assert graph.size(graph.all) == near(100 * 120 * 90 * 0.005 * 0.012)


def test_sizes_on_a_chain() -> None:
    graph = join_graph({"a": 100, "b": 60, "c": 10, "d": 200}, {("a", "b"): 0.01, ("b", "c"): 0.2, ("c", "d"): 0.05})
    found = [graph.size(graph.mask(*names)) for names in ("abc", "bcd", "abcd")]
    assert found == near([120, 1200, 1200])
    assert join_graph({"a": 100, "b": 60}, {("a", "b"): 0.1}).size(3) == near(600)


def test_sizes_on_a_cycle_use_every_edge_inside() -> None:
    edges = {("a", "b"): 0.01, ("a", "c"): 0.02, ("b", "c"): 0.05, ("b", "d"): 0.02, ("c", "d"): 0.01}
    graph = join_graph({"a": 100, "b": 50, "c": 150, "d": 100}, edges)
    assert [graph.size(graph.mask(*names)) for names in ("abc", "bcd", "abcd")] == near([7.5, 7.5, 0.15])


def test_a_pair_without_an_edge_multiplies_and_does_not_connect() -> None:
    assert RST.size(RST.mask("R", "T")) == near(10_000)
    assert not RST.is_connected(RST.mask("R", "T"))
    one = join_graph({"a": 1, "b": 1}, {("a", "b"): 1.0})
    assert one.is_connected(one.all)


def test_connected_subsets_of_chains_and_cliques_are_counted_as_in_the_paper() -> None:
    for n in (3, 4, 5, 6):
        line = chain([1.0] * n, [0.5] * (n - 1))
        full = replace(line, edges=tuple((i, j, 0.5) for i in range(n) for j in range(i + 1, n)))
        assert len(list(line.connected_subsets())) == n * (n + 1) // 2
        assert len(list(full.connected_subsets())) == 2**n - 1
        assert is_chain(line)
        assert not is_chain(full)
        for graph in (line, full):
            assert set(graph.connected_subsets()) == {m for m in range(1, graph.all + 1) if graph.is_connected(m)}


def test_a_search_for_subsets_stops_between_sizes() -> None:
    assert len(list(chain([1.0] * 20, [0.5] * 19).connected_subsets(most=39))) == 20 + 19


# -------------------------------------------------------------------------------------------- probe cost


def test_sizes_and_tuples_sent_of_one_order() -> None:
    model = CostModel(RST)
    assert prefix_sizes(model, trees(RST, "R", "S", "T")) == near([100, 50, 100 / 3])
    assert prefix_sizes(model, trees(RST, "S", "R", "T")) == near([100, 50, 100 / 3])
    assert model.order(trees(RST, "R", "S", "T")).sent == near([100, 50])


@pytest.mark.parametrize(
    ("arrival", "N", "expected"), [("history", 1, 450), ("none", 1, 600), ("history", 2, 900), ("none", 2, 1200)]
)
def test_all_three_starts(arrival: Arrival, N: int, expected: float) -> None:
    assert flat_cost(CostModel(RST, arrival, parallelism=N)) == near(expected)
    assert flat_cost(CostModel(with_parallelism(RST, N), arrival)) == near(expected)


def test_q2_flat() -> None:
    model = CostModel(Q2)
    assert flat_cost(model) == near(
        200_000 * (1 + 2 + 4 / 3 + 1)
        + 800_000
        + 400_000
        + 800_000 / 3
        + 200_000
        + 10_000
        + 5_000
        + 10_000 / 3
        + 200_000
        + 25
        + 12.5
        + 10_000 / 3
        + 200_000
        + 5
        + 12.5
        + 10_000 / 3
        + 200_000
    )
    assert flat_cost(model) == pytest.approx(3358388.333, abs=1e-3)
    assert model.scost(flat(Q2)) == near(1_010_030)


@pytest.mark.parametrize(
    ("capacity", "N", "expected"),
    [(None, [1, 1, 1], 12151980.03), (1.5e6, [1, 1, 5], 18152010.03), (1e6, [1, 2, 7], 27303240.03)],
)
def test_q3_flat_by_task_capacity(capacity: float | None, N: list[int], expected: float) -> None:
    model = CostModel(Q3, capacity=capacity)
    assert [model.N(leaf) for leaf in leaves(Q3)] == N
    assert flat_cost(model) == pytest.approx(expected, abs=5e-3)
    c, o, item = 150_000, 1_500_000, 6_001_215
    co, ol = c * o * 6.6667e-6 / 2, o * item * 6.667e-7 / 2
    exact = c * N[1] + co * N[2] + o * N[0] + co * N[2] + item * N[1] + ol * N[0]
    assert flat_cost(model) == near(exact)
    assert model.scost(flat(Q3)) == near(7_651_215)


@pytest.mark.parametrize(
    ("f", "capacity", "flat_sum", "deep_sum", "ratio"),
    [
        (1e-8, 1e5, 5.025e7, 2.310e7, 0.460),
        (1e-8, 1e6, 5.025e6, 5.010e6, 0.997),
        (1e-6, 1e5, 1.042e8, 8.000e7, 0.768),
        (1e-5, 1e5, 1.447e10, 2.222e10, 1.536),
    ],
)
def test_five_equal_relations_flat_and_left_deep(
    f: float, capacity: float, flat_sum: float, deep_sum: float, ratio: float
) -> None:
    """The table is printed with four digits; both columns are checked to nine against the sums written out."""
    graph = chain([1e6] * 5, [f] * 4)
    model = CostModel(graph, capacity=capacity)
    one, deep = flat_cost(model), model.pcost(left_deep(model), least_sent_orders)
    assert [one, deep] == pytest.approx([flat_sum, deep_sum], rel=5e-4)
    assert deep / one == pytest.approx(ratio, abs=5e-4)

    def size(j: int) -> float:
        return 1e6**j * f ** (j - 1)

    N = tasks_for(1e6, capacity)
    assert one == near(5 * N * sum(size(j) / j for j in range(1, 5)))
    inner = [(size(j), tasks_for(size(j), capacity)) for j in (2, 3, 4)]
    assert deep == near(2 * 1e6 * N + sum(s * N + 1e6 * n for s, n in inner))


def test_left_deep_and_flat_use_the_stores_they_should() -> None:
    """n inputs and factor k: n * k tasks flat, (2n - 2) * k left-deep."""
    for n, k in ((3, 1), (4, 2), (5, 3)):
        model = CostModel(chain([100.0] * n, [0.01] * (n - 1)), parallelism=k)
        assert model.tasks(flat(model.graph)) == n * k
        assert model.tasks(left_deep(model)) == (2 * n - 2) * k


# ---------------------------------------------------------------------------------------- targets (chi)

PLACED = join_graph(
    {"R": 1, "S": 30, "T": 1},
    {("R", "S"): 0.1, ("S", "T"): 0.2},
    parallelism=5,
    attributes={"R": "a", "S": "ab", "T": "b"},
    partitioning={"R": "a", "S": "a", "T": "b"},
)


def test_a_tuple_that_carries_the_partitioning_goes_to_one_task() -> None:
    """One r matches k = 3 of S: one message to S, then three tuples to one task of T each."""
    model = CostModel(PLACED, "none")
    assert model.order(trees(PLACED, "R", "S", "T")).sent == near([1, 3])


def test_a_tuple_that_does_not_goes_to_all() -> None:
    model = CostModel(PLACED, "none")
    assert model.order(trees(PLACED, "T", "S", "R")).sent == near([5, 6])


def test_an_intermediate_store_is_placed_on_its_own() -> None:
    model = CostModel(PLACED, "none", parallelism=5)
    by_b = replace(join(trees(PLACED, "R", "S")), partitioning=("b",))
    anywhere = replace(by_b, partitioning=())
    [t] = trees(PLACED, "T")
    assert model.order([t, by_b]).sent == near([1])
    assert model.order([t, anywhere]).sent == near([5])


def test_a_list_of_attributes_must_be_known_in_full() -> None:
    graph = replace(
        PLACED, relations=tuple(replace(r, partitioning=tuple(sorted(r.attributes))) for r in PLACED.relations)
    )
    s = Tree(graph.mask("S"))
    model = CostModel(graph)
    assert [model.chi(s, graph.mask(*sent)) for sent in ("R", "T", "RT")] == [5, 5, 1]


def test_two_tasks_without_placement_get_every_tuple() -> None:
    """Each of two R tasks holds one match of s: two messages to R, then two results to two tasks of T."""
    graph = join_graph({"R": 2, "S": 1, "T": 2}, {("R", "S"): 1.0, ("S", "T"): 1.0}, parallelism=2)
    assert CostModel(graph, "none").order(trees(graph, "S", "R", "T")).sent == near([2, 4])


@pytest.mark.parametrize("seed", range(20))
def test_doubling_all_tasks_doubles_what_is_sent(seed: int) -> None:
    graph = random_graph(seed)
    twice = with_parallelism(graph, {r.name: 2 * (r.parallelism or 1) for r in graph.relations})
    assert flat_cost(CostModel(twice)) == near(2 * flat_cost(CostModel(graph)))


# ------------------------------------------------------------------------------------ arrival and stores


def test_shares_of_all_orders_of_an_operator_add_up_to_the_join() -> None:
    """Whoever is newest starts a result, and someone is; also where an input is an intermediate store."""
    graph = random_graph(5, 5, 5)
    tree = mat(flat(graph), next(m for m in graph.connected_subsets() if m.bit_count() == 2))
    model = CostModel(graph)
    assert sum(model.count_started(c.relations, graph.all) for c in tree.children) == near(graph.size(graph.all))


def test_after_r_and_the_store_of_st_three_relations_are_covered() -> None:
    model = CostModel(RST)
    st = join(trees(RST, "S", "T"))
    assert prefix_sizes(model, [*trees(RST, "R"), st]) == near([100, 100 / 3])
    assert prefix_sizes(model, [st, *trees(RST, "R")]) == near([100, 200 / 3])


def test_windows_count_tuples_per_second() -> None:
    """Rates 10, 20, 30 and windows of 5, 6, 7 seconds."""
    rates, sizes = {"R": 10.0, "S": 20.0, "T": 30.0}, {"R": 50, "S": 120, "T": 210}
    graph = join_graph(sizes, {("R", "S"): 0.1, ("S", "T"): 0.01}, rates=rates)
    model = CostModel(graph, "window")
    assert prefix_sizes(model, trees(graph, "R", "S", "T")) == near([10, 10 * 120 * 0.1, 10 * 120 * 0.1 * 210 * 0.01])
    rs = join(trees(graph, "R", "S"))
    assert model.count_started(rs.relations, rs.relations) == near(10 * 120 * 0.1 + 20 * 50 * 0.1)


def test_windows_without_rates_are_refused() -> None:
    with pytest.raises(PlanError, match='rate of "R" is unknown'):
        flat_cost(CostModel(RST, "window"))


def test_an_intermediate_store_trades_tuples_stored_for_tuples_sent() -> None:
    """001, section 4: abs(R join S) more is stored, and t travels one hop instead of two."""
    model = CostModel(RST)
    tree = mat(flat(RST), RST.mask("R", "S"))
    assert model.scost(tree) - model.scost(flat(RST)) == near(RST.size(RST.mask("R", "S")))
    orders = least_sent_orders(model, tree.children)
    assert [len(order.sent) for order in orders] == [1, 1]


# ------------------------------------------------------------------------------- from queries to graphs


def test_statistics_of_aliases_and_streams_become_sizes_and_selectivities() -> None:
    query = shop("named")
    known = Statistics({"customer": 1000, "orders": 9000}, selectivities={("customer", "orders"): 0.001})
    for text in ("c.region = 'north'", "'north' = c.region"):
        graph = estimate(query, known.with_predicate(text, 0.2))
        assert [(r.name, r.size) for r in graph.relations] == [("c", near(200)), ("o", 9000)]
        assert graph.edges == ((0, 1, 0.001),)
    assert estimate(query, known.with_rows("c", 7)).relations[0].size == 7


def test_what_is_unknown_takes_the_documented_default() -> None:
    named, near_ = (shop(name) for name in ("named", "near"))
    graph = estimate(named, Statistics())
    assert [r.size for r in graph.relations] == [DEFAULTS.rows, DEFAULTS.rows]
    assert graph.edges == ((0, 1, DEFAULTS.equality),)
    [(_, _, share)] = estimate(near_, Statistics()).edges
    assert share == near(DEFAULTS.band * DEFAULTS.inequality**3)


def test_distinct_counts_and_texts_of_predicates_give_selectivities() -> None:
    query = shop("named")
    counted = Statistics(distinct={"customer.id": 150, "orders.customer": 100})
    assert estimate(query, counted).edges == ((0, 1, near(1 / 150)),)
    for text in ("o.customer = c.id", "c.id = o.customer"):
        assert estimate(query, counted.with_predicate(text, 0.5)).edges == ((0, 1, 0.5),)


def test_a_window_holds_rate_times_its_length() -> None:
    query = shop("matched")
    graph = estimate(query, Statistics({"lines": 1200}, rates={"orders": 3, "lines": 7}))
    assert [(r.size, r.rate) for r in graph.relations] == [(near(1800), near(3)), (near(1200), near(2))]


def test_equal_expressions_are_one_attribute() -> None:
    query = shop("triangle")
    placed = {alias: heaviest_key(keys(query, 1 << i, {})) for i, alias in enumerate(query.aliases)}
    graph = estimate(query, Statistics(), parallelism=4, placement=placed)
    o, lines, clicks = (r.attributes for r in graph.relations)
    assert len(o) == 2
    assert lines < o
    assert clicks < o
    assert lines != clicks
    assert len(graph.edges) == 3
    model = CostModel(graph)
    assert model.chi(Tree(graph.mask("l")), graph.mask("o")) == 1
    assert model.chi(Tree(graph.mask("l")), graph.mask("k")) == 4


@pytest.mark.parametrize(
    "make",
    [
        lambda: Base("r", -1),
        lambda: Base("r", float("nan")),
        lambda: Base("r", 1, parallelism=0),
        lambda: JoinGraph((), ()),
        lambda: JoinGraph((Base("r", 1), Base("r", 1)), ()),
        lambda: JoinGraph((Base("r", 1), Base("s", 1)), ((0, 1, 1.5),)),
        lambda: JoinGraph((Base("r", 1), Base("s", 1)), ((0, 1, 0.5), (0, 1, 0.5))),
        lambda: RST.mask("X"),
        lambda: CostModel(RST, "sometimes"),
        lambda: CostModel(RST, capacity=0),
        lambda: CostModel(RST, parallelism=0),
    ],
)
def test_what_cannot_be_priced_is_refused(make: object) -> None:
    with pytest.raises(PlanError):
        make()  # type: ignore[operator]
