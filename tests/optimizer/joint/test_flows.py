"""Flow problems: every choice tried, on small random ones; and what the search and the solver promise."""

from __future__ import annotations

import math
import random
import time
from functools import cache

import pytest

from bench.solver import draw, posed, ten
from tests.optimizer.joint.choices import check, least
from weft.errors import PlanError
from weft.optimizer.joint.flows import Arc, AtMostOne, Flow, Id, Kept, Own, Problem, Step
from weft.optimizer.joint.highs import Solver
from weft.optimizer.joint.network import number
from weft.optimizer.joint.program import program
from weft.optimizer.joint.solve import solve


def sinks(*nodes: Id) -> frozenset[Id]:
    return frozenset(nodes)


# --------------------------------------------------------------------------------------------------- oracle


def random_problem(seed: int, waves: bool) -> Problem:
    """Two kept things to fill, the second may use the first; three more; three queries; steps that all share."""
    rng = random.Random(seed)
    steps = [Step(f"s{i}", float(rng.randint(0, 9))) for i in range(8)]
    kept = [Kept(f"k{i}", float(rng.randint(0, 4))) for i in range(5)]
    arcs, flows = [], []
    for group in range(5):
        usable = [f"k{i}" for i in (range(group) if group < 2 else range(5))]
        for tail in range(3):
            for head in range(tail + 1, 4):
                for _ in range(rng.choice([0, 1, 1, 2])):
                    uses = tuple(rng.sample(usable, min(len(usable), rng.choice([0, 0, 1, 1, 2]))))
                    step = rng.choice([*steps, None])
                    arcs.append(
                        Arc((group, tail), (group, head), step and step.id, uses, remote=waves and rng.random() < 0.5)
                    )
        ends = sinks((group, 3)) if rng.random() < 0.7 else sinks((group, 2), (group, 3))
        owner = {"fills": f"k{group}"} if group < 2 else {"query": f"q{group}"}
        flows.append(Flow(f"f{group}", (group, 0), ends, **owner))
        if rng.random() < 0.3:
            flows.append(Flow(f"g{group}", (group, 1), sinks((group, 3)), **owner))
    own = []
    for group in range(2, 5):
        uses = tuple(rng.sample(["k1", "k2"], rng.choice([0, 1])))
        if rng.random() < 0.5:
            own.append(Own(f"q{group}", float(rng.randint(4, 20)), uses, rng.randint(0, 2)))
    names = tuple(rng.sample([one.id for one in kept], rng.choice([2, 3])))
    groups = [AtMostOne(names)] if rng.random() < 0.5 else []
    price_of_a_wave = float(rng.randint(1, 5)) if waves else 0.0
    return Problem(tuple(steps), tuple(arcs), tuple(flows), tuple(kept), tuple(own), tuple(groups), price_of_a_wave)


CASES = range(80)


@cache
def case(seed: int, waves: bool) -> tuple[Problem, float]:
    """A problem and its least price."""
    problem = random_problem(seed, waves)
    return problem, least(problem)


