"""Measured statistics: exact where the sample is the stream, near where it is not, silent where nothing is known."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import weft
from tests.stats.kit import NUMBERS, STREAMS, near, q_error, queries, samples, session
from weft.errors import PlanError
from weft.expr.render import to_sql
from weft.optimizer.cost.estimate import estimate
from weft.stats.analyze import analyze
from weft.stats.estimators import distinct_values
from weft.stats.model import Statistics
from weft.stats.pairs import PAIRS
from weft.stats.sample import Sample
from weft.testing import oracle

FUNCTIONS = {"near": near}


def messy(rng: np.random.Generator, rows: int) -> pa.Table:
    """NULLs, NaNs, duplicates, a value that is half of all."""

    def holes(values: list[Any]) -> list[Any]:
        return [None if rng.random() < 0.15 else value for value in values]

    ints = np.where(rng.random(rows) < 0.5, 3, rng.integers(0, 12, rows))
    floats = [float("nan") if rng.random() < 0.2 else float(rng.choice([0.0, -0.0, 1.5, 2.5])) for _ in range(rows)]
    return pa.table(
        {
            "i": pa.array(holes(ints.tolist()), pa.int64()),
            "f": pa.array(holes(floats), pa.float64()),
            "s": pa.array(holes([str(w) for w in rng.choice(["", "a", "ab", "abc", "b"], rows)]), pa.string()),
            "d": pa.array(
                holes([decimal.Decimal(int(n)) / 10 for n in rng.integers(0, 5, rows)]), pa.decimal128(20, 1)
            ),
        }
    )


# --------------------------------------------------------------------------------- the whole stream is sampled

PREDICATES = [
    "a.i = b.i",
    "a.f = b.f",
    "a.s = b.s",
    "a.d = b.d",
    "a.i + 1 = b.i * 2",
    "a.i + b.i = 5",
    "a.i < b.i",
    "a.f >= b.f",
    "a.f <> b.f",
    "abs(a.i - b.i) <= 2",
    "a.s LIKE 'a%' OR b.s LIKE '%b'",
    "a.i = b.i OR a.s = b.s",
    "near(a.i, b.i)",
    "coalesce(a.i, b.i) IS NULL",
    "a.i = b.i + 100",
]


@pytest.mark.parametrize("second", ["u", "t"], ids=["two streams", "self join"])
@pytest.mark.parametrize("predicate", PREDICATES)
@pytest.mark.parametrize("seed", range(3))
def test_a_predicate_lets_through_what_duckdb_counts(seed: int, predicate: str, second: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    tables = {"t": messy(rng, 61), "u": messy(rng, 47)}
    s = session(tmp_path, **tables)
    query = s.query("q", f"SELECT a.i FROM t a, {second} b WHERE {predicate}").query
    pairs = tables["t"].num_rows * tables[second].num_rows
    count = oracle(query, tables, FUNCTIONS).num_rows
    found = s.analyze().predicate(to_sql(query.predicates[0]))
    assert found == pytest.approx(count / pairs if count else 1 / (pairs + 2), rel=1e-9)


CONJUNCTIONS = [
    "a.i = b.i AND a.f < b.f",
    "a.i = b.i AND a.s = b.s",
    "a.i = b.i AND a.s = b.s AND near(a.i, b.i) AND a.f <> b.f",
    "a.i BETWEEN b.i - 1 AND b.i + 1",
    "a.i < b.i AND a.i > b.i",
    "a.i = b.i AND a.i < 5 AND b.i < 4",
    "a.s <> b.s AND a.f IS NOT NULL",
    "a.i = b.i AND a.i = 3 AND a.f > 1 AND b.s LIKE 'a%'",
]


@pytest.mark.parametrize("second", ["u", "t"], ids=["two streams", "self join"])
@pytest.mark.parametrize("where", CONJUNCTIONS)
@pytest.mark.parametrize("seed", range(3))
def test_a_join_gives_as_many_pairs_as_duckdb(seed: int, where: str, second: str, tmp_path: Path) -> None:
    """Sizes after selections times the pair's selectivity, as the optimizer reads them, are the size of the answer."""
    rng = np.random.default_rng(seed)
    tables = {"t": messy(rng, 61), "u": messy(rng, 47)}
    s = session(tmp_path, **tables)
    query = s.query("q", f"SELECT a.i FROM t a, {second} b WHERE {where}").query
    graph = estimate(query, s.analyze())
    (_, _, share), (a, b) = graph.edges[0], graph.relations
    count = oracle(query, tables, FUNCTIONS).num_rows
    assert a.size * b.size * share == pytest.approx(count or a.size * b.size / (a.size * b.size + 2), rel=1e-9)


