"""Plans of many queries as CLASH counts them: its printed examples, and its own program as the yardstick."""

from __future__ import annotations

import random

import pytest

from bench.solver import alone, draw, hundred, measure, posed, ten
from tests.optimizer.joint.choices import check
from tests.optimizer.joint.yardstick import Paper, candidates, intermediates
from weft.errors import PlanError
from weft.optimizer.graph.joingraph import Base, JoinGraph
from weft.optimizer.joint.flows import Solution
from weft.optimizer.joint.orders import Probe, ProbeOrder, probe_trees
from weft.optimizer.joint.paper import Placements, parse_query, pose
from weft.optimizer.joint.solve import solve

ONE = {"many": False, "one": True}


def best(queries: dict[str, JoinGraph], mirs: bool, placements: Placements = "many", parallelism: int = 5) -> Solution:
    problem = pose(queries, intermediates=mirs, placements=placements, parallelism=parallelism).problem
    solution = solve(problem, gap=0.0, time_limit=60)
    assert solution.ended == "optimal"
    check(problem, solution)
    return solution


# ----------------------------------------------------------------------------------------------------- G-I1


def worked() -> dict[str, JoinGraph]:
    """The worked example of V.2."""
    return {
        "q1": parse_query("R(a), S(a,b), T(b)", 100, {"RS": 0.01, "ST": 0.015}),
        "q2": parse_query("S(b), T(b,c), U(c)", 100, {"ST": 0.015, "TU": 0.01}),
    }


def test_worked_example_costs_800_together_and_475_each():
    queries = worked()
    yardstick = Paper(queries, mirs=False, one=False, parallelism=1, placed=False)
    assert (yardstick.counts(), yardstick.optimum()) == ((8, 14), pytest.approx(800))
    assert best(queries, mirs=False).cost == pytest.approx(800, abs=1e-9)
    for name in queries:
        assert best({name: queries[name]}, mirs=False).cost == pytest.approx(475, abs=1e-9)


def test_worked_example_has_the_orders_of_the_paper():
    posed = pose(worked(), intermediates=False)
    orders = {
        (o.serves, "".join([o.start, *(p.store[0] for p in o.probes)])) for o in posed.orders(solve(posed.problem))
    }
    assert orders == {("q1", "RST"), ("q1", "STR"), ("q1", "TSR"), ("q2", "STU"), ("q2", "TSU"), ("q2", "UTS")}


# ----------------------------------------------------------------------------------------------------- G-I2


def figure_three() -> dict[str, JoinGraph]:
    return {"q1": parse_query("R(b), S(b,c), T(c)", 100, 0.01), "q2": parse_query("S(c), T(c,d), U(d)", 100, 0.01)}


@pytest.mark.parametrize(
    ("mirs", "placements", "optimum"),
    [(True, "many", 600), (True, "one", 1000), (False, "many", 700), (False, "one", 1500)],
)
def test_figure_three_costs_what_it_must(mirs: bool, placements: Placements, optimum: float):
    assert best(figure_three(), mirs, placements).cost == pytest.approx(optimum, abs=1e-9)
    assert Paper(figure_three(), mirs, ONE[placements], 5).optimum() == pytest.approx(optimum, abs=1e-6)


def test_figure_three_has_the_papers_counts():
    assert Paper(figure_three(), mirs=True, one=False, parallelism=5).counts() == (36, 36)
    assert Paper(figure_three(), mirs=False, one=False, parallelism=5).counts() == (20, 30)


@pytest.mark.parametrize("placements", ["many", "one"])
def test_each_query_of_figure_three_costs_400_alone(placements: Placements):
    assert alone(figure_three(), True, placements) == pytest.approx(800, abs=1e-9)


def test_stores_of_figure_three_may_lie_where_the_paper_says():
    posed = pose(figure_three(), placements="one", parallelism=5)
    places: dict[str, set[str]] = {}
    for _, store, attribute in (kept.id for kept in posed.problem.kept if kept.id[0] == "place"):
        places.setdefault("".join(posed.sets[store].relations), set()).add(attribute)
    expected = {"R": "b", "S": "bc", "T": "cd", "U": "d", "RS": "c", "ST": "bd", "TU": "c"}
    assert places == {store: set(attributes) for store, attributes in expected.items()}


# ----------------------------------------------------------------------------------------------- G-I3, G-I4


def chain(n: int) -> JoinGraph:
    return JoinGraph(tuple(Base(f"R{i}", 1.0) for i in range(n)), tuple((i, i + 1, 1.0) for i in range(n - 1)))


def clique(n: int) -> JoinGraph:
    edges = tuple((i, j, 1.0) for i in range(n) for j in range(i + 1, n))
    return JoinGraph(tuple(Base(f"R{i}", 1.0) for i in range(n)), edges)


