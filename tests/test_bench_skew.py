"""The measurement of schemes: its keys are as uneven as it says, its tables are the papers', and all of it runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench import skew
from bench.runs import Setting, in_process
from bench.skewdata import MAKERS, most_frequent, workload
from bench.skewsim import TABLE_10G, joins, reachability, simulate, supplier, tpch9, web_analytics

SIZE = skew.Size(share=0.006, simulated=0.002, batches=3, repeats=1, counted_workers=8)


def test_lines_prefer_one_part_and_have_its_suppliers(tmp_path: Path) -> None:
    made = workload("tpch9", 0.01, 2, tmp_path)
    assert most_frequent(made, "lineitem", "l_partkey") == pytest.approx(0.61, abs=0.03)
    assert made.rows["part"] == pytest.approx(made.rows["partsupp"] / 4 / 19, rel=0.1)
    assert made.statistics.heavy("lineitem", "l_partkey")
    assert made.truth()[0] > 0


def test_four_suppliers_of_a_part_are_different() -> None:
    parts = np.arange(1, 500)
    found = np.stack([supplier(parts, np.full(len(parts), turn), 100) for turn in range(4)])
    assert all(len(set(column)) == 4 for column in found.T.tolist())


def test_same_seed_gives_same_rows(tmp_path: Path) -> None:
    for name in MAKERS:
        first, again = (workload(name, 0.005, 2, tmp_path / folder) for folder in ("one", "two"))
        assert first.truth() == again.truth()
        assert first.statistics == again.statistics


def test_tables_1_and_2_come_out_of_routing_a_part_of_the_rows() -> None:
    found = {s.scheme: s for s in simulate(tpch9("10G", 8, TABLE_10G), 0.005)}
    assert found["hash"].most / 1e6 == pytest.approx(38.5, rel=0.08)
    for scheme in TABLE_10G:
        _, mean, copies = found[scheme].paper
        assert found[scheme].mean / 1e6 == pytest.approx(mean, rel=0.02)
        assert found[scheme].replication == pytest.approx(copies, rel=0.01)
    assert found["random"].most / 1e6 == pytest.approx(15.6, rel=0.01)
    assert found["parted"].most < min(found[scheme].most for scheme in TABLE_10G)


def test_reachability_and_hub_come_out_of_routing() -> None:
    found = {s.scheme: s for s in simulate(reachability(), 0.002)}
    assert found["hash"].dims == (6, 6)
    assert found["hash"].mean / 1e6 == pytest.approx(3.683, rel=0.001)
    assert found["hash"].replication == pytest.approx(13 / 3, rel=0.001)
    hub = {s.scheme: s for s in simulate(web_analytics(), 0.002)}
    assert [hub[scheme].dims for scheme in ("hash", "random", "hybrid")] == [(20, 2), (2, 20), (20, 2)]
    assert hub["hybrid"].mean / 1e6 == pytest.approx(4.1515, rel=0.01)
    assert hub["parted"].most <= hub["hybrid"].most * 1.01 < hub["hash"].most


def test_everything_runs_at_tiny_scale(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    simulated = skew.route_all(joins(), SIZE)
    workloads = [workload(name, SIZE.share, SIZE.batches, tmp_path / "data") for name in MAKERS]
    found = skew.measure(in_process, workloads, SIZE, simulated)
    skew.show_simulated(simulated)
    skew.show(found)
    numbers = json.loads(skew.save(found, SIZE, 1.0, tmp_path / "out").read_text())

    assert found.right
    assert {name: tuple(each) for name, each in found.loads.items()} == dict.fromkeys(MAKERS, tuple(skew.SCHEMES))
    said = capsys.readouterr().out
    assert "WRONG" not in said
    assert all(name in said for name in ("TPCH9 10G", "TPCH9 80G", "WebAnalytics", "3-Reachability", "TaskCount"))
    assert len(numbers["loads"]) == len(MAKERS) * len(skew.SCHEMES)


def test_wrong_answer_is_marked(tmp_path: Path) -> None:
    made = workload("tasks", 0.005, 2, tmp_path)
    rows, total = made.truth()
    run = skew.count(made, Setting("hash", "hypercube:hash", 4), (rows, total + 1))
    assert not run.right
    assert "WRONG" in "\n".join(skew.load_lines({"tasks": {"hash": run}}))
    assert not skew.Found([], {"tasks": {"hash": run}}, {}, {}).right


def test_missed_targets_are_marked(tmp_path: Path) -> None:
    made = workload("tasks", 0.005, 2, tmp_path)
    run = skew.count(made, Setting("hash", "hypercube:hash", 4), made.truth())
    slow, quick = (
        replace(in_process(made, Setting(label, "flat"), made.truth()), seconds=seconds)
        for label, seconds in (("auto", 2.0), ("flat", 1.0))
    )
    found = skew.Found(
        [],
        {"tasks": {"hash": run, "hybrid": replace(run, most=run.most * 2)}},
        {"tasks": {"flat": quick, "auto": slow}},
        {"tasks": {"flat": "flat", "auto": "flat"}},
    )
    said = list(skew.verdicts(found))
    assert sum("MISSED" in line for line in said) == 2
