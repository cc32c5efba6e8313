"""One query under every scheme: the rows are the oracle's, and loads are what was predicted.

Cubes copy rows, deal them by number and treat heavy values apart; ranges cut the domain of values.  None of it may
change the answer, for any keys, any order of arrival and any number of workers.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import weft
from tests import fuzz
from tests.host.kit import commit_once
from tests.optimizer.papers import replication
from weft.expr.model import aliases
from weft.expr.render import to_sql
from weft.host.inprocess import run as inprocess
from weft.host.state.checkpoint import say_changes
from weft.optimizer.choose import Choice, choose
from weft.optimizer.cost.estimate import classes
from weft.optimizer.cubes.cube import Hypercube, Skews
from weft.optimizer.cubes.plan import CubeKeys
from weft.optimizer.known import Known
from weft.optimizer.plan import topology as together
from weft.optimizer.ranges import regions as ranges
from weft.optimizer.wishes import Wishes
from weft.query.model import Query
from weft.testing import Trial, assert_same_rows, oracle
from weft.topology import spread as topology

Tables = dict[str, pa.Table]

MOST = 12
"""Workers go from 1 to this."""
CUBES = ("hypercube:hash", "hypercube:random", "hypercube:hybrid")
PLAIN = ("flat", "left_deep", "tree", "auto")


def applicable(query: Query, statistics: weft.Statistics | None) -> list[str]:
    """The strategies that can join this query."""
    found = [*PLAIN, *CUBES]
    if len(query.relations) == 2:
        found.append("two-way:1-bucket")
        if classes(query):
            found.append("two-way:contrand")
        held = ranges.find_band(query)
        if held and all(ranges.sample(query, column, statistics) is not None for column in (held.left, held.right)):
            found += ["two-way:m-bucket", "two-way:equi-weight"]
    return found


def is_parted(choice: Any) -> bool:
    """Whether a plan spreads heavy values over several workers."""
    cubes = [s for s in choice.chosen.layout.spread.values() if isinstance(s, topology.Cube)]
    return any(axis.heavy for cube in cubes for axis in cube.axes)


def is_dealt(choice: Any) -> bool:
    """Whether a plan deals the values of a small domain in turn."""
    cubes = [s for s in choice.chosen.layout.spread.values() if isinstance(s, topology.Cube)]
    return any(axis.domain for cube in cubes for axis in cube.axes)


def slices(tables: Tables, count: int) -> list[Tables]:
    """The rows in their order, cut into so many batches."""
    cuts = {n: np.linspace(0, t.num_rows, count + 1).astype(int) for n, t in tables.items()}
    return [{n: t.slice(cuts[n][i], cuts[n][i + 1] - cuts[n][i]) for n, t in tables.items()} for i in range(count)]


# ------------------------------------------------------------------------------- skewed keys, all schemes

SHAPES = {
    "pair": "SELECT r.n AS r, s.n AS s FROM R r, S s WHERE r.a = s.a",
    "band": "SELECT r.n AS r, s.n AS s FROM R r, S s WHERE r.a BETWEEN s.a - 1 AND s.a + 1",
    "less": "SELECT r.n AS r, s.n AS s FROM R r, S s WHERE r.b < s.b",
    "beside": "SELECT r.n AS r, s.n AS s FROM R r, S s WHERE r.a = s.a AND r.c <= s.c",
    "chain": "SELECT r.n AS r, s.n AS s, t.n AS t FROM R r, S s, T t WHERE r.a = s.a AND s.b = t.b",
    "one key": "SELECT r.n AS r, s.n AS s, t.n AS t FROM R r, S s, T t WHERE r.a = s.a AND s.a = t.a",
    "cycle": "SELECT r.n AS r, s.n AS s, t.n AS t FROM R r, S s, T t WHERE r.a = s.a AND s.b = t.b AND t.c = r.c",
    "theta": "SELECT r.n AS r, s.n AS s, t.n AS t FROM R r, S s, T t WHERE r.a = s.a AND s.c < t.c",
    "self": "SELECT x.n AS x, y.n AS y, z.n AS z FROM R x, R y, R z WHERE x.c = y.a AND y.c = z.a",
    "star": "SELECT r.n AS r, s.n AS s, t.n AS t, u.n AS u FROM R r, S s, T t, U u "
    "WHERE r.a = s.a AND r.b = t.b AND r.c = u.c",
}
ROWS = {2: 48, 3: 14, 4: 7}
"""Rows of a stream by the number of aliases: with one hot key, all combinations are results."""
KINDS = ("zipf 0", "zipf 1", "zipf 2", "zipf 3", "hot", "sorted", "holes")
EVERY = ("pair", "chain")
"""Shapes that run on every number of workers with every kind of keys; others on every third number, taking turns."""


def zipf(rng: np.random.Generator, exponent: float, values: int, n: int) -> np.ndarray:
    weights = 1 / np.arange(1, values + 1) ** exponent
    return rng.choice(values, n, p=weights / weights.sum()).astype(np.int64)


def column(rng: np.random.Generator, kind: str, n: int) -> pa.Array:
    """Join keys of one kind."""
    if kind == "hot":
        return pa.array(np.full(n, 7))
    if kind == "sorted":
        return pa.array(np.sort(zipf(rng, 1.0, 8, n)))
    if kind == "holes":
        return pa.array(zipf(rng, 1.0, 5, n), mask=rng.random(n) < 0.2)
    return pa.array(zipf(rng, float(kind.split()[1]), 10, n))


def world(rng: np.random.Generator, kind: str, n: int) -> Tables:
    """Four streams; among "holes" there are floats that are no number."""
    found = {}
    for name in "RSTU":
        b = column(rng, kind, n)
        if kind == "holes":
            b = pa.array([float("nan") if rng.random() < 0.2 else x.as_py() for x in b], pa.float64())
        found[name] = pa.table(
            {"n": np.arange(n), "a": column(rng, kind, n), "b": b, "c": column(rng, kind, n)},
        )
    return found


def open_session(
    tables: Tables, sql: str, workers: int, plans: Mapping[str, Any], statistics: weft.Statistics | None = None
) -> weft.Session:
    """A session with the query under several plans."""
    s = weft.Session("unused", workers=workers)
    s.options(statistics=statistics)
    for name, table in tables.items():
        s.stream(name, weft.read.batches([table]))
    for name, plan in plans.items():
        s.query(name, sql, strategy=plan)
    return s


def feed_all(session: weft.Session, batches: Sequence[Tables]) -> Trial:
    trial = Trial(session)
    for batch in batches:
        trial.feed(batch)
    return trial


def answers(session: weft.Session, batches: Sequence[Tables]) -> dict[str, pa.Table]:
    """Query -> its results; of those that have the same plan, only the first is run: nothing else can come of it."""
    firsts: list[Choice] = []
    for choice in session.choices:
        if all(choice.chosen.layout != other.chosen.layout for other in firsts):
            firsts.append(choice)
    run = inprocess.InProcess(together(firsts, session.watermark), session.functions)
    for batch in batches:
        run.feed(batch)
    return {choice.name: run.table(choice.name) for choice in firsts}


def worlds(sql: str, kind: str) -> Iterator[tuple[Tables, Query, weft.Statistics, pa.Table]]:
    """Rows for a query, what is measured of them, and the answer; again and again."""
    count = ROWS[2 + ("t.n" in sql or "z.n" in sql) + ("u.n" in sql)]
    for seed in range(100):
        tables = world(np.random.default_rng([KINDS.index(kind), list(SHAPES.values()).index(sql), seed]), kind, count)
        first = open_session(tables, sql, 1, {"q": "flat"})
        [query] = (handle.query for handle in first.queries.values())
        yield tables, query, first.analyze(), oracle(query, tables)


@pytest.mark.fuzz
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_scheme_gives_the_same_rows_on_any_number_of_workers(shape: str, kind: str) -> None:
    sql, never = SHAPES[shape], kind == "hot" and shape in ("less", "theta")
    tables, query, statistics, wanted = next(w for w in worlds(sql, kind) if w[3].num_rows or never)
    names = applicable(query, statistics)
    plans = {f"q{i}": name for i, name in enumerate(names)}
    assert len(names) == {"pair": 9, "band": 10, "less": 10, "beside": 11}.get(shape, 7)
    turn = (KINDS.index(kind) + list(SHAPES).index(shape)) % 3
    parted = dealt = 0
    session = open_session(tables, sql, 1, plans, statistics)
    for workers in range(1, MOST + 1) if shape in EVERY else range(1 + turn, MOST + 1, 3):
        session.options(workers=workers)
        parted += sum(map(is_parted, session.choices))
        dealt += sum(map(is_dealt, session.choices))
        for name, found in answers(session, slices(tables, 2)).items():
            assert_same_rows(found, wanted, f"{plans[name]}, {kind}, {workers} workers: ")
    if kind in ("zipf 2", "zipf 3") and shape in ("pair", "beside"):
        assert parted, "no plan had a heavy value to part"
    if kind in ("zipf 0", "zipf 1") and shape in ("pair", "beside", "chain"):
        assert dealt, "no plan dealt a small domain"


@pytest.mark.parametrize("shape", ["pair", "chain", "one key", "cycle"])
def test_values_that_nobody_had_seen_join_as_those_of_a_dealt_domain(shape: str) -> None:
    """The plan deals 10 values in turn; later batches bring others, NULL among them."""
    rng, sql = np.random.default_rng(7), SHAPES[shape]
    early, late = world(rng, "zipf 1", 40), {}
    for name, table in world(rng, "zipf 0", 20).items():
        wide = [pa.array(rng.integers(-20, 20, 20), mask=rng.random(20) < 0.1) for _ in "abc"]
        late[name] = pa.table([table["n"], *wide], names=["n", "a", "b", "c"])
    tables = {name: pa.concat_tables([early[name], late[name]]) for name in early}
    statistics = open_session(early, sql, 1, {"q": "flat"}).analyze()
    plans = {f"q{i}": name for i, name in enumerate(CUBES)}
    session, dealt = open_session(tables, sql, 1, plans, statistics), 0
    wanted = oracle(session.queries["q0"].query, tables)
    for workers in range(2, MOST + 1):
        session.options(workers=workers)
        dealt += sum(map(is_dealt, session.choices))
        for name, found in answers(session, [early, *slices(late, 2)]).items():
            assert_same_rows(found, wanted, f"{plans[name]}, {workers} workers: ")
    assert dealt


# ----------------------------------------------------------------------------------- keys that are computed

COMPUTED = {
    "wider": ("r.k = s.a", "CAST(k AS BIGINT)"),
    "sum": ("r.k + 1 = s.a", "CAST(k AS BIGINT) + 1"),
    "float": ("r.x = s.a", "x"),
    "rest": ("r.k % 100 = s.a", "CAST(k AS BIGINT) % 100"),
    "text": ("upper(r.t) = s.t", "upper(t)"),
    "both": ("r.k - 1 = s.a * 2", "CAST(k AS BIGINT) - 1"),
}


def computed(rows: int = 2_000) -> Tables:
    """Four of ten rows of R have one value, whatever it is computed to."""
    rng = np.random.default_rng(4)
    k = np.where(rng.random(rows) < 0.4, 7, rng.integers(0, 900, rows))
    r = pa.table({"n": np.arange(rows), "k": pa.array(k, pa.int32()), "x": k.astype(float), "t": [f"u{v}" for v in k]})
    values = np.arange(60) % 57
    return {"R": r, "S": pa.table({"n": np.arange(60), "a": values, "t": [f"U{v}" for v in values]})}


@pytest.mark.parametrize("kind", COMPUTED)
def test_frequent_values_of_computed_keys_are_found_and_spread(kind: str) -> None:
    predicate, name = COMPUTED[kind]
    tables, sql = computed(), f"SELECT r.n AS r, s.n AS s FROM R r, S s WHERE {predicate}"
    session = open_session(tables, sql, 8, {"hash": "hypercube:hash", "hybrid": "hypercube:hybrid"})
    found = session.analyze()
    (_, share), *_ = found.heavy("R", name) or [(0, 0.0)]
    assert share == pytest.approx(0.4, abs=0.03)
    hash_, hybrid = session.choices
    assert hash_.chosen.bill.skew > 1.4 * hybrid.chosen.bill.skew
    trial = feed_all(session, slices(tables, 2))
    for query in ("hash", "hybrid"):
        assert_same_rows(trial.table(query), oracle(session.queries[query].query, tables), f"{query}: ")
    seen = trial.manifest.observed
    (_, share), *_ = seen.heavy("R", name) or [(0, 0.0)]
    assert share == pytest.approx(0.4, abs=0.05)


# ------------------------------------------------------------------------ random queries, cubes by hand


def random_spread(rng: random.Random, query: Query, workers: int) -> dict[str, list[tuple[Any, ...]]]:
    """Any cube that is allowed: random owners, some values dealt in turn, some treated apart."""
    equal: dict[str, dict[str, list[str]]] = {}
    for expr, name in classes(query).items():
        if len(aliases(expr)) == 1:
            equal.setdefault(name, {}).setdefault(min(aliases(expr)), []).append(to_sql(expr))
    axes: dict[str, list[tuple[Any, ...]]] = {alias: [] for alias in query.aliases}
    left = workers
    for _ in range(rng.randint(1, 4)):
        size = rng.randint(1, left)
        left //= size
        members = equal[rng.choice(sorted(equal))] if equal and rng.random() < 0.7 else {}
        owners = rng.sample(sorted(members), rng.randint(1, len(members))) if members else [rng.choice(query.aliases)]
        domain = (0, 1, 3) if rng.random() < 0.3 else ()
        grids = [(code, random_sides(rng, len(owners), size)) for code in range(-1, 3) if rng.random() < 0.4]
        for alias in query.aliases:
            if alias not in owners:
                axes[alias].append((size, "copy"))
            elif members:
                heavy = tuple((code, sides, owners.index(alias)) for code, sides in grids)
                axes[alias].append((size, rng.choice(members[alias]), domain, heavy))
            else:
                axes[alias].append((size, "random"))
    return axes


def random_sides(rng: random.Random, count: int, size: int) -> tuple[int, ...]:
    sides = []
    for _ in range(count):
        sides.append(rng.randint(1, size))
        size //= sides[-1]
    return tuple(sides)


def by_hand(rng: random.Random, query: Query, workers: int) -> weft.Plan:
    """A cube, with joins kept inside it where predicates connect them."""
    spread = random_spread(rng, query, workers)
    for _ in range(20):
        drawn = fuzz.random_plan(rng, query, workers)
        plan = weft.Plan(drawn.keep, orders=dict(drawn.orders), spread=spread)
        try:
            choose("x", query, workers, Wishes(plan), Known())
        except weft.PlanError as error:
            if "no predicate connects" not in str(error):
                raise
        else:
            return plan
    return weft.Plan(spread=spread)


Answered = tuple[fuzz.Case, Query, weft.Statistics | None, pa.Table]
LONG = 1500
"""Rows of an answer that would take too long to compare a dozen times."""


def random_cases(seed: int, count: int) -> Iterator[Answered]:
    """Joins of the fuzzer, most of them measured; the last one can be cut into ranges."""
    found = 0
    while True:
        case = fuzz.make_case(seed, queries=1)
        session = case.session(lateness=fuzz.FOREVER)
        query = session.queries["q0"].query
        statistics = session.analyze() if len(query.relations) == 2 or seed % 5 else None
        last = found >= count - 1
        if len(query.relations) > 1 and (not last or "two-way:equi-weight" in applicable(query, statistics)):
            wanted = oracle(query, case.tables(), fuzz.plain_functions())
            if wanted.num_rows <= LONG:
                yield case, query, statistics, wanted
                found += 1
        if found == count:
            return
        seed += 1


@pytest.mark.fuzz
@pytest.mark.parametrize("workers", range(1, MOST + 1))
def test_random_queries_give_the_same_rows_under_every_scheme_and_any_cube(workers: int) -> None:
    rows = kept = 0
    for case, query, statistics, wanted in random_cases(1000 * workers, 6):
        rng = random.Random(case.seed)
        strategies: list[str | weft.Plan] = [*applicable(query, statistics)]
        strategies += [by_hand(rng, query, workers) for _ in range(2)]
        plans = [fuzz.Planned(f"q{i}", "q0", {"strategy": plan}) for i, plan in enumerate(strategies)]
        session = case.session(lateness=fuzz.FOREVER, workers=workers, plans=plans)
        session.options(statistics=statistics)
        if case.seed % 3 == 0:
            fuzz.check_round_trips(session)
        with fuzz.small_limits(rng):
            found = answers(session, fuzz.shuffled(rng, case))
        for planned in plans:
            if planned.name in found:
                what = f"seed {case.seed}, {planned.wishes['strategy']}, {workers} workers: "
                assert_same_rows(found[planned.name], wanted, what)
        rows += wanted.num_rows
        kept += sum(isinstance(plan, weft.Plan) and bool(plan.keep) for plan in strategies)
    assert rows > 30
    assert kept


# -------------------------------------------------------------------------------------- joins kept in a cube

LINE = """
    SELECT r.n AS r, s.n AS s, t.n AS t, u.n AS u
    FROM R r, S s, T t, U u WHERE r.a = s.a AND s.b = t.b AND t.c = u.c
