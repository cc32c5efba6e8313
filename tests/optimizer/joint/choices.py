"""The oracle of flow problems: all choices, each tried; and what a solution must be."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from weft.optimizer.joint.flows import Arc, Flow, Id, Own, Problem, Solution, price


def ways(problem: Problem, flow: Flow) -> Iterator[tuple[Arc, ...]]:
    """Every way of a flow."""

    def go(node: Id) -> Iterator[tuple[Arc, ...]]:
        if node in flow.sinks:
            yield ()
            return
        for arc in problem.arcs:
            if arc.tail == node and flow.fills not in (*arc.uses, None)[: len(arc.uses)]:
                for rest in go(arc.head):
                    yield (arc, *rest)

    yield from go(flow.source)


def least(problem: Problem) -> float:
    """The least price of all choices, each tried."""
    all_ways = {flow.id: list(ways(problem, flow)) for flow in problem.flows}
    queries = list(dict.fromkeys(flow.query for flow in problem.flows if flow.query is not None))
    found = math.inf

    def add(todo: list[Flow], done: dict[Id, tuple[Arc, ...]], own: dict[Id, Own]) -> None:
        nonlocal found
        if todo:
            for way in all_ways[todo[0].id]:
                add(todo[1:], {**done, todo[0].id: way}, own)
            return
        kept = {use for way in done.values() for arc in way for use in arc.uses} | {
            u for o in own.values() for u in o.uses
        }
        if missing := [flow for flow in problem.flows if flow.fills in kept and flow.id not in done]:
            add(missing, done, own)
        elif all(len(kept & set(group.kept)) <= 1 for group in problem.at_most_one):
            waves = max([sum(arc.remote for arc in way) for way in done.values()] + [o.waves for o in own.values()])
            found = min(found, price(problem, Solution(done, frozenset(kept), own, waves, 0, None, 0, "search")))

    def choose(rest: list[Id], own: dict[Id, Own]) -> None:
        if not rest:
            add([flow for flow in problem.flows if flow.query is not None and flow.query not in own], {}, own)
            return
        for plan in (None, *(plan for plan in problem.own if plan.query == rest[0])):
            choose(rest[1:], own if plan is None else {**own, rest[0]: plan})

    choose(queries, {})
    return found


def check(problem: Problem, solution: Solution) -> None:
    """A solution is what it says it is."""
    by_id = {flow.id: flow for flow in problem.flows}
    needed = {
        flow.id
        for flow in problem.flows
        if (flow.query not in solution.own if flow.fills is None else flow.fills in solution.kept)
    }
    assert set(solution.ways) == needed
    for name, way in solution.ways.items():
        node = by_id[name].source
        for arc in way:
            assert arc.tail == node
            assert set(arc.uses) <= solution.kept
            node = arc.head
        assert node in by_id[name].sinks
        assert sum(arc.remote for arc in way) <= solution.waves
    for plan in solution.own.values():
        assert set(plan.uses) <= solution.kept
        assert plan.waves <= solution.waves
    assert all(len(solution.kept & set(group.kept)) <= 1 for group in problem.at_most_one)
    assert price(problem, solution) == pytest.approx(solution.cost, abs=1e-6)
