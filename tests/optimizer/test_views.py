"""Views: which joins are kept, who looks into which of them, where they lie, and what is given up for a budget."""

from __future__ import annotations

import random
from itertools import combinations, pairwise
from typing import Any

import pyarrow as pa
import pytest

import weft
from bench.byhand import join_graph
from tests.optimizer.graphs import chain, clique, random_graph
from weft.explain.words import layout_shape
from weft.optimizer.candidate import Candidate
from weft.optimizer.choose import Choice, choose
from weft.optimizer.cost.papers import CostModel
from weft.optimizer.cost.prices import Prices
from weft.optimizer.graph.joingraph import JoinGraph
from weft.optimizer.known import Known
from weft.optimizer.trees.views import MOST_VIEWS, all_views, view_lines, within
from weft.optimizer.wishes import Wishes
from weft.optimizer.written.lines import read_lines, write_lines
from weft.query.model import Query

FOUR = "RSTV"
CHAIN = join_graph(dict.fromkeys(FOUR, 100), dict.fromkeys(pairwise(FOUR), 0.01))
CLIQUE = join_graph(dict.fromkeys(FOUR, 100), dict.fromkeys(combinations(FOUR, 2), 0.01))


def spelled(graph: JoinGraph, views: Any) -> set[str]:
    return {"".join(graph.names(view)) for view in views}


def lines_of(graph: JoinGraph, views: Any = None) -> dict[tuple[str, str], list[str]]:
    """What is made and by whom -> what is looked into."""
    model = CostModel(graph)
    found = view_lines(model, frozenset(all_views(model) if views is None else views))
    spell = lambda mask: "".join(graph.names(mask))
    return {(spell(goal), spell(start)): [*map(spell, stores)] for (goal, start), stores in found.items()}


# ----------------------------------------------------------------------------------------------- golden


def test_gl1_four_relations_that_all_join_have_six_pairs_and_four_triples() -> None:
    found = spelled(CLIQUE, all_views(CostModel(CLIQUE)))
    assert sorted(map(len, found)) == [2] * 6 + [3] * 4


def test_gl1_a_chain_of_four_keeps_three_pairs_and_two_triples() -> None:
    assert spelled(CHAIN, all_views(CostModel(CHAIN))) == {"RS", "ST", "TV", "RST", "STV"}


@pytest.mark.parametrize(("graph", "updates"), [(CHAIN, 2), (CLIQUE, 6)])
def test_gl1_a_new_row_reads_one_view_of_all_others_and_updates_each_view_that_it_is_in(
    graph: JoinGraph, updates: int
) -> None:
    lines = lines_of(graph)
    assert lines["RSTV", "R"] == ["STV"]
    filled = {goal for goal, start in lines if start == "R" and goal != "RSTV"}
    assert {"RS", "RST"} <= filled
    assert len(filled) == updates
    assert all(len(looks) == 1 for (_, start), looks in lines.items() if start == "R")


def test_a_new_row_in_the_middle_reads_a_view_for_each_part_of_the_others() -> None:
    assert sorted(lines_of(CHAIN)["RSTV", "S"]) == ["R", "TV"]
    star = join_graph({"F": 1000, "A": 10, "B": 20, "C": 5}, {("F", "A"): 0.1, ("F", "B"): 0.001, ("F", "C"): 0.5})
    assert lines_of(star)["FABC", "F"] == ["B", "A", "C"], "what leaves the fewest tuples comes first"
    assert lines_of(star)["FABC", "A"] == ["FBC"]


# --------------------------------------------------------------------------------------------- given up


def test_the_largest_views_are_given_up_first() -> None:
    model = CostModel(chain([100] * 4, [0.005, 0.02, 0.008]))  # 50, 200, 80; 100, 160
    views = all_views(model)
    sizes = [model.graph.size(view) for view in views]
    assert sizes == pytest.approx([50, 80, 100, 160, 200])
    for limit, count in ((990, 5), (989, 4), (790, 4), (630, 3), (530, 2), (529, 1), (450, 1), (449, 0), (0, 0)):
        assert within(model, views, limit) == views[:count]
    assert within(model, views, 990, lambda _store: 2.0) == views[:1]