"""
FAN_OUT = weft.Statistics(
    dict.fromkeys("RSTU", 1e5),
    distinct={f"{name}.{column}": 1e5 for name in "RSTU" for column in "abc"},
    selectivities={("r", "s"): 1e-5, ("s", "t"): 1e-4, ("t", "u"): 1e-7},
)
"""One partner, ten, one in a hundred: without a kept join every tuple makes tens that come to nothing."""


@pytest.mark.parametrize("workers", [2, 3, 4, 6, 8])
def test_auto_keeps_a_join_in_a_cube_where_that_saves_much_and_the_rows_are_the_same(workers: int) -> None:
    tables = world(np.random.default_rng(workers), "zipf 1", 30)
    session = open_session(tables, LINE, workers, {"q": "auto"}, FAN_OUT)
    [choice] = session.choices
    assert choice.chosen.layout.spread
    assert any(part.children for part in choice.chosen.layout.tree.children)
    assert "kept" in session.explain("chosen")
    assert "on the worker that joins it" in session.explain("chosen")
    fuzz.check_round_trips(session)
    trial = feed_all(session, slices(tables, 3))
    assert_same_rows(trial.table("q"), oracle(choice.query, tables), f"{workers} workers: ")


# ------------------------------------------------------------------------------- what is refused, what stays


PAIR = "SELECT r.a, s.b FROM R r, S s WHERE r.a = s.a"
SMALL = {name: pa.table({"a": np.arange(20), "b": np.arange(20) % 3}) for name in "RS"}
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"r": [(4, "copy")], "s": [(4, "copy")]}, "axis 1 of the cube is owned by 0 aliases"),
    ({"r": [(2, "random")], "s": [(2, "random")]}, "axis 1 of the cube is owned by 2 aliases"),
    ({"r": [(2, "r.a"), (2, "random")], "s": [(2, "s.a"), (2, "s.a")]}, "axis 2 of the cube is owned by 2 aliases"),
    ({"r": [(2, "r.a")], "s": [(2, "random")]}, "axis 1 of the cube is owned by 2 aliases"),
    ({"r": [(2, "r.a")], "s": [(3, "s.a")]}, "not on one cube"),
    ({"r": [(2, "r.a")], "s": [(2, "s.a"), (2, "random")]}, "not on one cube"),
    ({"r": ["regions", "r.a", [[5, 0]], [[0], [1]]], "s": [(4, "s.a")]}, "not on one cube"),
    ({"r": [(2, "r.a")]}, "the plan spreads r"),
    ({"r": [(2, "r.a")], "s": [(2, "s.a")], "t": [(2, "copy")]}, "the plan spreads r, s, t"),
    ({"r": [(2, "r.b")], "s": [(2, "s.a")]}, '"r.b" cannot spread "r"'),
    ({"r": [(2, "s.a")], "s": [(2, "s.a")]}, '"s.a" cannot spread "r"'),
    ({"r": [(0, "r.a")], "s": [(0, "s.a")]}, 'the spread of "r" is'),
    ({"r": [(True, "r.a")], "s": [(True, "s.a")]}, 'the spread of "r" is'),
    ({"r": [(2,)], "s": [(2,)]}, 'the spread of "r" is'),
    ({"r": "r.a", "s": "s.a"}, 'the spread of "r" is'),
    ({"r": 2, "s": 2}, 'the spread of "r" is'),
]


@pytest.mark.parametrize(("spread", "message"), REFUSED, ids=[str(spread) for spread, _ in REFUSED])
def test_a_cube_that_would_miss_or_double_results_is_refused_with_a_hint(spread: dict[str, Any], message: str) -> None:
    session = open_session(SMALL, PAIR, 4, {"q": weft.Plan(spread=spread)})
    with pytest.raises(weft.PlanError) as caught:
        session.topology  # noqa: B018
    assert message in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("sql", "strategy", "message"),
    [
        ("SELECT r.a, s.b, x.b AS c FROM R r, S s, S x WHERE r.a = s.a AND s.b = x.b", "two-way:1-bucket", "has 3"),
        ("SELECT r.a, s.b, x.b AS c FROM R r, S s, S x WHERE r.a = s.a AND s.b = x.b", "two-way:m-bucket", "needs two"),
        (PAIR, "two-way:equi-weight", "a range between"),
        ("SELECT r.a, s.b FROM R r, S s WHERE r.a < s.a", "two-way:contrand", "no equality to hash by"),
        ("SELECT r.a, s.b FROM R r, S s WHERE r.a < s.a", "two-way:equi-weight", "needs to know how"),
    ],
)
def test_a_scheme_that_does_not_fit_the_query_is_refused_with_one_that_does(
    sql: str, strategy: str, message: str
) -> None:
    statistics = weft.Statistics({"R": 20.0, "S": 20.0})
    with pytest.raises(weft.PlanError) as caught:
        open_session(SMALL, sql, 4, {"q": strategy}, statistics).topology  # noqa: B018
    assert message in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    "strategy", ["hypercube:ash", "hypercube:", "two-way:hash", "two-way", "cube:hash", "1-bucket"]
)
def test_an_unknown_scheme_is_refused_with_those_there_are(strategy: str) -> None:
    with pytest.raises(weft.PlanError) as caught:
        open_session(SMALL, PAIR, 4, {"q": strategy}).topology  # noqa: B018
    assert strategy in caught.value.message
    assert "hypercube:hybrid" in (caught.value.hint or "")


SKEWED = {
    "R": pa.table({"n": np.arange(60), "a": np.where(np.arange(60) % 3, 5, np.arange(60))}),
    "S": pa.table({"n": np.arange(60), "a": np.where(np.arange(60) % 2, 5, np.arange(60)), "b": np.arange(60) % 9}),
    "T": pa.table({"n": np.arange(40), "b": np.arange(40) % 9}),
}
THREE = "SELECT r.n AS r, s.n AS s, t.n AS t FROM R r, S s, T t WHERE r.a = s.a AND s.b = t.b"
BY_HAND = weft.Plan(
    [("r", "s")],
    spread={"r": [(2, "r.a"), (3, "copy")], "s": [(2, "s.a"), (3, "copy")], "t": [(2, "copy"), (3, "random")]},
)


@pytest.mark.parametrize("strategy", [*CUBES, "auto", BY_HAND], ids=[*CUBES, "auto", "by hand"])
def test_a_checkpoint_goes_on_with_its_cube_whatever_is_measured_later(
    strategy: str | weft.Plan, tmp_path: Path
) -> None:
    def session(statistics: weft.Statistics | None) -> weft.Session:
        s = weft.Session(tmp_path, workers=6)
        s.options(statistics=statistics)
        for name, table in SKEWED.items():
            s.stream(name, weft.read.batches([table]))
        s.query("q", THREE, strategy=strategy)
        s.claim()
        s.checkpoint.release()
        return s

    measured = open_session(SKEWED, THREE, 6, {"q": strategy}).analyze()
    even = weft.Statistics({"R": 1e6, "S": 10.0, "T": 10.0}, selectivities={("r", "s"): 1e-6})
    batches, first, found = slices(SKEWED, 4), session(measured), []
    for number, batch in enumerate(batches):
        again = session([measured, even, None, even][number])
        assert again.topology == first.topology
        trial = Trial(again, state=tmp_path)
        trial.feed(batch)
        found.append(trial.table("q"))
    assert first.choices[0].chosen.layout.spread, "the plan is a cube"
    assert_same_rows(pa.concat_tables(found), oracle(first.queries["q"].query, SKEWED))
    if strategy != BY_HAND:
        fresh = open_session(SKEWED, THREE, 6, {"q": strategy}, even)
        assert fresh.topology != first.topology, "these statistics do make another plan"


def test_another_scheme_on_a_checkpoint_is_taken(tmp_path: Path) -> None:
    def session(strategy: str) -> weft.Session:
        s = weft.Session(tmp_path, workers=6)
        for name, table in SKEWED.items():
            s.stream(name, weft.read.batches([table]))
        s.query("q", THREE, strategy=strategy)
        return s

    def claim(s: weft.Session) -> None:
        s.claim()
        s.checkpoint.release()

    first, other = session("hypercube:hash"), session("hypercube:random")
    claim(first)
    commit_once(first)
    claim(other)
    assert say_changes(first.work().session, other.work().session) == ['query "q" has another plan']


# --------------------------------------------------------------------------------- loads are as predicted


def predict_cube(session: weft.Session, workers: int) -> tuple[Hypercube, Skews]:
    """The cube of the session's only query, and what was known of its keys."""
    [choice] = session.choices
    keys = CubeKeys(choice.query, choice.model.graph, choice.known.statistics)
    return keys.plan(str(choice.strategy), workers).cube, keys.skews


