"""The measurement of plans: its data is what it says, its predictions are the cost model's, and all of it runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench import papers, plans, tables
from bench.chains import LLLL, LLLL_LARGE, LLLL_MEDIUM, MHL, MLM, MMM, Chain, even_keys
from bench.papers import Counting
from bench.runs import STRATEGIES, Setting, cluster_seconds, in_process, on_cluster, open_session
from bench.streams import cached
from bench.tpch import COLUMNS, workload
from bench.workload import Workload
from weft.optimizer.cost.papers import CostModel
from weft.optimizer.trees.orders import least_sent_orders

CHAINS = (LLLL, MLM, MHL, MMM)
SIZE = plans.Size(
    scale=0,
    rows=400,
    counted=(Counting(LLLL, 1000, (0.1, 1.0)), Counting(LLLL_MEDIUM, 200, (0.1,)), Counting(LLLL_LARGE, 10, (10.0,))),
    shapes=200,
    batches=4,
    counted_batches=4,
    repeats=1,
    tasks=(1, 2),
)
ROWS = {
    "part": 200, "partsupp": 800, "supplier": 25, "nation": 25, "region": 5,
    "customer": 50, "orders": 500, "lineitem": 2000,
}  # fmt: skip


def tpch_like(seed: int = 3) -> dict[str, pa.Table]:
    """Tables with the keys of TPC-H, every foreign key drawn evenly; other columns are row numbers."""
    rng = np.random.default_rng(seed)
    keys = {
        "ps_partkey": "part", "ps_suppkey": "supplier", "s_nationkey": "nation", "n_regionkey": "region",
        "c_nationkey": "nation", "o_custkey": "customer", "l_orderkey": "orders", "l_suppkey": "supplier",
    }  # fmt: skip
    columns: dict[str, set[str]] = {}
    for found in COLUMNS.values():
        for table, names in found.items():
            columns.setdefault(table, set()).update(names)
    return {
        table: pa.table(
            {
                name: even_keys(rng, ROWS[table], ROWS[keys[name]]) if name in keys else np.arange(ROWS[table])
                for name in sorted(names)
            }
        )
        for table, names in columns.items()
    }


def tpch(name: str, cache: Path) -> Workload:
    every = tpch_like()
    chosen = {table: every[table].select(list(names)) for table, names in COLUMNS[name].items()}
    folder = cached(cache / name, lambda: chosen, SIZE.batches)
    return workload(name, folder, {table: ROWS[table] for table in chosen})


def joined(tables: Mapping[str, pa.Table], sql: str) -> int:
    with duckdb.connect() as oracle:
        for name, table in tables.items():
            oracle.register(name, table)
        row = oracle.execute(sql).fetchone()
        assert row is not None
        return int(row[0])


# --------------------------------------------------------------------------------------------------- data


@pytest.mark.parametrize("chain", [LLLL_MEDIUM, LLLL_LARGE, MLM, MMM], ids=lambda chain: chain.name)
def test_every_join_of_neighbours_has_exactly_its_expected_size(chain: Chain) -> None:
    small = chain.scaled(20)
    found = small.tables()
    for first, last in combinations(range(1, len(small.sizes) + 1), 2):
        joins = " ".join(f"JOIN r{i} ON b{i - 1} = a{i}" for i in range(first + 1, last + 1))
        expected = np.prod(small.sizes[first - 1 : last]) / np.prod(small.domains[first - 1 : last - 1])
        assert joined(found, f"SELECT count(*) FROM r{first} {joins}") == round(expected)


def test_rare_partners_are_as_many_as_expected_on_average() -> None:
    chain = LLLL.scaled(1000)
    found = [joined(chain.tables(seed), "SELECT count(*) FROM r1 JOIN r2 ON b1 = a2") for seed in range(20)]
    assert chain.domains == (100_000,) * 4
    assert np.mean(found) == pytest.approx(10, rel=0.2)


def test_scaling_keeps_the_partners_of_a_tuple() -> None:
    for size in (100, 20_000):
        small = MHL.scaled(size)
        assert small.sizes == (size,) * 4
        assert [f * size for f in small.selectivities] == pytest.approx([1, 10, 0.01])


def test_keys_are_even() -> None:
    counts = np.bincount(even_keys(np.random.default_rng(1), 1003, 100), minlength=100)
    assert (counts.min(), counts.max(), counts.sum()) == (10, 11, 1003)


def test_same_seed_gives_same_rows() -> None:
    chain = MLM.scaled(100)
    assert chain.tables(5) == chain.tables(5)
    assert chain.tables(5) != chain.tables(6)


def test_small_streams_arrive_from_first_to_last_batch(tmp_path: Path) -> None:
    cached(tmp_path / "s", lambda: {"few": pa.table({"x": range(5)}), "many": pa.table({"x": range(200)})}, 20)
    few, many = (
        [pq.read_metadata(file).num_rows for file in sorted((tmp_path / "s" / name).glob("*"))]
        for name in ("few", "many")
    )
    assert many == [10] * 20
    assert sum(few) == 5
    assert all(sum(few[i : i + 5]) for i in range(0, 20, 5))


# ------------------------------------------------------------------------------------------------ model


@pytest.mark.parametrize("name", ["flat", "left_deep", "tree"])
@pytest.mark.parametrize("chain", [LLLL, LLLL_LARGE, MHL], ids=lambda chain: chain.name)
def test_prediction_for_scattered_stores_is_the_papers_cost(chain: Chain, name: str, tmp_path: Path) -> None:
    streams = chain.scaled(20).workload(1, tmp_path)
    setting = papers.scattered(streams, name, capacity=10)
    model = CostModel(streams.graph, capacity=10)
    bill = open_session(streams, setting, tmp_path).choices[0].chosen.bill
    tree = papers.planned(model, name)
    assert bill.scost == pytest.approx(model.scost(tree), rel=1e-9)
    assert bill.pcost == pytest.approx(model.pcost(tree, least_sent_orders), rel=1e-9)


# ------------------------------------------------------------------------------------------- the harness


def test_everything_runs_at_tiny_scale(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workloads = [tpch(name, tmp_path / "data") for name in COLUMNS]
    workloads += [chain.scaled(SIZE.rows).workload(SIZE.batches, tmp_path / "data") for chain in CHAINS]
    found = plans.measure(in_process, workloads, SIZE, cache=tmp_path / "data")
    plans.show(found)
    numbers, drawing = plans.save(found, SIZE, 1.0, tmp_path / "out")

    assert all(f.right for f in found.all)
    assert {name: tuple(each) for name, each in found.timed.items()} == dict.fromkeys(
        [*COLUMNS, *(chain.name for chain in CHAINS)], STRATEGIES
    )
    said = capsys.readouterr().out
    assert "WRONG" not in said
    assert "simulated cluster" in said
    assert all(row in said for row in ("A35", "A38", "A39", "A41", "A43"))
    assert len(json.loads(numbers.read_text())["timed"]) == len(workloads) * len(STRATEGIES)
    assert ElementTree.parse(drawing).getroot().tag.endswith("svg")


def test_of_a_simulated_wave_the_slowest_worker_counts() -> None:
    spent = {(0, 0): 4.0, (1, 0): 1.0, (1, 1): 3.0, (2, 0): 2.0, (2, 1): 0.5}
    assert cluster_seconds(spent, 2) == 4 / 2 + 3 + 2


def test_a_simulated_cluster_is_timed_by_its_workers(tmp_path: Path) -> None:
    streams = MMM.scaled(500).workload(2, tmp_path)
    setting = Setting("flat k=4", "flat", 4, "scattered")
    alone, together = (host(streams, setting, streams.truth()) for host in (on_cluster, in_process))
    assert alone.right
    assert (alone.sent, alone.stored) == (together.sent, together.stored)
    assert alone.seconds > 0


def test_wrong_answer_is_marked(tmp_path: Path) -> None:
    streams = MMM.scaled(50).workload(2, tmp_path)
    count, total = streams.truth()
    found = in_process(streams, Setting("flat", "flat"), (count, total + 1))
    assert not found.right
    assert "WRONG" in "\n".join(tables.plans({"MMM": {"flat": found}}))