def test_where_a_view_is_missing_tuples_meet_the_largest_parts_of_it() -> None:
    graph = CHAIN
    lines = lines_of(graph, [graph.mask("S", "T"), graph.mask("T", "V")])
    assert lines["RSTV", "R"] == ["ST", "V"]
    assert lines["RSTV", "V"] == ["ST", "R"]
    assert ("STV", "S") not in lines


@pytest.mark.parametrize("seed", range(60))
def test_lines_meet_each_relation_once_whatever_was_given_up(seed: int) -> None:
    graph, rng = random_graph(seed, least=3), random.Random(seed)
    model = CostModel(graph)
    views = [view for view in all_views(model) if rng.random() < rng.choice([0.3, 0.7, 1.0])]
    lines = view_lines(model, frozenset(views))
    query = joined(graph)
    written = write_lines(query, {line: [(store, ()) for store in stores] for line, stores in lines.items()})
    assert {line: tuple(s for s, _ in met) for line, met in read_lines(query, written).items()} == lines
    for (_, start), stores in lines.items():
        covered = start
        for store in stores:
            assert graph.is_joinable(covered, store)
            assert store.bit_count() == 1 or store in views
            covered |= store
    if len(views) == len(all_views(model)):
        assert {goal for goal, _ in lines} == {*views, graph.all}


def test_a_query_of_many_relations_keeps_the_smallest_views() -> None:
    model = CostModel(clique(12))
    views = all_views(model)
    assert len(views) == MOST_VIEWS
    whole = {goal: stores for goal, stores in view_lines(model, frozenset(views)).items() if goal[0] == model.graph.all}
    assert len(whole) == 12


# ----------------------------------------------------------------------------------------------- places


def joined(graph: JoinGraph, *, less: tuple[str, str] | None = None) -> Query:
    """A query with the predicates of a graph: equalities, but for one pair."""
    s = weft.Session("unused")
    aliases = [relation.name for relation in graph.relations]
    for alias in aliases:
        s.stream(f"s{alias}", weft.read.batches([pa.table({f"k{a}": [1] for a in aliases})]))
    ops = {(i, j): "<" if (aliases[i], aliases[j]) == less else "=" for i, j, _ in graph.edges}
    where = " AND ".join(f"{aliases[i]}.k{aliases[j]} {op} {aliases[j]}.k{aliases[i]}" for (i, j), op in ops.items())
    return s.query("q", f"SELECT {aliases[0]}.k{aliases[0]} AS k FROM {_from(aliases)} WHERE {where}").query


def _from(aliases: list[str]) -> str:
    return ", ".join(f"s{alias} {alias}" for alias in aliases)


def chosen(graph: JoinGraph, workers: int = 4, less: tuple[str, str] | None = None, **wishes: Any) -> Choice:
    """What is chosen for a query over the graph, whose numbers are known."""
    asked = Wishes(**{"strategy": "views", **wishes})
    return choose("q", joined(graph, less=less), workers, asked, Known(known_of(graph)))


def known_of(graph: JoinGraph) -> weft.Statistics:
    """The numbers of the graph."""
    called = [relation.name for relation in graph.relations]
    sizes = {f"s{relation.name}": relation.size for relation in graph.relations}
    return weft.Statistics(sizes, selectivities={(called[i], called[j]): f for i, j, f in graph.edges})


def homes(candidate: Candidate, graph: JoinGraph, *members: str) -> list[list[str]]:
    found = candidate.layout.homes(graph.mask(*members))
    return sorted([str(expr.name) for expr in home] for home in found)  # type: ignore[attr-defined]


def routes(candidate: Candidate) -> set[str]:
    return {hop.route for line in candidate.ways.lines for hop in line.hops}


def test_a_view_lies_where_those_who_look_into_it_come_by_key() -> None:
    found = chosen(CHAIN).chosen
    assert found.name == "views"
    assert homes(found, CHAIN, "S", "T", "V") == [["kR"]]
    assert homes(found, CHAIN, "R", "S") == [["kT"]]