def rows_held(trial: Trial) -> np.ndarray:
    """Rows that each worker holds."""
    found = np.zeros(trial.topology.workers)
    for ref in trial.segments:
        found[ref.worker] += ref.rows
    return found


def work_done(trial: Trial) -> np.ndarray:
    """Rows that each worker stored, and tuples it answered."""
    load = trial.counters.load
    return np.array([load.get(str(worker), 0) for worker in range(trial.topology.workers)], dtype=float)


def keyed(rng: np.random.Generator, rows: int) -> Tables:
    """A chain R(a) S(a, b) T(b) of even keys, every value twice."""
    values = np.arange(rows) // 2
    return {
        "R": pa.table({"n": np.arange(rows), "a": rng.permutation(values)}),
        "S": pa.table({"n": np.arange(rows), "a": rng.permutation(values), "b": rng.permutation(values)}),
        "T": pa.table({"n": np.arange(rows), "b": rng.permutation(values)}),
    }


@pytest.mark.parametrize("strategy", CUBES)
@pytest.mark.parametrize("workers", [8, 12])
def test_even_keys_load_workers_as_the_cube_says(strategy: str, workers: int) -> None:
    tables = keyed(np.random.default_rng(workers), 24_000)
    session = open_session(tables, THREE, workers, {"q": strategy})
    session.analyze()
    trial = feed_all(session, slices(tables, 10))
    cube, skews = predict_cube(session, workers)
    counters, bill = trial.counters, session.choices[0].chosen.bill
    near = {"rel": 0.05, "abs": 0}
    assert cube.machines == workers
    assert counters.replication_factor == pytest.approx(replication(cube, skews), **near)
    assert counters.tuples_stored == pytest.approx(cube.total(skews), **near)
    assert counters.tuples_stored == pytest.approx(bill.scost, **near)
    assert rows_held(trial).max() == pytest.approx(cube.load(skews), **near)
    assert rows_held(trial) == pytest.approx(np.full(workers, cube.load()), **near)
    assert counters.skew_degree(workers) == pytest.approx(cube.skew_degree(skews), **near)
    assert work_done(trial) == pytest.approx(np.full(workers, (bill.scost + bill.pcost) / workers), **near)