@pytest.mark.parametrize("proof", ["cuts", "branches"])
@pytest.mark.parametrize("waves", [False, True])
def test_solver_finds_the_least_price_of_all_choices(waves: bool, proof: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("weft.optimizer.joint.solve.LARGE", math.inf if proof == "cuts" else 0)
    solved = 0
    for seed in CASES:
        problem, best = case(seed, waves)
        if best == math.inf:
            for limit in (2.0, 0.0):
                with pytest.raises(PlanError, match="no way"):
                    solve(problem, time_limit=limit)
            continue
        solution = solve(problem, gap=0.0, time_limit=60)
        check(problem, solution)
        assert solution.cost == pytest.approx(best, abs=1e-6), f"seed {seed}"
        assert solution.ended == "optimal"
        solved += 1
    assert solved > len(CASES) / 2


@pytest.mark.parametrize("waves", [False, True])
def test_search_alone_gives_a_choice_that_holds_and_is_seldom_dearer(waves: bool):
    missed = 0
    for seed in CASES:
        problem, best = case(seed, waves)
        if best < math.inf:
            found = solve(problem, time_limit=0)
            check(problem, found)
            assert found.cost >= best - 1e-9
            missed += found.cost > best + 1e-9
    assert missed <= len(CASES) / 10


# ------------------------------------------------------------------------------------------------- promises


def line(*costs: float, query: Id = "q", kept: str | None = None) -> tuple[list[Step], list[Arc], Flow]:
    """A flow that takes one step after another."""
    steps = [Step((query, i), cost) for i, cost in enumerate(costs)]
    arcs = [Arc((query, i), (query, i + 1), (query, i), (kept,) if kept else ()) for i in range(len(costs))]
    return steps, arcs, Flow((query, "flow"), (query, 0), sinks((query, len(costs))), query)


def test_own_plan_is_taken_where_it_is_cheaper_and_left_where_it_is_not():
    steps, arcs, flow = line(3, 4)
    for cost, taken in ((6.0, True), (8.0, False)):
        solution = solve(Problem(tuple(steps), tuple(arcs), (flow,), own=(Own("q", 9.0), Own("q", cost))))
        assert (solution.cost, bool(solution.own), bool(solution.ways)) == (min(cost, 7.0), taken, not taken)


@pytest.mark.parametrize("limit", [0.0, 0.02, 2.0])
def test_plan_with_own_plans_offered_is_never_dearer_than_these(limit: float):
    for seed in range(10):
        problem = posed(draw(ten(), 5, 4, seed), True, "one").problem
        queries = dict.fromkeys(flow.query for flow in problem.flows if flow.query)
        rng = random.Random(seed)
        own = tuple(Own(query, rng.uniform(100, 500)) for query in queries)
        offered = Problem(problem.steps, problem.arcs, problem.flows, problem.kept, own, problem.at_most_one)
        assert solve(offered, time_limit=limit).cost <= sum(plan.cost for plan in own) + 1e-6


def test_copy_that_no_query_would_pay_alone_is_made_for_all():
    arcs = [Arc("source", ("end", i), ("dear", i)) for i in range(3)]
    arcs += [Arc("source", ("end", i), ("cheap", i), ("copy",)) for i in range(3)]
    steps = [Step((kind, i), cost) for kind, cost in (("dear", 5.0), ("cheap", 1.0)) for i in range(3)]
    flows = tuple(Flow(i, "source", sinks(("end", i)), f"q{i}") for i in range(3))
    problem = Problem(tuple(steps), tuple(arcs), flows, (Kept("copy", 6.0),))
    for limit in (0.0, 2.0):
        solution = solve(problem, time_limit=limit)
        assert (solution.cost, solution.kept) == (9.0, {"copy"})


def test_longest_flow_decides_about_waves():
    arcs = (Arc("a", "b", "far", remote=True), Arc("b", "c", "far2", remote=True), Arc("a", "c", "near"))
    steps = (Step("far", 1.0), Step("far2", 1.0), Step("near", 10.0))
    flows = (Flow("f", "a", sinks("c"), "q"), Flow("g", "a", sinks("b"), "r"))
    for wave_price, cost, waves in ((0.0, 2.0, 2), (5.0, 12.0, 2), (20.0, 31.0, 1)):
        for limit in (0.0, 2.0):
            found = solve(Problem(steps, arcs, flows, wave_price=wave_price), time_limit=limit)
            assert (found.cost, found.waves) == (cost, waves)


def test_query_that_is_an_intermediate_result_fills_it_for_nothing():
    problem = posed(draw(ten(), 30, 3, 1), True, "many").problem
    solution = solve(problem, gap=0.0)
    check(problem, solution)


def test_equal_problems_have_equal_solutions():
    for size, placements in ((4, "many"), (4, "one"), (5, "many")):
        problem = posed(draw(ten(), 8, size, 7), True, placements).problem
        for limit in (0.0, 30.0):
            first, second = (solve(problem, time_limit=limit) for _ in range(2))
            assert (first.ways, first.kept, first.cost, first.bound) == (
                second.ways,
                second.kept,
                second.cost,
                second.bound,
            )


@pytest.mark.parametrize("placements", ["many", "one"])
def test_both_proofs_come_to_one_price(placements: str, monkeypatch: pytest.MonkeyPatch):
    for seed in range(4):
        problem = posed(draw(ten(), 6, 4, seed), True, placements).problem
        prices = []
        for large in (math.inf, 0):
            monkeypatch.setattr("weft.optimizer.joint.solve.LARGE", large)
            solution = solve(problem, gap=0.0, time_limit=60)
            assert solution.ended == "optimal"
            prices.append(solution.cost)
        assert prices[0] == pytest.approx(prices[1], rel=1e-6)


def test_solution_holds_when_time_runs_out_at_once():
    problem = posed(draw(ten(), 10, 5, 3), True, "many").problem
    solution = solve(problem, time_limit=1e-3)
    check(problem, solution)
    assert (solution.ended, solution.bound, solution.gap) == ("time limit", None, None)


def test_flow_that_is_where_it_goes_needs_no_arc():
    solution = solve(Problem((), (), (Flow("f", "a", sinks("a"), "q"),)))
    assert (solution.cost, solution.ways) == (0.0, {"f": ()})


# ------------------------------------------------------------------------------------------------- refusals


def test_flows_without_a_way_are_refused():
    with pytest.raises(PlanError, match="no way"):
        solve(Problem((), (Arc("a", "b"),), (Flow("f", "b", sinks("a"), "q"),)))


def test_cycles_are_refused():
    flow = Flow("f", "a", sinks("b"), "q")
    with pytest.raises(PlanError, match="cycle"):
        solve(Problem((), (Arc("a", "b"), Arc("b", "a")), (flow,)))
    fills = tuple(Flow(f"f{k}", f"{k}a", sinks(f"{k}b"), fills=k) for k in ("x", "y"))
    arcs = (Arc("xa", "xb", uses=("y",)), Arc("ya", "yb", uses=("x",)), Arc("a", "b"))
    with pytest.raises(PlanError, match="may need"):
        solve(Problem((), arcs, (flow, *fills), (Kept("x"), Kept("y"))))


def test_problems_that_do_not_fit_together_are_refused():
    flow = Flow("f", "a", sinks("b"), "q")
    for wrong, message in (
        ({"arcs": (Arc("a", "b", "s"),)}, "no step 's'"),
        ({"arcs": (Arc("a", "b", uses=(0,)),)}, "no kept thing 0"),
        ({"own": (Own("r", 1.0),)}, "no query 'r'"),
        ({"own": (Own("q", -1.0),)}, "costs -1.0"),
        ({"steps": (Step("s", math.inf),)}, "costs inf"),
        ({"kept": (Kept("k"), Kept("k"))}, "is there twice"),
        ({"flows": (flow, flow)}, "is there twice"),
        ({"at_most_one": (AtMostOne(("k",)),)}, "no kept thing 'k'"),
    ):
        with pytest.raises(PlanError, match=message):
            Problem(**{"steps": (), "arcs": (), "flows": (flow,), **wrong})
    with pytest.raises(PlanError, match="one of both"):
        Flow("f", "a", sinks("b"))


def test_relaxation_pays_in_full_for_what_all_plans_of_a_query_use():
    """Two own plans and a way, all of which use one kept thing: a third of each must not pay for a third of it."""
    arc = Arc("a", "b", uses=("k",))
    flow = Flow("f", "a", sinks("b"), query="q")
    own = (Own("q", 1.0, ("k",)), Own("q", 1.0, ("k",), 1))
    problem = Problem((), (arc,), (flow,), (Kept("k", 9.0),), own)
    posed = program(number(problem))
    assert Solver(posed).relax({}, None, math.inf, time.monotonic() + 60).bound == pytest.approx(9.0)