def test_a_view_lies_in_several_places_where_storing_it_twice_costs_less_than_asking_all_workers() -> None:
    small = join_graph(dict.fromkeys(FOUR, 10_000), {("R", "S"): 1e-4, ("S", "T"): 1e-6, ("T", "V"): 1e-4})
    found = chosen(small, workers=8).chosen
    assert homes(found, small, "S", "T") == [["kR"], ["kV"]]
    assert routes(found) <= {"key", "local"}
    large = join_graph(dict.fromkeys(FOUR, 10_000), {("R", "S"): 1e-4, ("S", "T"): 1e-2, ("T", "V"): 1e-4})
    assert len(homes(chosen(large, workers=2).chosen, large, "S", "T")) == 1


def test_stores_are_scattered_where_no_equality_or_no_key_places_them() -> None:
    graph = join_graph({"R": 100, "S": 100, "T": 100}, {("R", "S"): 0.3, ("S", "T"): 0.01})
    found = chosen(graph, less=("R", "S")).chosen
    assert homes(found, graph, "S", "T") == [[]], "only R looks into it, by an inequality"
    assert homes(found, graph, "R", "S") == [["kT"]]
    scattered = chosen(graph, placement="scattered").chosen
    assert {home for store in scattered.layout.stores for home in scattered.layout.homes(store)} == {()}
    assert routes(scattered) == {"broadcast"}


def test_capacity_and_parallelism_hold_for_views_too() -> None:
    few = chosen(CHAIN, capacity=60.0, parallelism={"R": 1}).chosen
    assert few.layout.tasks[CHAIN.mask("R")] == 1
    assert few.layout.tasks[CHAIN.mask("S", "T")] == 2


# ----------------------------------------------------------------------------------------------- budget

GROWING = chain([1000] * 4, [0.0005, 0.002, 0.0008])  # inputs 4,000; 500, 2,000, 800; 1,000, 1,600


@pytest.mark.parametrize("strategy", ["views", "hypercube:hash+views", "hypercube:random+views"])
@pytest.mark.parametrize("workers", [1, 4])
def test_a_budget_is_kept_by_giving_up_views(strategy: str, workers: int) -> None:
    whole = chosen(GROWING, workers, strategy=strategy)
    assert whole.chosen.name == strategy
    most, counts = whole.maker.storage(whole.chosen), []
    bare = whole.maker.storage(chosen(GROWING, workers, strategy=strategy.partition("+")[0]).chosen)
    least = bare if "+" in strategy else 4000.0
    for part in (1.0, 0.8, 0.6, 0.4, 0.2, 0.0):
        budget = least + part * (most - least) + 1e-6
        found = chosen(GROWING, workers, strategy=strategy, budget=budget)
        assert found.maker.storage(found.chosen) <= budget
        counts.append(len(found.chosen.layout.kept))
    assert counts[0] == 5
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 0


def test_a_budget_in_bytes_counts_bytes() -> None:
    found = chosen(GROWING, 1, budget=3e6, unit="bytes")
    model = found.model
    used = sum(model.graph.bytes(store) for store in found.chosen.layout.stores)
    assert used <= 3e6
    assert found.maker.storage(found.chosen) == pytest.approx(used)


def test_further_places_are_given_up_before_views() -> None:
    small = join_graph(dict.fromkeys(FOUR, 10_000), {("R", "S"): 1e-4, ("S", "T"): 1e-6, ("T", "V"): 1e-4})
    free = chosen(small, 8)
    most = free.maker.storage(free.chosen)
    tight = chosen(small, 8, budget=most - 1)
    assert [len(c.chosen.layout.kept) for c in (free, tight)] == [5, 5]
    assert all(len(tight.chosen.layout.homes(store)) == 1 for store in tight.chosen.layout.stores)


def test_a_budget_that_the_inputs_exceed_is_refused() -> None:
    with pytest.raises(weft.PlanError, match="the inputs alone hold 4,000"):
        chosen(GROWING, budget=3999.0)
    with pytest.raises(weft.PlanError, match="the budget is 4,001"):
        chosen(GROWING, strategy="hypercube:random+views", budget=4001.0)


# ------------------------------------------------------------------------------------------------- auto


def test_auto_weighs_views_by_the_same_prices() -> None:
    found = chosen(CHAIN, strategy="auto")
    [views] = [c for c in found.candidates if c.name.startswith("views")]
    assert views.bill.micros >= found.chosen.bill.micros
    assert views.bill == chosen(CHAIN).chosen.bill