def uneven(rng: np.random.Generator, exponent: float, rows: int) -> Tables:
    """The same chain, where R.a and T.b follow a zipf law."""
    values = rows // 4
    order = rng.permutation(values)
    return {
        "R": pa.table({"n": np.arange(rows), "a": order[zipf(rng, exponent, values, rows)]}),
        "S": pa.table({"n": np.arange(rows), "a": rng.integers(0, values, rows), "b": rng.integers(0, values, rows)}),
        "T": pa.table({"n": np.arange(rows), "b": order[zipf(rng, exponent, values, rows)]}),
    }


@pytest.mark.parametrize("exponent", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("workers", [8, 12])
def test_zipf_keys_load_the_fullest_worker_as_the_cube_says_and_hybrid_loads_it_least(
    exponent: float, workers: int
) -> None:
    tables = uneven(np.random.default_rng(int(10 * exponent) + workers), exponent, 8_000)
    peaks, tops = {}, {}
    for strategy in CUBES:
        session = open_session(tables, THREE, workers, {"q": strategy})
        session.analyze()
        trial = feed_all(session, slices(tables, 2))
        cube, skews = predict_cube(session, workers)
        peaks[strategy], tops[strategy] = rows_held(trial).max(), work_done(trial).max()
        assert peaks[strategy] == pytest.approx(cube.load(skews), rel=0.25)
        assert trial.counters.replication_factor == pytest.approx(replication(cube, skews), rel=0.05)
    assert peaks["hypercube:hybrid"] <= min(peaks.values())
    assert tops["hypercube:hybrid"] <= tops["hypercube:hash"]


def test_sorted_arrival_overloads_a_worker_in_each_batch_unless_rows_are_dealt() -> None:
    """D31: keys come in order, so a batch holds few of them; over the whole run they are even."""
    rows, workers = 6_000, 8
    values = np.arange(rows) // 300
    tables = {name: pa.table({"n": np.arange(rows), "a": values}) for name in "RS"}
    worst, whole = {}, {}
    for strategy in ("hypercube:hash", "two-way:1-bucket"):
        session = open_session(
            tables, PAIR.replace("s.b", "s.n").replace("r.a,", "r.n AS r,"), workers, {"q": strategy}
        )
        session.analyze()
        trial = feed_all(session, slices(tables, 20))
        peaks = [report.skew_degree(workers) for report in trial.reports]
        worst[strategy], whole[strategy] = float(np.mean(peaks)), trial.counters.skew_degree(workers)
    assert worst["hypercube:hash"] > 4
    assert worst["two-way:1-bucket"] < 1.05
    assert whole["hypercube:hash"] < 3


# --------------------------------------------------------------------------------------- work by results


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """Worker -> results it made, from the next trial on."""
    counts: dict[int, int] = {}

    class Counting:
        def __init__(self, into: Any, place: int) -> None:
            self.into, self.place = into, place

        def write(self, query: str, rows: pa.RecordBatch) -> None:
            counts[self.place] = counts.get(self.place, 0) + rows.num_rows
            self.into.write(query, rows)

        def close(self) -> Any:
            return self.into.close()

    class Watched(inprocess.Worker):
        def __init__(self, plan: Any, place: int, batch: Any, state: Any, functions: Any, results: Any) -> None:
            super().__init__(plan, place, batch, state, functions, Counting(results, place))

    monkeypatch.setattr(inprocess, "Worker", Watched)
    return counts


def test_equi_weight_ranges_even_out_results_where_m_bucket_does_not(made: dict[int, int]) -> None:
    rng, rows, workers = np.random.default_rng(3), 4_000, 8
    order = rng.permutation(2_000)
    tables = {name: pa.table({"n": np.arange(rows), "a": order[zipf(rng, 1.0, 2_000, rows)]}) for name in "RS"}
    sql = "SELECT r.n AS r, s.n AS s FROM R r, S s WHERE r.a BETWEEN s.a - 1 AND s.a + 1"
    peaks, rows_made = {}, set()
    for strategy in ("two-way:equi-weight", "two-way:m-bucket"):
        made.clear()
        session = open_session(tables, sql, workers, {"q": strategy})
        session.analyze()
        trial = feed_all(session, slices(tables, 4))
        work = rows_held(trial) + np.array([made.get(worker, 0) for worker in range(workers)])
        peaks[strategy] = work.max() / work.mean()
        assert sum(made.values()) == trial.table("q").num_rows
        rows_made.add(sum(made.values()))
    assert peaks["two-way:equi-weight"] <= 1.3
    assert peaks["two-way:m-bucket"] > 2
    assert len(rows_made) == 1