@pytest.mark.parametrize("n", [3, 4, 5, 6])
def test_chains_and_cliques_have_as_many_intermediate_results_as_the_paper_counts(n: int):
    for graph, count in ((chain(n), n * (n + 1) // 2), (clique(n), 2**n - 1)):
        posed = pose({"q": graph})
        inputs_and_the_whole = n + 1
        assert len(posed.sets) == len(intermediates(graph)) == count
        assert len(posed.problem.kept) == count - inputs_and_the_whole


@pytest.mark.parametrize("n", [3, 4, 5, 6])
def test_stores_of_a_chain_can_be_placed_in_as_many_ways_as_the_paper_counts(n: int):
    texts = [f"R{i}({','.join(a for a in (f'a{i}', f'a{i + 1}') if a not in ('a0', f'a{n}'))})" for i in range(n)]
    posed = pose({"q": parse_query(", ".join(texts))}, intermediates=False, placements="one")
    ways = 1
    for group in posed.problem.at_most_one:
        ways *= len(group.kept)
    assert ways == 2 ** (n - 2)


@pytest.mark.parametrize("n", [3, 4, 5, 6])
def test_the_hub_of_a_star_can_be_placed_in_as_many_ways_as_it_has_partners(n: int):
    keys = [f"a{i}" for i in range(1, n)]
    star = ", ".join([f"R0({','.join(keys)})", *(f"R{i}(a{i})" for i in range(1, n))])
    posed = pose({"q": parse_query(star)}, intermediates=False, placements="one")
    assert sorted(len(group.kept) for group in posed.problem.at_most_one) == [1] * (n - 1) + [n - 1]


def order(serves: str, start: str, *stores: tuple[str, str]) -> ProbeOrder:
    return ProbeOrder(serves, start, tuple(Probe((store,), attribute) for store, attribute in stores))


def test_orders_of_figure_four_form_one_tree_of_four_edges():
    s, t, w, u = ("S", "d"), ("T", "b"), ("W", "e"), ("U", "a")
    (tree,) = probe_trees([order("q1", "R", s, t), order("q2", "R", s, w), order("q3", "R", u)])
    edges = {edge.label: (edge.tail, edge.probe.label) for edge in tree.edges}
    assert edges == {"s1": ("R", "S[d]"), "s2": ("R", "U[a]"), "s3": ("S[d]", "T[b]"), "s4": ("S[d]", "W[e]")}
    assert tree.stores == {"S[d]", "U[a]", "T[b]", "W[e]"}
    assert tree.next(None) == ("s1", "s2")
    assert tree.next("s1") == ("s3", "s4")


def test_kept_apart_are_orders_that_meet_one_store_by_other_predicates():
    by_a, by_b = (Probe(("S",), "a", frozenset([("R", key, "S")])) for key in "ab")
    (tree,) = probe_trees([ProbeOrder("q1", "R", (by_a,)), ProbeOrder("q2", "R", (by_b,))])
    assert len(tree.edges) == 2


def test_trees_of_a_solution_have_an_edge_for_every_step_that_is_paid():
    for seed in range(5):
        posed = pose(draw(ten(), 8, 4, seed))
        solution = solve(posed.problem, gap=0.0)
        paid = {arc.step for way in solution.ways.values() for arc in way}
        trees = probe_trees(posed.orders(solution))
        assert len({edge.label for tree in trees for edge in tree.edges}) == sum(len(tree.edges) for tree in trees)
        assert sum(len(tree.edges) for tree in trees) == len(paid)


# ----------------------------------------------------------------------------------------------- G-I5, G-I6


@pytest.mark.parametrize(
    ("drawn", "least", "most"), [(10, 0.60, 0.76), (20, 0.50, 0.65), (50, 0.34, 0.45), (100, 0.27, 0.33)]
)
def test_random_queries_save_what_the_paper_reports(drawn: int, least: float, most: float):
    ratios = [measure(draw(ten(), drawn, 3, seed), intermediates=False).ratio for seed in range(1, 4)]
    assert least <= sum(ratios) / len(ratios) <= most


def test_hundred_drawn_queries_leave_about_71_distinct():
    counts = [len(draw(ten(), 100, 3, seed)) for seed in range(50)]
    assert sum(counts) / len(counts) == pytest.approx(71, abs=3)


def test_paper_needs_about_1717_variables_for_a_hundred_drawn_queries_and_we_a_third():
    drawn = [draw(ten(), 100, 3, seed) for seed in range(4)]
    papers = [sum(Paper(queries, mirs=False, one=False, parallelism=5).counts()) for queries in drawn]
    assert sum(papers) / len(papers) == pytest.approx(1717, rel=0.05)
    assert max(solve(posed(queries, False, "many").problem).variables for queries in drawn) < 1717 / 3


def test_queries_over_many_relations_share_little():
    ratios = [measure(draw(hundred(), 50, 3, seed), intermediates=False).ratio for seed in range(3)]
    assert 0.8 < sum(ratios) / 3 < 0.95


def test_public_sample_problem_costs_7000_with_and_9000_without_sharing():
    queries = {
        "q1": parse_query("R(a), S(a,b), T(b)", 1000, 0.001),
        "q2": parse_query("S(b), T(b,c), U(c)", 1000, 0.001),
    }
    assert Paper(queries, mirs=False, one=False, parallelism=5).counts() == (20, 30)
    assert best(queries, mirs=False).cost == pytest.approx(7000)
    assert alone(queries, False, "many") == pytest.approx(9000)


@pytest.mark.parametrize("mirs", [False, True])
def test_one_row_per_step_has_the_optimum_of_the_printed_rows(mirs: bool):
    for queries in (worked(), figure_three()):
        printed = Paper(queries, mirs, one=False, parallelism=5, aggregated=True)
        assert printed.optimum() == pytest.approx(Paper(queries, mirs, one=False, parallelism=5).optimum())


# ------------------------------------------------------------------------------------------- equal optima


def small(seed: int) -> dict[str, JoinGraph]:
    """A few small queries over four or five relations; predicates, rates and selectivities differ."""
    rng = random.Random(seed)
    schema = {name: rng.sample("abcd", rng.choice([2, 2, 3])) for name in "RSTUV"[: rng.choice([4, 5])]}
    sizes = {name: float(rng.choice([10, 50, 100, 400])) for name in schema}
    shares: dict[object, float] = {}
    queries: dict[str, JoinGraph] = {}
    while len(queries) < rng.choice([2, 3]):
        names = rng.sample(sorted(schema), rng.choice([2, 3, 3, 3]))
        seen = {name: [a for a in schema[name] if rng.random() < 0.8] for name in names}
        pairs = [(r, s) for i, r in enumerate(names) for s in names[i + 1 :]]
        for r, s in pairs:
            key = frozenset((r, s)), frozenset(set(seen[r]) & set(seen[s]))
            shares.setdefault(key, rng.choice([0.001, 0.01, 0.03]))
        shared = {r + s: shares[frozenset((r, s)), frozenset(set(seen[r]) & set(seen[s]))] for r, s in pairs}
        text = ", ".join(f"{name}({','.join(seen[name])})" for name in names)
        graph = parse_query(text, sizes, shared)
        if graph.is_connected(graph.all):
            queries[f"q{len(queries)}"] = graph
    return queries


@pytest.mark.parametrize("placements", ["many", "one"])
@pytest.mark.parametrize("mirs", [False, True])
def test_sets_have_the_optimum_of_orders(mirs: bool, placements: Placements):
    for seed in range(50):
        queries = small(seed)
        yardstick = Paper(queries, mirs, ONE[placements], 4).optimum()
        assert best(queries, mirs, placements, 4).cost == pytest.approx(yardstick, rel=1e-6), f"seed {seed}"


def test_queries_of_four_relations_have_the_optimum_of_orders():
    for seed in range(5):
        queries = draw(ten(), 3, 4, seed)
        assert best(queries, mirs=False).cost == pytest.approx(Paper(queries, False, False, 5).optimum(), rel=1e-6)


def test_together_is_never_dearer_than_apart():
    for seed in range(8):
        queries = draw(ten(), 6, 4, seed)
        for mirs in (False, True):
            assert best(queries, mirs).cost <= alone(queries, mirs, "many") * (1 + 1e-9)


def test_search_alone_is_never_dearer_than_apart_and_near_the_best():
    ratios = []
    for seed in range(8):
        queries = draw(ten(), 6, 4, seed)
        for mirs in (False, True):
            problem = pose(queries, intermediates=mirs, parallelism=5).problem
            found = solve(problem, time_limit=0)
            assert (found.ended, found.bound, found.gap) == ("search", None, None)
            check(problem, found)
            assert found.cost <= alone(queries, mirs, "many") * (1 + 1e-9)
            ratios.append(found.cost / solve(problem, gap=0.0, time_limit=60).cost)
    assert min(ratios) >= 1 - 1e-9
    assert sum(ratios) / len(ratios) < 1.02


# ------------------------------------------------------------------------------------------------ notation


def test_a_query_in_the_papers_notation_is_a_join_graph():
    graph = parse_query("R(a), S(a,b), T(b)", {"R": 1, "S": 2, "T": 3}, {"RS": 0.5, "ST": 0.25})
    assert [(base.name, base.size) for base in graph.relations] == [("R", 1), ("S", 2), ("T", 3)]
    assert graph.edges == ((0, 1, 0.5), (1, 2, 0.25))
    assert list(candidates(graph, 0, graph.all, [1, 2, 4])) == [(1, 2, 4)]


@pytest.mark.parametrize("text", ["", "R", "R(a) S(a)", "R(a), S(a", "R(a);S(a)"])
def test_other_texts_are_refused(text: str):
    with pytest.raises(PlanError, match="is no query"):
        parse_query(text)


def test_cross_products_and_sizes_that_differ_are_refused():
    with pytest.raises(PlanError, match="cross product"):
        pose({"q": parse_query("R(a), S(b)")})
    with pytest.raises(PlanError, match="differ about the size of R"):
        pose({"q1": parse_query("R(a), S(a)", 10), "q2": parse_query("R(a), S(a)", {"R": 11, "S": 10})})


def test_storing_intermediate_results_has_its_price():
    free, dear = (pose(figure_three(), store_cost=cost) for cost in (0.0, 1000.0))
    assert solve(free.problem, gap=0.0).cost == pytest.approx(600)
    assert solve(dear.problem, gap=0.0).cost == pytest.approx(700)