@pytest.mark.parametrize(
    "predicate", ["t.i > 4", "t.f < 2", "t.s LIKE 'a%'", "near(t.i, 3)", "t.i IS NULL", "t.i > 99"]
)
def test_a_selection_keeps_what_duckdb_counts(predicate: str, tmp_path: Path) -> None:
    table = messy(np.random.default_rng(5), 200)
    s = session(tmp_path, t=table)
    query = s.query("q", f"SELECT t.i FROM t WHERE {predicate}").query
    count = oracle(query, {"t": table}, FUNCTIONS).num_rows
    assert s.analyze().predicate(to_sql(query.predicates[0])) == (count / 200 if count else 1 / 202)


def test_null_and_nan_are_no_values_and_both_zeros_are_one(tmp_path: Path) -> None:
    t = pa.table({"f": [1.0, float("nan"), None, 0.0, -0.0, 1.0], "s": ["x", "", None, None, "x", "y"]})
    s = session(tmp_path, t=t)
    s.query("q", "SELECT a.s FROM t a JOIN t b ON a.f = b.f AND a.s = b.s")
    found = s.analyze()
    assert (found.distinct("t", "f"), found.distinct("t", "s")) == (2, 3)


# ------------------------------------------------------------------------------------------- a part is sampled

ROWS = 200_000
SAMPLE = 20_000


def zipf(rng: np.random.Generator, values: int, exponent: float, rows: int = ROWS) -> Any:
    weights = np.arange(1, values + 1) ** -exponent
    return rng.permutation(values)[rng.choice(values, rows, p=weights / weights.sum())]


COLUMNS: dict[str, tuple[Callable[[np.random.Generator], Any], float]] = {
    "unique": (lambda rng: rng.permutation(ROWS), 1.01),
    "few": (lambda rng: rng.integers(0, 50, ROWS), 1.01),
    "as many as sampled": (lambda rng: rng.integers(0, SAMPLE, ROWS), 1.15),
    "most once": (lambda rng: rng.integers(0, ROWS, ROWS), 1.5),
    "zipf 0.5": (lambda rng: zipf(rng, 20_000, 0.5), 2.0),
    "zipf 1, few": (lambda rng: zipf(rng, 1_000, 1.0), 2.0),
    "zipf 1, many": (lambda rng: zipf(rng, 100_000, 1.0), 2.5),
    "zipf 1.5": (lambda rng: zipf(rng, 100_000, 1.5), 2.5),
}


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("seed", range(3))
def test_distinct_counts_are_near(kind: str, seed: int) -> None:
    make, bound = COLUMNS[kind]
    values = make(np.random.default_rng(seed)).astype(np.int64)
    drawn = np.random.default_rng([seed, 1]).choice(values, SAMPLE, replace=False)
    assert q_error(distinct_values(drawn, ROWS), len(np.unique(values))) < bound


def test_of_everything_the_distinct_count_is_exact() -> None:
    values = zipf(np.random.default_rng(0), 1000, 1.0, 5000).astype(np.int64)
    assert distinct_values(values, 5000) == len(np.unique(values))