def test_auto_takes_views_where_probes_cost_much_and_storing_little() -> None:
    dear = Prices(wave=1e-9, probed=1e-6, stored=1e-9, matched=1e-9, sent=1e-9, checked=1e-9)
    graph = join_graph(dict.fromkeys(FOUR, 1000), dict.fromkeys(combinations(FOUR, 2), 0.05))
    known = Known(known_of(graph), prices=dear)
    found = choose("q", joined(graph), 4, Wishes(budget=1e9), known)
    assert found.chosen.name == "views"
    assert "hypercube:hash+views" in [c.name for c in found.candidates], "the best cube may keep them too"


def test_auto_stores_no_more_for_views_than_for_anything_else() -> None:
    graph = chain([1000] * 4, [0.01, 0.001, 0.001])  # 10,000, 1,000, 1,000; 10,000, 1,000
    found = chosen(graph, strategy="auto")
    [views] = [c for c in found.candidates if c.name.startswith("views")]
    assert views.name == "views, 3 kept"
    assert found.maker.storage(views) <= found.maker.problem.limit


def test_auto_does_not_look_at_views_of_many_relations_nor_without_statistics() -> None:
    many = chosen(chain([100] * 7, [0.01] * 6), strategy="auto")
    blind = choose("q", joined(CHAIN), 2, Wishes(), Known())
    assert not [c for found in (many, blind) for c in found.candidates if "views" in c.name]
    assert len(chosen(chain([100] * 7, [0.01] * 6)).chosen.layout.kept) == 20, "but they can be asked for"


def test_auto_leaves_to_trees_what_trees_can_say() -> None:
    graph = chain([1000] * 3, [0.0005, 0.01])  # 500, 10,000: only one of two views fits
    assert not [c for c in chosen(graph, strategy="auto").candidates if "views" in c.name]
    assert chosen(graph, budget=4000.0).chosen.name == "views, 1 kept"


def test_two_relations_have_no_views() -> None:
    pair = join_graph({"R": 100, "S": 100}, {("R", "S"): 0.01})
    assert chosen(pair).chosen.name == "flat"
    for scheme in ("hypercube:hash", "two-way:1-bucket", "two-way:contrand"):
        bare, views = (chosen(pair, strategy=strategy).chosen for strategy in (scheme, f"{scheme}+views"))
        assert bare.layout == views.layout


# ---------------------------------------------------------------------------------------------- explain


def test_explain_says_which_views_are_kept_and_who_fills_them() -> None:
    s = weft.Session("unused", workers=2)
    for name in FOUR:
        s.stream(name, weft.read.batches([pa.table({"a": [1, 2], "b": [1, 2]})]))
    sql = "SELECT r.a FROM R r, S s, T t, V v WHERE r.b = s.a AND s.b = t.a AND t.b = v.a"
    s.query("q", sql, strategy="views")
    text = s.explain("chosen")
    assert "views (r, s, t, v), kept r + s, s + t, t + v, r + s + t, s + t + v" in text
    for view in ("r + s", "r + s + t"):
        assert f"on r, to fill {view}" in text
    assert 'strategy="views" was asked for' in s.explain("candidates")
    s.options(strategy="hypercube:hash+views")
    s.query("cube", sql)
    assert "hypercube:hash+views (r, s, t, v), kept r + s" in s.explain("chosen")


def test_explain_counts_views_where_there_are_many() -> None:
    five = "RSTVW"
    found = chosen(join_graph(dict.fromkeys(five, 100), dict.fromkeys(combinations(five, 2), 0.1)))
    assert layout_shape(found.query, found.chosen.layout) == "(R, S, T, V, W), kept 25 joins"


@pytest.mark.parametrize("strategy", ["view", "views+views", "tree+views", "hypercube:hash+tree", "hypercube:hash+"])
def test_an_unknown_local_join_is_refused_with_those_there_are(strategy: str) -> None:
    s = weft.Session("unused", workers=2)
    with pytest.raises(weft.PlanError) as caught:
        s.options(strategy=strategy)
    assert "hypercube:hash+views" in (caught.value.hint or "")
