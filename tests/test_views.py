"""Views under every scheme: the rows are the oracle's, whatever is kept and wherever rows lie."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import weft
from tests.fuzz import plain_functions, random_statistics, small_limits
from tests.optimizer.test_lines import batches_of, case_of
from tests.test_schemes import SHAPES, Tables, answers, feed_all, open_session, slices, world
from weft.host.inprocess.run import InProcess
from weft.optimizer.choose import Choice, choose
from weft.optimizer.graph.tree import flat_tree
from weft.optimizer.known import Known
from weft.optimizer.lower.assemble import assemble
from weft.optimizer.wishes import CUBES, Wishes
from weft.query.model import Query
from weft.testing import Trial, assert_same_rows, expected_after_lateness, oracle

VIEWS = ("views", *(f"{cube}+views" for cube in CUBES))
LOCAL = {"traditional": "{}", "views": "{}+views"}
LARGER = {
    "clique": "SELECT r.n AS r, s.n AS s, t.n AS t, u.n AS u FROM R r, S s, T t, U u WHERE r.a = s.a AND r.b = t.b "
    "AND r.c = u.c AND s.b = t.b AND s.c <= u.c AND t.a = u.a",
    "five": "SELECT r.n AS r, s.n AS s, t.n AS t, u.n AS u, x.n AS x FROM R r, S s, T t, U u, R x "
    "WHERE r.a = s.a AND s.b = t.b AND t.c = u.c AND u.a = x.a",
}


# --------------------------------------------------------------------------------- scheme by local join


@pytest.mark.parametrize("kind", ["zipf 1", "holes"])
@pytest.mark.parametrize("shape", ["chain", "one key", "cycle", "theta", "self", "star", *LARGER])
def test_every_scheme_with_every_local_join_gives_the_same_rows(shape: str, kind: str) -> None:
    sql = {**SHAPES, **LARGER}[shape]
    rows = {"star": 9, "five": 9, "clique": 24}.get(shape, 14)
    tables = world(np.random.default_rng(list(shape.encode())), kind, rows)
    schemes = {f"{local} {scheme}": text.format(scheme) for scheme in CUBES for local, text in LOCAL.items()}
    plans = {f"q{i}": plan for i, plan in enumerate(["flat", "views", *schemes.values()])}
    session = open_session(tables, sql, 1, plans)
    wanted = oracle(session.queries["q0"].query, tables)
    assert wanted.num_rows
    session.analyze()
    for workers in (1, 2, 3, 6):
        session.options(workers=workers)
        for name, found in answers(session, slices(tables, 3)).items():
            assert_same_rows(found, wanted, f"{plans[name]}, {workers} workers: ")
        kept = {plans[choice.name]: len(choice.chosen.layout.kept) for choice in session.choices}
        assert all(bool(count) == ("views" in plan) for plan, count in kept.items())


@pytest.mark.parametrize("shape", ["pair", "band", "beside"])
def test_two_relations_run_under_every_two_way_scheme_with_every_local_join(shape: str) -> None:
    tables = world(np.random.default_rng(5), "zipf 1", 40)
    schemes = ["two-way:1-bucket", *(["two-way:contrand"] if shape != "band" else [])]
    schemes += ["two-way:m-bucket", "two-way:equi-weight"] if shape != "pair" else []
    plans = {f"q{i}_{local}": text.format(s) for i, s in enumerate(schemes) for local, text in LOCAL.items()}
    session = open_session(tables, SHAPES[shape], 4, plans)
    session.analyze()
    trial = feed_all(session, slices(tables, 2))
    for name, plan in plans.items():
        assert_same_rows(trial.table(name), oracle(session.queries[name].query, tables), f"{plan}: ")


# ---------------------------------------------------------------------------------------- random queries


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(60))
def test_views_of_random_queries_answer_exactly(seed: int) -> None:
    """Windows, bands, self joins, inequalities, tables; any budget, any numbers of the data."""
    rng = random.Random(seed)
    case, queries = case_of(1000 + seed, rng)
    made = {name: a_choice(rng, name, query, case.workers) for name, query in queries.items()}
    tables = {r.stream.name for query in queries.values() for r in query.relations if r.stream.table}
    batches = batches_of(case, tables)
    run = InProcess(assemble([choice.chosen.ways for choice in made.values()]), plain_functions())
    with small_limits(rng):
        for batch in batches:
            run.feed(batch)
    for name, query in queries.items():
        wanted = expected_after_lateness(query, batches, plain_functions())
        assert_same_rows(run.table(name), wanted, f"seed {seed}, {name}, {made[name].chosen.name}: ")


def a_choice(rng: random.Random, name: str, query: Query, workers: int) -> Choice:
    """Views under some scheme; a budget takes some of them away."""
    strategy, known = rng.choice([VIEWS[0], *VIEWS]), Known(random_statistics(rng, query))
    free = choose(name, query, workers, Wishes(strategy), known)
    bare = choose(name, query, workers, Wishes(strategy.partition("+")[0].replace("views", "flat")), known)
    needed, least = (choice.maker.storage(choice.chosen) for choice in (free, bare))
    least = max(least, free.model.scost(flat_tree(len(query.relations))))  # inputs count even if nobody looks for them
    if rng.random() < 0.5 or not math.isfinite(needed):
        return free
    budget = max(1e-6, least) * 1.001 + rng.random() * max(0.0, needed - least)
    found = choose(name, query, workers, Wishes(strategy, budget), known)
    assert found.maker.storage(found.chosen) <= budget
    assert len(found.chosen.layout.kept) <= len(free.chosen.layout.kept)
    return found


# ------------------------------------------------------------------------------------------- checkpoints


TIMED = {
    name: pa.table({"n": np.arange(60), "a": np.arange(60) % 7, "b": np.arange(60) % 5, "t": np.arange(60)})
    for name in "RST"
}
WINDOWED = """SELECT r.n AS r, s.n AS s, t.n AS t FROM R r, S s, T t
              WHERE r.a = s.a AND s.b = t.b WITHIN INTERVAL '9' SECOND"""


def timed(root: Path, strategy: str, workers: int) -> weft.Session:
    s = weft.Session(root, workers=workers, progress=False)
    for name, table in TIMED.items():
        s.stream(name, weft.read.batches([table.slice(0, 0)]), event_time="t", lateness="2 seconds")
    s.query("q", WINDOWED, strategy=strategy)
    return s


@pytest.mark.parametrize("strategy", VIEWS)
def test_a_checkpoint_remembers_views_and_rows_that_expire_leave_them(tmp_path: Path, strategy: str) -> None:
    found, held = [], []
    for batch in slices(TIMED, 6):
        session = timed(tmp_path, strategy, 3)
        trial = Trial(session, state=tmp_path)
        trial.feed(batch)
        found.append(trial.table("q"))
        held.append(sum(ref.rows for ref in trial.segments))
    assert_same_rows(pa.concat_tables(found), oracle(session.queries["q"].query, TIMED))
    assert session.choices[0].chosen.layout.kept
    assert held[-1] < 2 * held[1], "state does not grow"


@pytest.mark.parametrize("change", ["views to flat", "flat to views", "cube", "workers"])
def test_a_running_query_moves_to_views_and_back(tmp_path: Path, change: str) -> None:
    before: dict[str, Any] = {"strategy": "flat", "workers": 2}
    after: dict[str, Any] = {"strategy": "views", "workers": 2}
    if change == "views to flat":
        before, after = after, before
    elif change == "cube":
        before, after = after, {"strategy": "hypercube:hash+views", "workers": 4}
    elif change == "workers":
        before, after = after, {"strategy": "views", "workers": 3}
    batches, found = slices(TIMED, 4), []
    for number, batch in enumerate(batches):
        session = timed(tmp_path, **(before if number < 2 else after))
        trial = Trial(session, state=tmp_path)
        trial.feed(batch)
        found.append(trial.table("q"))
    assert_same_rows(pa.concat_tables(found), oracle(session.queries["q"].query, TIMED))


# ------------------------------------------------------------------------------------------- aggregates


@pytest.mark.parametrize("workers", [1, 3])
def test_an_aggregate_meets_views_that_hold_counts(workers: int) -> None:
    """Arcs that are reached in three steps, counted by where the way begins (003, 6)."""
    rng = np.random.default_rng(1)
    arcs = {"E": pa.table({"f": rng.integers(0, 20, 240), "t": rng.integers(0, 20, 240)})}
    sql = "SELECT a.f, COUNT(*) AS n FROM E a, E b, E c WHERE a.t = b.f AND b.t = c.f GROUP BY a.f"
    session = open_session(arcs, sql, workers, {f"q{i}": strategy for i, strategy in enumerate(VIEWS)})
    session.analyze()
    trial, batches = Trial(session), slices(arcs, 3)
    for number, batch in enumerate(batches):
        trial.feed(batch)
        so_far = {"E": arcs["E"].slice(0, 80 * (number + 1))}
        for name, handle in session.queries.items():
            assert_same_rows(trial.table(name), oracle(handle.query, so_far), f"{name}, batch {number}: ")
    ends = [store.id for store in session.topology.stores if store.members == ("E~2", "E~3")]
    held = [sum(ref.rows for ref in trial.segments if ref.store == name) for name in ends]
    assert held
    assert max(held) <= 20 * workers * workers, "a count for each arc's end, not a row for each pair of arcs"


# ---------------------------------------------------------------------------------------------- sharing


def test_views_of_two_queries_are_kept_once() -> None:
    tables = world(np.random.default_rng(3), "zipf 1", 12)
    session = open_session(tables, SHAPES["chain"], 2, {"one": "views"})
    session.query("two", SHAPES["star"].replace("r.b = t.b", "s.b = t.b"), strategy="views")
    session.analyze()
    trial = feed_all(session, slices(tables, 2))
    for name in ("one", "two"):
        assert_same_rows(trial.table(name), oracle(session.queries[name].query, tables), f"{name}: ")
    shared = [store for store in session.topology.stores if len(store.members) == 2 and len(store.users) > 1]
    assert shared


def test_nothing_is_made_that_nobody_looks_into() -> None:
    tables: Tables = world(np.random.default_rng(3), "zipf 1", 12)
    session = weft.Session("unused", workers=2)
    session.table("R", weft.read.batches([tables["R"]]))
    for name in "ST":
        session.stream(name, weft.read.batches([tables[name]]))
    session.query("q", SHAPES["chain"], strategy="views")
    kept = {store.members for store in session.topology.stores if store.members}
    assert kept == {("R", "S")}, "a table is never the newest, so nothing looks for a partner of it"