KEYS: dict[str, tuple[Callable[[np.random.Generator], tuple[Any, Any]], float]] = {
    "key and uniform": (lambda rng: (rng.permutation(ROWS), rng.integers(0, ROWS, ROWS)), 1.2),
    "key and zipf": (lambda rng: (rng.permutation(ROWS), zipf(rng, ROWS, 1.0)), 1.6),
    "uniform and uniform": (lambda rng: (rng.integers(0, 1000, ROWS), rng.integers(0, 1000, ROWS)), 1.1),
    "few common keys": (lambda rng: (rng.integers(0, 5000, ROWS), rng.integers(4500, 9500, ROWS)), 1.4),
    "zipf and zipf, same order": (lambda rng: (zipf(np.random.default_rng(9), 5000, 1.0),) * 2, 1.2),
    "zipf and zipf, other order": (lambda rng: (zipf(rng, 5000, 1.0), zipf(rng, 5000, 1.0)), 1.6),
    "one value, half of the rows NULL": (
        lambda rng: (rng.permutation(ROWS), np.where(rng.random(ROWS) < 0.5, -1, 7)),
        1.6,
    ),
}


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("seed", range(3))
def test_equalities_are_near(kind: str, seed: int, tmp_path: Path) -> None:
    make, bound = KEYS[kind]
    rng = np.random.default_rng(seed)
    a, b = (column.astype(np.int64) for column in make(rng))
    both = range(ROWS)
    truth = float((np.bincount(a[a >= 0], minlength=ROWS) / ROWS * np.bincount(b[b >= 0], minlength=ROWS) / ROWS).sum())
    tables = {name: pa.table({"k": pa.array(k, mask=k < 0)}) for name, k in (("t", a), ("u", b))}
    s = session(tmp_path, **tables)
    s.query("q", "SELECT t.k FROM t JOIN u ON t.k = u.k")
    found = s.analyze(SAMPLE, seed)
    assert len(both) == found.rows("t") == found.rows("u")
    assert q_error(found.predicate("t.k = u.k"), truth) < bound


@pytest.mark.parametrize("seed", range(3))
def test_keys_that_never_meet_are_rare_but_not_impossible(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    s = session(
        tmp_path, t=pa.table({"k": rng.integers(0, 1000, ROWS)}), u=pa.table({"k": rng.integers(1000, 2000, ROWS)})
    )
    s.query("q", "SELECT t.k FROM t JOIN u ON t.k = u.k")
    found = s.analyze(SAMPLE, seed).predicate("t.k = u.k")
    assert found is not None
    assert 0 < found < 1 / 1000 / 100


@pytest.mark.parametrize(
    ("where", "truth"),
    [
        ("a.x < b.x", 1 / 2),
        ("abs(a.x - b.x) < 0.05", 0.0975),
        ("a.x BETWEEN b.x - 0.001 AND b.x + 0.001", 0.002),
        ("a.k = b.k AND a.x < b.x", 1 / 2000),
        ("a.k = b.k AND a.k2 = b.k2", 1 / 1000),
        ("a.k = b.k AND a.k2 <> b.k2", None),
        ("a.k = b.k AND a.k < 100 AND b.k < 100", 1 / 100),
    ],
)
def test_correlated_predicates_are_measured_together(where: str, truth: float | None, tmp_path: Path) -> None:
    """k2 is a function of k: two equalities are as selective as one, not as their product."""
    rng = np.random.default_rng(1)

    def table() -> pa.Table:
        k = rng.integers(0, 1000, ROWS)
        return pa.table({"k": k, "k2": k * 7 % 100, "x": rng.random(ROWS)})

    s = session(tmp_path, t=table(), u=table())
    query = s.query("q", f"SELECT a.k FROM t a, u b WHERE {where}").query
    share = estimate(query, s.analyze(SAMPLE)).edges[0][2]
    if truth is None:
        assert 0 < share < 1e-6
    else:
        assert q_error(share, truth) < 1.2


def test_a_row_meets_itself_as_often_as_in_the_stream_and_not_as_in_the_sample(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    t = pa.table({"k": rng.permutation(ROWS), "x": rng.random(ROWS)})
    s = session(tmp_path, t=t)
    s.query("q", "SELECT a.k FROM t a JOIN t b ON a.k = b.k AND a.x <= b.x")
    found = s.analyze(SAMPLE)
    assert q_error(found.predicate("a.k = b.k"), 1 / ROWS) < 2.1  # the sample would say 1 / SAMPLE
    assert q_error(found.selectivity("a", "b"), 1 / ROWS) < 2.1
    assert q_error(found.predicate("a.x <= b.x"), 0.5) < 1.02


def test_selections_that_depend_on_each_other_are_measured_together(tmp_path: Path) -> None:
    x = np.random.default_rng(3).random(ROWS)
    s = session(tmp_path, t=pa.table({"x": x, "y": x}))
    query = s.query("q", "SELECT a.x FROM t a WHERE a.x < 0.1 AND a.y < 0.1").query
    assert q_error(estimate(query, s.analyze(SAMPLE)).relations[0].size, ROWS / 10) < 1.05


# ---------------------------------------------------------------------------------------- sizes, rates, widths


def test_rows_rates_and_widths(tmp_path: Path) -> None:
    s = session(tmp_path)
    table = pa.table({"ts": [10, 12, 14, 20], "k": [1, 2, 3, 4], "unread": ["x" * 100] * 4})
    s.stream("t", weft.read.batches([table, table.slice(0, 0)]), event_time="ts")
    s.stream("ms", weft.read.batches([table]), event_time="ts", unit="ms")
    s.stream("once", weft.read.batches([table.slice(0, 1)]), event_time="ts")
    s.query("q", "SELECT t.k FROM t JOIN ms ON t.k = ms.k")
    found = s.analyze()
    assert [found.rows(name) for name in ("t", "ms", "once")] == [4, 4, 1]
    assert [found.rate(name) for name in ("t", "ms")] == [pytest.approx(0.4), pytest.approx(400)]
    assert found.rate("once") is None
    assert found.width("t") == 16
    assert q_error(found.width("once"), 16 + 100 + 4) < 1.2


def test_a_few_impossible_dates_do_not_slow_a_stream_down(tmp_path: Path) -> None:
    times = np.arange(10_000)
    times[:20], times[-20:] = -(10**9), 10**11
    s = session(tmp_path)
    s.stream("t", weft.read.batches([pa.table({"ts": times})]), event_time="ts")
    assert q_error(s.analyze().rate("t"), 1.0) < 1.01


def test_rows_without_a_time_do_not_count_for_the_rate(tmp_path: Path) -> None:
    s = session(tmp_path)
    s.stream("t", weft.read.batches([pa.table({"ts": [0, None, 10, None]})]), event_time="ts")
    assert s.analyze().rate("t") == pytest.approx(0.2)


# ------------------------------------------------------------------------------------------ what stays unknown


@pytest.mark.parametrize("rows", [0, 1])
def test_tiny_streams(rows: int, tmp_path: Path) -> None:
    one = pa.table({"k": [7], "s": ["x"]})
    s = session(tmp_path, t=one.slice(0, rows), u=one)
    s.query("q", "SELECT t.k FROM t JOIN u ON t.k = u.k AND t.s < u.s WHERE t.k > 0 AND t.k < 9")
    found = s.analyze()
    assert found.rows("u") == 1
    if rows:
        assert (found.rows("t"), found.distinct("t", "k")) == (1, 1)
        assert found.predicate("t.k = u.k") == 1
        assert found.predicate("t.s < u.s") == 1 / 3
        assert found.selectivity("t", "u") == 1 / 3
    else:
        assert found.rows("t") is found.distinct("t", "k") is found.predicate("t.k = u.k") is None
        assert found.predicate("t.k > 0") is found.selectivity("t", "u") is None
    assert s.topology.workers == 2


def test_one_row_with_itself(tmp_path: Path) -> None:
    s = session(tmp_path, t=pa.table({"k": [7]}))
    s.query("q", "SELECT a.k FROM t a JOIN t b ON a.k = b.k AND a.k >= b.k")
    assert s.analyze().selectivity("a", "b") == 1


def test_a_stream_without_a_sample_stays_unknown() -> None:
    found = analyze(STREAMS, samples("t"), queries("SELECT t.k FROM t JOIN u ON t.k = u.k AND t.x < u.x WHERE u.x > 1"))
    heavy = {"t.k": [(1, 0.5), (2, 0.25), (3, 0.25)]}
    quantiles = {"t.x": [0, 1, 2, 3]}
    assert found == Statistics({"t": 4}, widths={"t": 16}, distinct={"t.k": 3}, heavy=heavy, quantiles=quantiles)


def test_of_an_unknown_total_only_shares_are_known() -> None:
    unknown = {"t": Sample(NUMBERS, None), "u": Sample(NUMBERS, None)}
    found = analyze(STREAMS, unknown, queries("SELECT t.k FROM t JOIN u ON t.k = u.k WHERE t.x > 1"))
    assert found.rows("t") is found.distinct("t", "k") is None
    assert found.predicate("t.x > 1") == 0.5
    assert found.predicate("t.k = u.k") == 6 / 16


def test_a_predicate_that_fails_on_rows_it_would_never_meet_stays_unknown(tmp_path: Path) -> None:
    s = session(tmp_path, t=pa.table({"k": [1, 2], "x": [0, 5]}), u=pa.table({"k": [2, 2], "x": [1, 0]}))
    s.function("broken", lambda a, b: 1 / 0)
    s.query("q", "SELECT t.k FROM t JOIN u ON t.k = u.k AND u.x % t.x = 1 AND broken(t.x, u.x) WHERE t.x <> 0")
    found = s.analyze()
    assert (
        found.predicate("u.x % t.x = 1") is found.predicate("broken(t.x, u.x)") is found.selectivity("t", "u") is None
    )
    assert found.predicate("t.k = u.k") == 0.5


def test_a_selection_that_nothing_passes_says_nothing_of_keys() -> None:
    sql = "SELECT a.k FROM t a JOIN u b ON a.k + 1 = b.k WHERE a.x > 1000"
    found = analyze(STREAMS, samples("t", "u"), queries(sql))
    assert found.distinct("a", "k") is None
    assert found.heavy("a", "k + 1") == ()
    assert found.distinct("t", "k + 1") == 3


# ----------------------------------------------------------------------------------------- seeds, JSON, arguments


def test_analyzing_again_measures_again(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(NUMBERS, folder / "0.parquet")
    s = session(tmp_path, t=weft.read.parquet(folder))
    s.options(statistics=Statistics(widths={"t": 1}))
    assert s.analyze().rows("t") == 4
    pq.write_table(NUMBERS, folder / "1.parquet")
    found = s.analyze()
    assert (found.rows("t"), found.width("t")) == (8, 1)


def test_the_same_seed_measures_the_same_and_another_does_not(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    t = pa.table({"k": rng.integers(0, 500, 5000), "x": rng.random(5000)})
    s = session(tmp_path, t=t, u=t)
    s.query("q", "SELECT a.k FROM t a JOIN u b ON a.k = b.k AND a.x < b.x WHERE a.x > 0.3")
    found = s.analyze(1000, seed=1)
    assert s.analyze(1000, seed=1) == found
    assert s.analyze(1000, seed=2) != found
    assert Statistics.from_json(found.to_json()) == found
    assert PAIRS < 1000**2, "pairs are drawn too"


@pytest.mark.parametrize("sample", [0, -1, 1.5, True, None])
def test_nonsense_samples_are_refused(sample: Any, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="sample is"):
        session(tmp_path, t=NUMBERS).analyze(sample)
